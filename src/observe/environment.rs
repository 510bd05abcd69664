//! What must not change while CPUs are watched, because the figures would be wrong: the CPUs stay
//! online, the workload stays on them, no process sets the clock, the kernel keeps its clock
//! source, the time stamp counter keeps its rate, and no other process uses the tracer.
//! [`read`] reads a snapshot; [`changed`] compares two snapshots and is pure.

use crate::documents::evidence::{BlindSpot, CircumstanceChange, CpuDoubt};
use cpushield_linux::processes::closer::CLOSER;
use cpushield_linux::sys::clock::{ClockReading, TickScale, realtime_offset_ns};
use cpushield_linux::{CpuSet, Host, Task};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// The offset of the wall clock may change by this much when no process sets it: slewing changes
/// it by 500 parts per million at most (adjtimex(2)), and two clocks are not read at the same
/// moment.
const STEP_NS: u64 = 10_000_000;

/// The rate of the counter may differ by this much between two parts of a run.
const RATE_PPM: f64 = 200.0;

/// The environment at one moment; `None` where it cannot be read.
#[derive(Debug, Clone, PartialEq)]
pub struct EnvironmentSnapshot {
    /// The kernel's clock source.
    clocksource: Option<String>,
    /// The wall clock minus the monotonic clock, in nanoseconds.
    offset_ns: i64,
    /// The time stamp counter and the monotonic clock, read together.
    pub at: ClockReading,
    /// The top-level trace, which other processes use.
    tracer: Option<TopLevelTrace>,
}

/// The settings of the top-level trace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct TopLevelTrace {
    /// The current tracer; `nop` when there is none.
    current: String,
    /// Whether events are enabled: `0`, `1`, or `X` for some of them.
    events: String,
}

impl TopLevelTrace {
    fn running_tracer(&self) -> Option<String> {
        (self.current != "nop").then(|| self.current.clone())
    }
}

/// Reads a snapshot, without disturbing the watched CPUs.
pub fn read(host: &Host) -> EnvironmentSnapshot {
    let clocksource = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    EnvironmentSnapshot {
        clocksource: host.read_line(clocksource).ok(),
        offset_ns: realtime_offset_ns(),
        at: ClockReading::now(),
        tracer: read_top_level_trace(host),
    }
}

fn read_top_level_trace(host: &Host) -> Option<TopLevelTrace> {
    let current = host.read_line("/sys/kernel/tracing/current_tracer").ok()?;
    let events = host.read_line("/sys/kernel/tracing/events/enable").unwrap_or_default();
    Some(TopLevelTrace { current, events })
}

/// What changed between `before` and `after`; `first` is a snapshot from before the warm-up.
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
    if after.at.ticks < before.at.ticks {
        changes.push(CircumstanceChange::CounterWentBack);
    }
    if let (Some(a), Some(b)) =
        (TickScale::between(first.at, before.at), TickScale::between(before.at, after.at))
    {
        let difference_ppm = (a.ns_per_tick / b.ns_per_tick - 1.0).abs() * 1e6;
        if difference_ppm > RATE_PPM + a.error_ppm + b.error_ppm {
            changes.push(CircumstanceChange::CounterRate { by_ppm: difference_ppm });
        }
    }
    changes.extend(compare_tracers(before.tracer.as_ref(), after.tracer.as_ref()));
    changes
}

/// What other processes did with the top-level trace. A running tracer makes the kernel slower, and
/// switching one on or off interrupts every CPU.
fn compare_tracers(
    before: Option<&TopLevelTrace>,
    after: Option<&TopLevelTrace>,
) -> Option<CircumstanceChange> {
    let (before, after) = (before?, after?);
    match (before.running_tracer(), after.running_tracer()) {
        (None, None) if before.events == after.events => None,
        (None, None) => Some(CircumstanceChange::TraceEvents),
        (Some(tracer), Some(b)) if tracer == b => Some(CircumstanceChange::TracerRuns { tracer }),
        (a, b) => {
            let tracer = b.or(a).unwrap_or_default();
            Some(CircumstanceChange::TracerSwitched { tracer })
        }
    }
}

/// The watched CPUs that are offline now; `None` when all are online.
pub fn offline(host: &Host, cpus: &CpuSet) -> Option<CpuSet> {
    Some(cpus.difference(&host.online_cpus().ok()?)).filter(|offline| !offline.is_empty())
}

/// A thread of the workload that was on a watched CPU before and is on another CPU now. `placed`
/// holds the threads that were on a watched CPU, and is updated.
pub fn strayed(
    host: &Host,
    threads: &[i32],
    cpus: &CpuSet,
    placed: &mut BTreeSet<i32>,
) -> Option<CpuDoubt> {
    let mut strayed = None;
    for tid in threads {
        let Ok(task) = host.task(*tid, *tid) else { continue };
        if cpus.contains(task.cpu) {
            placed.insert(*tid);
        } else if placed.remove(tid) {
            let (comm, cpu) = (task.comm, task.cpu);
            strayed = Some(CpuDoubt::WorkloadMoved { comm, tid: *tid, cpu });
        }
    }
    strayed
}

