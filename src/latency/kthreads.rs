//! The threads that a tracer of the kernel begins: finding them, and what they did.

use super::measurement_process::ThreadPlacement;
use super::order::LatencyError;
use cpushield_linux::{Host, SchedPolicy, sched};
use std::time::{Duration, Instant};

/// Threads of the kernel that were begun are there after this.
const PATIENCE: Duration = Duration::from_secs(5);
/// What timerlat's threads give themselves (`DEFAULT_TIMERLAT_PRIO`, kernel/trace/trace_osnoise.c).
const BORN: SchedPolicy = SchedPolicy::Fifo { priority: 95 };

/// The kernel's threads, with the policy that was asked for.
pub(super) fn kernels(
    host: &Host,
    name: &str,
    seats: &[ThreadPlacement],
) -> Result<Vec<i32>, LatencyError> {
    // They take a policy of their own first.
    let born = |tid: i32| host.scheduling(tid).is_ok_and(|policy| policy == BORN);
    let mut tids = Vec::new();
    for seat in seats {
        let tid = kernels_own(host, &format!("{name}{}", seat.cpu), &born)?;
        let policy = seat.policy;
        sched::set_policy(tid, policy)
            .map_err(|error| LatencyError::Policy { policy, why: error.to_string() })?;
        tids.push(tid);
    }
    Ok(tids)
}

/// A thread that the kernel has begun, once it is ready.
pub(super) fn kernels_own(
    host: &Host,
    name: &str,
    is_ready: &dyn Fn(i32) -> bool,
) -> Result<i32, LatencyError> {
    let give_up = Instant::now() + PATIENCE;
    loop {
        let tasks = host.tasks()?;
        let found = tasks.iter().find(|task| task.comm == name).map(|task| task.pid);
        if let Some(tid) = found.filter(|tid| is_ready(*tid)) {
            return Ok(tid);
        }
        if Instant::now() >= give_up {
            return Err(LatencyError::Threads { why: format!("the kernel did not start {name}") });
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// How long a thread has run, in nanoseconds (`/proc/*/schedstat`, CONFIG_SCHED_INFO).
pub(super) fn ran_ns(host: &Host, tid: i32) -> Option<u64> {
    let line = host.read_line(&format!("/proc/{tid}/schedstat")).ok()?;
    line.split_whitespace().next()?.parse().ok()
}
