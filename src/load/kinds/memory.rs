//! `memory`: copies between large buffers, so that caches and memory channels are busy.

use super::{LoadEnvironment, LoadKind, LoadWork, PreparedLoad, own, size};
use std::hint::black_box;

/// What each CPU copies from and to, together: more than its share of most last-level caches.
const BUFFER_BYTES: usize = 64 << 20;
/// Less is no load on memory.
const LEAST_BYTES: usize = 2 << 20;
/// All together take at most this part of what is free.
const PART: usize = 4;
/// Bytes between two looks at the counter.
const STEP_BYTES: usize = 1 << 20;

/// See the file.
#[derive(Debug)]
pub struct MemoryLoad;

impl LoadKind for MemoryLoad {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn summary(&self) -> &'static str {
        "copies between large buffers on each CPU: memory bandwidth and the shared cache"
    }

    fn page(&self) -> &'static str {
        "For each CPU a thread that copies one buffer into another, 32 MiB each, again and again \
         (a quarter of the memory that is free at most, all together). Each CPU's share of a \
         last-level cache is smaller on most machines, so what a shielded CPU has in a cache that \
         it shares is pushed out, and memory channels are busy: a shield of the scheduler and of \
         interrupts does not keep that away.\n\n\
         Bytes that were copied count; each is read once and written once.\n\n\
         Source: STREAM's Copy (McCalpin) is the same measure; `MemAvailable` of proc_meminfo(5)."
    }

    fn unit(&self) -> &'static str {
        "bytes"
    }

    fn possible(&self, site: &LoadEnvironment<'_>) -> Result<(), String> {
        buffer(site).map(drop)
    }

    fn prepare(&self, site: &LoadEnvironment<'_>) -> Result<PreparedLoad, String> {
        let half = buffer(site)? / 2;
        let workers = site.cpus.iter().map(|cpu| (Some(cpu), worker(half))).collect();
        let each = size(half as u64);
        let what = format!("a thread on each CPU that copies between two buffers of {each}");
        Ok(own(what, workers))
    }
}

/// How much each CPU may have.
fn buffer(site: &LoadEnvironment<'_>) -> Result<usize, String> {
    let text = site.host.read("/proc/meminfo").map_err(|e| e.to_string())?;
    let free = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let free = free.and_then(|rest| rest.split_whitespace().next()?.parse::<usize>().ok());
    let free = free.ok_or("/proc/meminfo does not say how much memory is free (MemAvailable)")?;
    shared(free.saturating_mul(1024), site.cpus.len())
}

fn shared(free: usize, cpus: usize) -> Result<usize, String> {
    let each = free / PART / cpus.max(1);
    if each < LEAST_BYTES {
        return Err(format!("only {} of memory are free for {cpus} CPUs", size(free as u64)));
    }
    Ok(each.min(BUFFER_BYTES) / (2 * STEP_BYTES) * 2 * STEP_BYTES)
}

fn worker(half: usize) -> LoadWork {
    Box::new(move |meter| {
        // Taken on its own CPU: memory of the node that is near.
        let mut from = vec![1_u8; half];
        let mut to = vec![2_u8; half];
        loop {
            for (from, to) in from.chunks(STEP_BYTES).zip(to.chunks_mut(STEP_BYTES)) {
                to.copy_from_slice(from);
                meter.add(black_box(&*to).len() as u64);
            }
            std::mem::swap(&mut from, &mut to);
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_bounded_and_little_is_refused() {
        assert_eq!(shared(64 << 30, 4), Ok(BUFFER_BYTES));
        assert_eq!(shared(1 << 30, 64), Ok(4 << 20));
        assert_eq!(shared((1 << 30) + 4096, 63), Ok(4 << 20));
        assert!(shared(1 << 20, 1).is_err());
        assert!((1..300).all(|cpus| shared(8 << 30, cpus).unwrap() * cpus <= 2 << 30));
    }
}
