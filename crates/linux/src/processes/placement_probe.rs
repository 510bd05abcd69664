//! Finds out where the scheduler runs ordinary threads that are not pinned.

use crate::cpuset::CpuSet;
use crate::sys::sched;
use crate::sys::sched_policy::SchedPolicy;
use std::io;
use std::time::{Duration, Instant};

/// Runs this many busy threads that may use all of these CPUs, as far as their cpuset permits.
/// Returns the CPUs on which one of them ran.
///
/// # Errors
/// A thread cannot be started, or the kernel refuses it these CPUs.
pub fn probe_placement(cpus: &CpuSet, threads: usize, span: Duration) -> io::Result<CpuSet> {
    let ran = std::thread::scope(|scope| {
        let spinners: Vec<_> = (0..threads)
            .map(|_| {
                let thread = std::thread::Builder::new();
                thread.spawn_scoped(scope, || spin_unpinned(cpus, span))
            })
            .collect();
        let ran: io::Result<Vec<CpuSet>> = spinners
            .into_iter()
            .map(|spinner| spinner?.join().unwrap_or_else(|_| Err(io::Error::other("it panicked"))))
            .collect();
        ran
    })?;
    Ok(ran.into_iter().flat_map(|ran| ran.iter().collect::<Vec<usize>>()).collect())
}

/// Keeps the calling thread busy and returns the CPUs on which it ran.
fn spin_unpinned(cpus: &CpuSet, span: Duration) -> io::Result<CpuSet> {
    // The caller may be a real-time thread on a few CPUs, and threads inherit both.
    sched::set_policy(0, SchedPolicy::Other { nice: 0 })?;
    sched::set_affinity(0, cpus)?;
    let mut ran = CpuSet::new();
    let began = Instant::now();
    while began.elapsed() < span {
        ran.insert(sched::current_cpu());
    }
    Ok(ran)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_run_only_where_they_may_and_all_of_them_are_seen() {
        let allowed = sched::affinity(0).unwrap();
        let one = CpuSet::single(allowed.first().unwrap());
        let span = Duration::from_millis(5);
        assert_eq!(probe_placement(&one, 3, span).unwrap(), one);
        let all = probe_placement(&allowed, 2, span).unwrap();
        assert!(!all.is_empty() && all.is_subset(&allowed), "{all}");
        let nowhere = probe_placement(&CpuSet::single(4095), 1, span);
        assert!(nowhere.is_err(), "{nowhere:?}");
    }
}