/// Why the clock of the sampler may be wrong; `None` when it can be trusted. On x86 the kernel
/// offers the TSC as a clocksource only where it found it stable and synchronized across all CPUs.
#[must_use]
pub fn untrusted_clock(host: &Host) -> Option<BlindSpot> {
    if !cfg!(target_arch = "x86_64") {
        return None;
    }
    let path = "/sys/devices/system/clocksource/clocksource0/available_clocksource";
    let text = host.read_line(path).ok()?;
    let trusted = text.split_whitespace().any(|name| name == "tsc");
    (!trusted).then_some(BlindSpot::UntrustedTsc)
}

/// How long to wait for earlier watches. A busy real-time thread may keep them for longer.
const CLOSERS_MAX: Duration = Duration::from_secs(30);

/// Waits until earlier watches have closed their counters, which interrupts every CPU.
pub fn wait_for_closers(host: &Host, stop: &dyn Fn() -> bool) {
    let is_closer = |task: &Task| task.comm == CLOSER && !task.has_ended();
    let began = Instant::now();
    while !stop()
        && began.elapsed() < CLOSERS_MAX
        && host.tasks().is_ok_and(|tasks| tasks.iter().any(is_closer))
    {
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Whether unbound work may run on these CPUs, such as the work that a write to a terminal queues
/// (tty_flip_buffer_push() in drivers/tty/tty_buffer.c, 6.12).
#[must_use]
pub fn takes_unbound_work(host: &Host, cpus: &CpuSet) -> bool {
    let mask = host.read_line("/sys/devices/virtual/workqueue/cpumask").ok();
    let mask = mask.and_then(|mask| CpuSet::parse_mask(&mask).ok());
    mask.is_none_or(|mask| mask.intersects(cpus))
}

#[cfg(test)]
mod tests {
    use super::*;
    use cpushield_linux::sys::clock::ClockTicks;

    fn at(seconds: u64, rate: u64) -> EnvironmentSnapshot {
        let raw_ns = seconds * 1_000_000_000;
        let ticks = ClockTicks(raw_ns / 1_000_000 * rate);
        EnvironmentSnapshot {
            clocksource: Some("tsc".to_owned()),
            offset_ns: 1_000_000_000_000,
            at: ClockReading { ticks, raw_ns, error_ticks: ClockTicks(10) },
            tracer: Some(TopLevelTrace { current: "nop".to_owned(), events: "0".to_owned() }),
        }
    }

    #[test]
    fn an_unchanged_environment_is_no_doubt_and_each_change_is_named() {
        let (first, before, after) = (at(1, 2_000_000), at(2, 2_000_000), at(12, 2_000_000));
        let with = |change: &dyn Fn(&mut EnvironmentSnapshot)| {
            let mut after = after.clone();
            change(&mut after);
            changed(&first, &before, &after).iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(with(&|_| ()), Vec::<String>::new());
        assert_eq!(with(&|c| c.offset_ns += 4_000_000), Vec::<String>::new(), "slewed");
        assert_eq!(
            with(&|c| c.offset_ns -= 3_000_000_000),
            ["the wall clock was stepped by 3000 ms"]
        );
        assert_eq!(
            with(&|c| c.clocksource = Some("hpet".to_owned())),
            ["the kernel changed its clock source from tsc to hpet"]
        );
        // Ten seconds in which the counter advances by 0.1% too much.
        assert_eq!(
            with(&|c| c.at.ticks.0 += 20_000_000),
            ["the rate of the time stamp counter changed by 1000 ppm"]
        );
        assert_eq!(
            with(&|c| c.at.ticks = ClockTicks(5)),
            ["the time stamp counter went backwards, as it does when the machine is suspended"]
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
    fn a_workload_that_moves_and_a_cpu_that_goes_offline_are_noticed() {
        let host = Host::live();
        let own_pid = i32::try_from(std::process::id()).unwrap();
        let everywhere: CpuSet = (0..4096).collect();
        let elsewhere = CpuSet::single(4095);
        let mut placed = BTreeSet::new();
        assert_eq!(
            strayed(&host, &[own_pid], &elsewhere, &mut placed),
            None,
            "it was never on a watched CPU"
        );
        assert_eq!(strayed(&host, &[own_pid], &everywhere, &mut placed), None);
        let moved = strayed(&host, &[own_pid], &elsewhere, &mut placed);
        assert!(matches!(moved, Some(CpuDoubt::WorkloadMoved { tid, .. }) if tid == own_pid));
        assert_eq!(offline(&host, &CpuSet::single(4095)), Some(CpuSet::single(4095)));
    }
}
