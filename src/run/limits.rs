//! Describes the CPU time that the kernel leaves to other threads when a real-time program never
//! sleeps, and refuses the one policy that would leave them none.

use super::RunError;
use crate::apply::ThreadServer;
use cpushield_linux::{CpuSet, Host, SchedPolicy};

/// The maximum percentage of a period for SCHED_DEADLINE programs: what the kernel grants by
/// default (`sched_rt_runtime_us` 950000 of 1000000). A shield may have lifted it.
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
    if runtime_ns == 0 || runtime_ns > deadline_ns || deadline_ns > period_ns {
        return Err(refuse(
            "the kernel requires 0 < runtime ≤ deadline ≤ period".to_owned(),
            "use a budget such as 300us/1ms/1ms",
        ));
    }
    if u128::from(runtime_ns) * 100 > u128::from(period_ns) * u128::from(DEADLINE_PERCENT_MAX) {
        return Err(refuse(
            format!(
                "a budget of more than {DEADLINE_PERCENT_MAX} % of the period starves the kernel"
            ),
            "use a smaller budget, or omit --deadline: nothing competes with the program in a \
             shield",
        ));
    }
    Ok(())
}

fn refuse(why: String, instead: &str) -> RunError {
    RunError::DangerousRequest { why, instead: instead.to_owned() }
}

/// Describes what other threads get on these CPUs while a SCHED_FIFO or SCHED_RR program does not
/// sleep.
#[must_use]
pub fn sentences(host: &Host, cpus: &CpuSet) -> Vec<String> {
    let mut sentences = Vec::new();
    let server = ThreadServer::of_kernel_threads(host);
    let runtime_ns = |cpu: &usize| server.runtime_ns(host, *cpu);
    let served: CpuSet =
        cpus.iter().filter(|cpu| runtime_ns(cpu).is_some_and(|ns| ns > 0)).collect();
    let unserved: CpuSet = cpus.iter().filter(|cpu| runtime_ns(cpu) == Some(0)).collect();
    let name = server.name();
    if !served.is_empty() {
        sentences
            .push(format!("the {name} gives waiting ordinary threads some time on CPU {served}"));
    }
    if !unserved.is_empty() {
        sentences.push(format!(
            "the {name} is off on CPU {unserved}: while the program does not sleep, ordinary \
             kernel threads there (kworkers) do not run, and everything that depends on them waits"
        ));
    }
    if !served.is_empty() || !unserved.is_empty() {
        // Since 6.12, which added the fair server, throttling applies to groups only (commit
        // 5f6bd380c7bd).
        return sentences;
    }
    let runtime: Option<i64> = host.read_value("/proc/sys/kernel/sched_rt_runtime_us");
    let period = host.read_value("/proc/sys/kernel/sched_rt_period_us");
    match (runtime, period) {
        (Some(-1), _) => sentences.push(
            "real-time throttling is off: while the program does not sleep, ordinary kernel \
             threads on its CPU (kworkers) do not run, and everything that depends on them waits"
                .to_owned(),
        ),
        (Some(runtime), Some(period)) if runtime < period => sentences.push(format!(
            "real-time throttling is on: a program that does not sleep is stopped for {} of every \
             {period} µs",
            period - runtime
        )),
        _ => {}
    }
    sentences
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
