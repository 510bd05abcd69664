//! What must stay as it is while CPUs are watched, or the figures are not what they seem: the CPUs
//! stay online, the workload stays on them, nobody sets the clock, the kernel keeps its clock
//! source, the time stamp counter its rate, and nobody else uses the tracer on the way.
//! [`take`] reads it, [`changed`] is pure and says what was different.

use crate::verify::{CircumstanceChange, CpuDoubt};
use cpushield_linux::clock::{ClockReading, TickScale, realtime_offset_ns};
use cpushield_linux::{CpuSet, Host};
use std::collections::BTreeSet;

/// The offset of the wall clock may change by so much without having been set: slewing changes it
/// by 500 parts per million at most (adjtimex(2)), and two clocks are not read at one moment.
const STEP_NS: u64 = 10_000_000;

/// The rate of the counter may differ between two parts of a run by so much.
const RATE_PPM: f64 = 200.0;

/// What was found at one moment; `None` where it cannot be read.
#[derive(Debug, Clone, PartialEq)]
pub struct EnvironmentSnapshot {
    /// The kernel's clock source.
    clocksource: Option<String>,
    /// The wall clock less the monotonic one, in nanoseconds.
    offset_ns: i64,
    /// The counter and the clock.
    pub at: ClockReading,
    /// What others do with the top-level trace: the tracer, whether events are enabled.
    tracer: Option<TopLevelTrace>,
}

/// The top-level trace, which is not ours.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct TopLevelTrace {
    /// `nop` when there is none.
    current: String,
    /// `1` or `X` when there are some.
    events: String,
}

/// Reads it; asks no watched CPU.
pub fn take(host: &Host) -> EnvironmentSnapshot {
    let line = |path: &str| host.read_line(path).ok();
    let clocks = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    let trace = |file: &str| line(&format!("/sys/kernel/tracing/{file}"));
    EnvironmentSnapshot {
        clocksource: line(clocks),
        offset_ns: realtime_offset_ns(),
        at: ClockReading::now(),
        tracer: trace("current_tracer").map(|current| TopLevelTrace {
            current,
            events: trace("events/enable").unwrap_or_default(),
        }),
    }
}

/// What was different at the end; `first` is from before the warm-up.
pub fn changed(
    first: &EnvironmentSnapshot,
    before: &EnvironmentSnapshot,
    after: &EnvironmentSnapshot,
) -> Vec<CircumstanceChange> {
    let mut changes = Vec::new();
    if let (Some(a), Some(b)) = (&before.clocksource, &after.clocksource)
        && a != b
    {
        changes.push(CircumstanceChange::Clocksource { from: a.clone(), to: b.clone() });
    }
    let step = after.offset_ns.abs_diff(before.offset_ns);
    let slewed = after.at.raw_ns.saturating_sub(before.at.raw_ns) / 2_000;
    if step > STEP_NS.max(slewed) {
        changes.push(CircumstanceChange::ClockSet { by_ns: step });
    }
    if let (Some(a), Some(b)) =
        (TickScale::between(first.at, before.at), TickScale::between(before.at, after.at))
    {
        let apart_ppm = (a.ns_per_tick / b.ns_per_tick - 1.0).abs() * 1e6;
        if apart_ppm > RATE_PPM + a.error_ppm + b.error_ppm {
            changes.push(CircumstanceChange::CounterRate { by_ppm: apart_ppm });
        }
    }
    changes.extend(others(before.tracer.as_ref(), after.tracer.as_ref()));
    changes
}

/// What others do with the tracer: a tracer that runs makes the kernel slower, and switching one
/// on or off interrupts every CPU.
fn others(
    before: Option<&TopLevelTrace>,
    after: Option<&TopLevelTrace>,
) -> Option<CircumstanceChange> {
    let (before, after) = (before?, after?);
    let tracer = |at: &TopLevelTrace| (at.current != "nop").then(|| at.current.clone());
    match (tracer(before), tracer(after)) {
        (None, None) if before.events == after.events => None,
        (None, None) => Some(CircumstanceChange::TraceEvents),
        (Some(tracer), Some(b)) if tracer == b => Some(CircumstanceChange::TracerRuns { tracer }),
        (a, b) => {
            let tracer = b.or(a).unwrap_or_default();
            Some(CircumstanceChange::TracerSwitched { tracer })
        }
    }
}

