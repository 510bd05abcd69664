//! Finds the threads that a kernel tracer starts, and reads their run time.

use super::measurement_process::ThreadPlacement;
use super::order::LatencyError;
use cpushield_linux::{Host, SchedPolicy, sys::sched};
use std::time::{Duration, Instant};

/// How long to wait for kernel threads that were started.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The initial policy of timerlat's threads (`DEFAULT_TIMERLAT_PRIO`,
/// kernel/trace/trace_osnoise.c).
const INITIAL_POLICY: SchedPolicy = SchedPolicy::Fifo { priority: 95 };

/// Finds the tracer's kernel threads and sets the requested policy.
pub(super) fn find_tracer_threads(
    host: &Host,
    name: &str,
    placements: &[ThreadPlacement],
) -> Result<Vec<i32>, LatencyError> {
    let mut tids = Vec::new();
    for placement in placements {
        // They set their own policy first.
        let tid = wait_for_kthread(host, &format!("{name}{}", placement.cpu), &|tid| {
            host.scheduling(tid).is_ok_and(|policy| policy == INITIAL_POLICY)
        })?;
        let policy = placement.policy;
        sched::set_policy(tid, policy)
            .map_err(|error| LatencyError::Policy { policy, why: error.to_string() })?;
        tids.push(tid);
    }
    Ok(tids)
}

/// Waits until a kernel thread of this name exists and is ready. Returns its number.
pub(super) fn wait_for_kthread(
    host: &Host,
    name: &str,
    is_ready: &dyn Fn(i32) -> bool,
) -> Result<i32, LatencyError> {
    let give_up = Instant::now() + TIMEOUT;
    loop {
        let tasks = host.tasks()?;
        // A program may have the same name.
        let found = tasks.iter().find(|task| task.kthread && task.comm == name);
        if let Some(tid) = found.map(|task| task.pid).filter(|tid| is_ready(*tid)) {
            return Ok(tid);
        }
        if Instant::now() >= give_up {
            return Err(LatencyError::Threads { why: format!("the kernel did not start {name}") });
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Reads how long a thread has run, in nanoseconds (`/proc/*/schedstat`, CONFIG_SCHED_INFO).
pub(super) fn run_time_ns(host: &Host, tid: i32) -> Option<u64> {
    let line = host.read_line(&format!("/proc/{tid}/schedstat")).ok()?;
    line.split_whitespace().next()?.parse().ok()
}
