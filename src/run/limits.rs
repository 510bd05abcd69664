//! What the kernel itself leaves to others when a real-time program never sleeps, in sentences, and
//! the one wish that is refused because it would leave them nothing.

use super::RunError;
use cpushield_linux::{CpuSet, Host, SchedPolicy};

/// Of a period, the percentage that SCHED_DEADLINE programs may have at most: what the kernel
/// grants by default (`sched_rt_runtime_us` 950000 of 1000000). A shield may have lifted it.
const DEADLINE_PERCENT_MAX: u64 = 95;

/// Refuses a budget that leaves a CPU nothing: SCHED_DEADLINE is above every thread that could be
/// raised.
///
/// # Errors
/// The share is too large, or the times contradict each other.
pub fn check(policy: SchedPolicy) -> Result<(), RunError> {
    let SchedPolicy::Deadline { runtime_ns, deadline_ns, period_ns } = policy else {
        return Ok(());
    };
    let refuse =
        |why: String, instead: &str| Err(RunError::Unsafe { why, instead: instead.to_owned() });
    if runtime_ns == 0 || runtime_ns > deadline_ns || deadline_ns > period_ns {
        return refuse(
            "the kernel wants 0 < runtime ≤ deadline ≤ period".to_owned(),
            "a budget looks like 300us/1ms/1ms",
        );
    }
    if u128::from(runtime_ns) * 100 > u128::from(period_ns) * u128::from(DEADLINE_PERCENT_MAX) {
        return refuse(
            format!(
                "a budget of more than {DEADLINE_PERCENT_MAX} % of the period starves the kernel"
            ),
            "ask for less, or for no policy at all: nothing competes with the program in a shield",
        );
    }
    Ok(())
}

/// What others get on these CPUs while a SCHED_FIFO or SCHED_RR program does not sleep.
#[must_use]
pub fn sentences(host: &Host, cpus: &CpuSet) -> Vec<String> {
    let mut said = Vec::new();
    let number = |path: &str| host.read_line(path).ok()?.parse::<i64>().ok();
    let fair = |cpu| number(&format!("/sys/kernel/debug/sched/fair_server/cpu{cpu}/runtime"));
    let served: CpuSet = cpus.iter().filter(|cpu| fair(*cpu).is_some_and(|ns| ns > 0)).collect();
    let unserved: CpuSet = cpus.iter().filter(|cpu| fair(*cpu) == Some(0)).collect();
    if !served.is_empty() {
        said.push(format!(
            "ordinary threads of CPU {served} that wait get some of its time from the fair server"
        ));
    }
    if !unserved.is_empty() {
        said.push(format!(
            "the fair server is off on CPU {unserved}: while the program does not sleep, ordinary \
             kernel threads there (kworkers) do not run, and what waits for them waits too"
        ));
    }
    if !served.is_empty() || !unserved.is_empty() {
        // Since 6.12, which brought the fair server, throttling is left for groups only (commit
        // 5f6bd380c7bd).
        return said;
    }
    let runtime = number("/proc/sys/kernel/sched_rt_runtime_us");
    let period = number("/proc/sys/kernel/sched_rt_period_us");
    match (runtime, period) {
        (Some(-1), _) => said.push(
            "real-time throttling is off: while the program does not sleep, ordinary kernel \
             threads of its CPU (kworkers) do not run, and what waits for them waits too"
                .to_owned(),
        ),
        (Some(runtime), Some(period)) if runtime < period => said.push(format!(
            "real-time throttling is on: a program that does not sleep is stopped for {} of every \
             {period} µs",
            period - runtime
        )),
        _ => {}
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_must_leave_time_and_make_sense() {
        let budget = |runtime_ns, deadline_ns, period_ns| {
            check(SchedPolicy::Deadline { runtime_ns, deadline_ns, period_ns })
        };
        assert!(budget(950, 1000, 1000).is_ok());
        assert!(budget(951, 1000, 1000).is_err());
        assert!(budget(0, 1000, 1000).is_err());
        assert!(budget(500, 400, 1000).is_err());
        assert!(budget(500, 2000, 1000).is_err());
        assert!(budget(u64::MAX, u64::MAX, u64::MAX).is_err());
        assert!(check(SchedPolicy::Fifo { priority: 99 }).is_ok());
    }
}
