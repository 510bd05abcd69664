//! `fork`: processes that start and end immediately.

use super::{
    LoadEnvironment, LoadKind, LoadRefusal, LoadWork, PreparedLoad, format_bytes, prepare_own,
};
use cpushield_linux::sys::load_syscalls;

/// The memory of a process. Every fork copies its page tables.
const MEMORY_BYTES: usize = 4 << 20;
/// The size of a page; where pages are larger, fewer are written.
const PAGE_BYTES: usize = 4 << 10;
/// Pages written between two forks. Each write is a page fault.
const WRITTEN_PAGES: usize = 32;

pub(super) const FORK: LoadKind = LoadKind {
    name: "fork",
    summary: "processes that start and end immediately: page tables, page faults, RCU, the allocator",
    page: "On each CPU, a separate process repeatedly forks a child that exits immediately. It waits \
     for the child to exit, and then writes to 32 pages of its own memory. Each of these \
     writes causes a page fault (copy on write); there are fewer faults where the kernel gives \
     the process transparent huge pages. The process has 4 MiB of memory, and every fork \
     copies its page tables. There is at most one child on each CPU. Processes that have \
     exited leave deferred work for the kernel: RCU callbacks and pages to free.\n\n\
     The count is the number of children that exited. lat_proc in lmbench measures the same \
     operation.\n\n\
     Source: fork(2).",
    unit: "processes",
    needs_process_per_cpu: true,
    prepare,
    ..LoadKind::PLAIN
};

fn prepare(environment: &LoadEnvironment<'_>) -> Result<PreparedLoad, LoadRefusal> {
    let workers = environment.cpus.iter().map(|cpu| (Some(cpu), make_worker())).collect();
    let what =
        format!("on each CPU, a process of {} that forks", format_bytes(MEMORY_BYTES as u64));
    Ok(prepare_own(what, workers))
}

fn make_worker() -> LoadWork {
    Box::new(|counter| {
        let mut memory = vec![1_u8; MEMORY_BYTES];
        let step = MEMORY_BYTES / PAGE_BYTES / WRITTEN_PAGES * PAGE_BYTES;
        loop {
            load_syscalls::fork_and_wait()?;
            counter.add(1);
            for byte in memory.iter_mut().step_by(step) {
                *byte = byte.wrapping_add(1);
            }
        }
    })
}
