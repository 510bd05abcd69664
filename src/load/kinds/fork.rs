//! `fork`: processes that are begun and end at once.

use super::{LoadEnvironment, LoadKind, LoadWork, PreparedLoad, own, size};
use cpushield_linux::load_syscalls;

/// Memory whose page tables every fork copies.
const MEMORY_BYTES: usize = 4 << 20;
/// Bytes of a page; where pages are larger, fewer are touched.
const PAGE_BYTES: usize = 4 << 10;
/// Pages that are written to between two forks, each a page fault.
const WRITTEN: usize = 32;

/// See the file.
#[derive(Debug)]
pub struct ForkLoad;

impl LoadKind for ForkLoad {
    fn name(&self) -> &'static str {
        "fork"
    }

    fn summary(&self) -> &'static str {
        "processes that are begun and end at once: page tables, page faults, RCU, the allocator"
    }

    fn page(&self) -> &'static str {
        "On each CPU a process of its own forks a child that ends at once, waits for its end, and \
         writes to 32 pages of its memory, each of which is then a page fault (copy on write). It \
         has 4 MiB of memory, whose page tables every fork copies. There is at most one child on \
         each CPU. What processes leave behind makes work for later: RCU callbacks, freed pages, \
         numbers of processes that go round.\n\n\
         Children that ended count.\n\n\
         Source: fork(2); lat_proc of lmbench is the same measure."
    }

    fn unit(&self) -> &'static str {
        "processes"
    }

    fn is_alone(&self) -> bool {
        true
    }

    fn prepare(&self, site: &LoadEnvironment<'_>) -> Result<PreparedLoad, String> {
        let workers = site.cpus.iter().map(|cpu| (Some(cpu), worker())).collect();
        let what = format!("a process of {} on each CPU that forks", size(MEMORY_BYTES as u64));
        Ok(own(what, workers))
    }
}

fn worker() -> LoadWork {
    Box::new(|meter| {
        let mut memory = vec![1_u8; MEMORY_BYTES];
        let step = MEMORY_BYTES / PAGE_BYTES / WRITTEN * PAGE_BYTES;
        loop {
            load_syscalls::fork_and_wait()?;
            meter.add(1);
            for byte in memory.iter_mut().step_by(step) {
                *byte = byte.wrapping_add(1);
            }
        }
    })
}