/// Which of the watched CPUs are offline now.
pub fn offline(host: &Host, cpus: &CpuSet) -> Option<CpuSet> {
    Some(cpus.minus(&host.online_cpus().ok()?)).filter(|gone| !gone.is_empty())
}

/// A thread of the workload that was on a watched CPU before (`seated`, which is kept up to date)
/// and is on another one now.
pub fn strayed(
    host: &Host,
    threads: &[i32],
    cpus: &CpuSet,
    seated: &mut BTreeSet<i32>,
) -> Option<CpuDoubt> {
    let mut strayed = None;
    for tid in threads {
        let Ok(task) = host.task(*tid, *tid) else { continue };
        if cpus.contains(task.cpu) {
            seated.insert(*tid);
        } else if seated.remove(tid) {
            let (comm, cpu) = (task.comm, task.cpu);
            strayed = Some(CpuDoubt::WorkloadMoved { comm, tid: *tid, cpu });
        }
    }
    strayed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64, rate: u64) -> EnvironmentSnapshot {
        let raw_ns = seconds * 1_000_000_000;
        EnvironmentSnapshot {
            clocksource: Some("tsc".to_owned()),
            offset_ns: 1_000_000_000_000,
            at: ClockReading { ticks: raw_ns / 1_000_000 * rate, raw_ns, error_ticks: 10 },
            tracer: Some(TopLevelTrace { current: "nop".to_owned(), events: "0".to_owned() }),
        }
    }

    #[test]
    fn what_stays_as_it_is_gives_no_doubt_and_what_changes_is_named() {
        let (first, before, after) = (at(1, 2_000_000), at(2, 2_000_000), at(12, 2_000_000));
        let with = |change: &dyn Fn(&mut EnvironmentSnapshot)| {
            let mut after = after.clone();
            change(&mut after);
            changed(&first, &before, &after).iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(with(&|_| ()), Vec::<String>::new());
        assert_eq!(with(&|c| c.offset_ns += 4_000_000), Vec::<String>::new(), "slewed");
        assert_eq!(with(&|c| c.offset_ns -= 3_000_000_000), ["the clock was set, by 3000 ms"]);
        assert_eq!(
            with(&|c| c.clocksource = Some("hpet".to_owned())),
            ["the kernel changed its clock source from tsc to hpet"]
        );
        // Ten seconds of which the counter shows one per mille more.
        assert_eq!(
            with(&|c| c.at.ticks += 20_000_000),
            ["the time stamp counter changed its rate by 1000 ppm"]
        );
        let tracer = |current: &str, events: &str| {
            Some(TopLevelTrace { current: current.to_owned(), events: events.to_owned() })
        };
        assert_eq!(
            with(&|c| c.tracer = tracer("function", "0")),
            ["another process switched the tracer function on or off during the run"]
        );
        assert_eq!(
            with(&|c| c.tracer = tracer("nop", "X")),
            ["another process enabled or disabled trace events during the run"]
        );
        assert_eq!(with(&|c| c.tracer = None), Vec::<String>::new());
        let mut before = before.clone();
        before.tracer = tracer("function", "0");
        let mut after = after.clone();
        after.tracer = tracer("function", "0");
        assert_eq!(
            changed(&first, &before, &after),
            [CircumstanceChange::TracerRuns { tracer: "function".to_owned() }]
        );
    }

    #[test]
    fn a_workload_that_is_elsewhere_and_a_cpu_that_goes_are_noticed() {
        let host = Host::live();
        let me = i32::try_from(std::process::id()).unwrap();
        let everywhere: CpuSet = (0..4096).collect();
        let elsewhere = CpuSet::one(4095);
        let mut seated = BTreeSet::new();
        assert_eq!(strayed(&host, &[me], &elsewhere, &mut seated), None, "it never was there");
        assert_eq!(strayed(&host, &[me], &everywhere, &mut seated), None);
        let moved = strayed(&host, &[me], &elsewhere, &mut seated);
        assert!(matches!(moved, Some(CpuDoubt::WorkloadMoved { tid, .. }) if tid == me));
        assert_eq!(offline(&host, &CpuSet::one(4095)), Some(CpuSet::one(4095)));
    }
}
