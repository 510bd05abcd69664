//! `memory`: copies between large buffers, which keeps caches and memory channels busy.

use super::{
    LoadEnvironment, LoadKind, LoadRefusal, LoadWork, PreparedLoad, format_bytes, prepare_own,
};
use std::hint::black_box;

/// The size of both buffers of a CPU together: more than its share of most last-level caches.
const BUFFER_BYTES_MAX: usize = 64 << 20;
/// Smaller buffers are no load on the memory.
const BUFFER_BYTES_MIN: usize = 2 << 20;
/// All buffers together take at most one part in this many of the free memory.
const FREE_PARTS: usize = 4;
/// The bytes that are copied between two updates of the counter.
const STEP_BYTES: usize = 1 << 20;

pub(super) const MEMORY: LoadKind = LoadKind {
    name: "memory",
    summary: "copies between large buffers on each CPU: memory bandwidth and shared caches",
    page: "A thread on each CPU repeatedly copies a buffer of 32 MiB to another one. All buffers \
     together take at most a quarter of the available memory. On most machines, the buffers \
     are larger than a CPU's share of the last-level cache. So the load evicts a shielded \
     CPU's data from any cache that it shares with the loaded CPUs, and it keeps the memory \
     channels busy. A shield against tasks and interrupts does not prevent that.\n\n\
     The count is the number of bytes copied; each is read once and written once. The Copy \
     kernel of the STREAM benchmark (McCalpin) measures the same operation.\n\n\
     Source: `MemAvailable` in proc_meminfo(5).",
    unit: "bytes",
    check_possible,
    prepare,
    ..LoadKind::PLAIN
};

fn check_possible(environment: &LoadEnvironment<'_>) -> Result<(), LoadRefusal> {
    choose_buffer_bytes(environment).map(drop)
}

fn prepare(environment: &LoadEnvironment<'_>) -> Result<PreparedLoad, LoadRefusal> {
    let half = choose_buffer_bytes(environment)? / 2;
    let workers = environment.cpus.iter().map(|cpu| (Some(cpu), make_worker(half))).collect();
    let each = format_bytes(half as u64);
    let what = format!("on each CPU, a thread that copies between two buffers of {each}");
    Ok(prepare_own(what, workers))
}

/// Decides how large both buffers of a CPU are together.
fn choose_buffer_bytes(environment: &LoadEnvironment<'_>) -> Result<usize, LoadRefusal> {
    let text = environment.host.read("/proc/meminfo").map_err(LoadRefusal::failed)?;
    let free = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let free = free.and_then(|rest| rest.split_whitespace().next()?.parse::<usize>().ok());
    let free = free.ok_or(LoadRefusal::FreeMemoryUnknown)?;
    divide_memory(free.saturating_mul(1024), environment.cpus.len())
}

/// Divides the share of the free memory among the CPUs.
fn divide_memory(free: usize, cpus: usize) -> Result<usize, LoadRefusal> {
    let each = free / FREE_PARTS / cpus.max(1);
    if each < BUFFER_BYTES_MIN {
        return Err(LoadRefusal::TooLittleMemory { free_bytes: free as u64, cpus });
    }
    Ok(each.min(BUFFER_BYTES_MAX) / (2 * STEP_BYTES) * 2 * STEP_BYTES)
}

fn make_worker(half: usize) -> LoadWork {
    Box::new(move |counter| {
        // Allocated on its own CPU, so the memory is on that CPU's NUMA node.
        let mut from = vec![1_u8; half];
        let mut to = vec![2_u8; half];
        loop {
            for (from, to) in from.chunks(STEP_BYTES).zip(to.chunks_mut(STEP_BYTES)) {
                to.copy_from_slice(from);
                counter.add(black_box(&*to).len() as u64);
            }
            std::mem::swap(&mut from, &mut to);
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_limited_and_too_little_memory_is_refused() {
        assert_eq!(divide_memory(64 << 30, 4), Ok(BUFFER_BYTES_MAX));
        assert_eq!(divide_memory(1 << 30, 64), Ok(4 << 20));
        assert_eq!(divide_memory((1 << 30) + 4096, 63), Ok(4 << 20));
        assert!(divide_memory(1 << 20, 1).is_err());
        assert!((1..300).all(|cpus| divide_memory(8 << 30, cpus).unwrap() * cpus <= 2 << 30));
    }
}
