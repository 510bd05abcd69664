//! [`LiveModel`]: what is known from earlier readings; [`LiveFrame`]: what one interval says, a
//! document.

use crate::causes::{Cause, Culprit};
use crate::survey::{Cpu, Topology};
use crate::verify::counters::{self, CounterSnapshot};
use crate::verify::trace::TraceEvidence;
use crate::verify::{CpuDoubt, InterruptionCount, WitnessKind};
use cpushield_linux::CpuSet;
use cpushield_linux::text::stat::CpuTime;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// The version of [`LiveFrame`]'s form.
pub const SCHEMA: u32 = 1;

/// Rates kept for the trend.
const HISTORY: usize = 32;

/// What does not change while it is watched.
#[derive(Debug, Clone, Default)]
pub struct LiveSetup {
    /// The machine's CPUs.
    pub topology: Topology,
    /// CPUs of the shield.
    pub shielded: CpuSet,
    /// Siblings of those that are kept idle.
    pub idle: CpuSet,
    /// The journal cannot be read, so it is not known which CPUs are shielded.
    pub unread: bool,
    /// Isolated at boot, but of no shield of ours.
    pub isolated: CpuSet,
    /// CPUs that this program keeps to; `None` where it may be anywhere.
    pub from: Option<CpuSet>,
}

/// What was read at one moment.
#[derive(Debug, Clone)]
pub struct LiveReading {
    /// Time since some beginning.
    pub at: Duration,
    /// The counters.
    pub counters: CounterSnapshot,
    /// What the trace saw since the reading before; empty without a trace.
    pub traced: Vec<TraceEvidence>,
    /// Threads of the shield's programs: no culprits.
    pub own: Vec<i32>,
}

/// What a CPU is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum CpuRole {
    /// It is shielded.
    Shielded,
    /// Its sibling is shielded and it is kept idle.
    Idle,
    /// It was isolated at boot and is of no shield of ours.
    Isolated,
    /// Everything else.
    Housekeeping,
    /// It is not known whether it is shielded: only root can read the journal.
    Unknown,
}

/// One interval: a line of `watch --json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LiveFrame {
    /// The version of this form: [`SCHEMA`].
    pub schema: u32,
    /// Milliseconds since the watching began.
    pub at_ms: u64,
    /// Length of the interval in milliseconds.
    pub interval_ms: u64,
    /// CPUs that the watching program keeps to; `None` where it may be anywhere.
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub from: Option<CpuSet>,
    /// Every online CPU, by place: node, package, core.
    pub cpus: Vec<CpuLine>,
}

/// One CPU in one interval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CpuLine {
    /// Its number.
    pub cpu: usize,
    /// What it is for.
    pub role: CpuRole,
    /// NUMA node, where the machine has nodes.
    pub node: Option<usize>,
    /// Physical package.
    pub package: Option<i64>,
    /// Core within the package.
    pub core: Option<i64>,
    /// CPUs of the same core, itself included.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub siblings: CpuSet,
    /// Who counted: the trace, or the counters of `/proc`.
    pub witness: WitnessKind,
    /// Entries into the kernel per second; `None` when nothing could count.
    pub entries_per_s: Option<f64>,
    /// Times per second that each cause was seen, those inside others too.
    pub causes_per_s: BTreeMap<Cause, f64>,
    /// Causes that could not be counted: their absence from [`Self::causes_per_s`] says nothing.
    pub unseen: Vec<Cause>,
    /// Times per second a task was put on the CPU; `None` without `/proc/schedstat`.
    pub switches_per_s: Option<f64>,
    /// Part of the time that it was not idle, in percent; `None` when that cannot be read.
    pub busy_percent: Option<f64>,
    /// Part of the time that the hypervisor took, as far as it says so.
    pub steal_percent: Option<f64>,
    /// Who was seen last; `None` when nobody was yet.
    pub last: Option<LastSeen>,
    /// Entries per second of this interval and those before it, oldest first.
    pub history: Vec<f64>,
    /// What makes these figures doubtful.
    #[serde(with = "crate::with_text::list")]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<crate::with_text::WithText<CpuDoubt>>"))]
    pub doubts: Vec<CpuDoubt>,
}

/// Who was seen last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LastSeen {
    /// The kind.
    pub cause: Cause,
    /// Who; empty when nobody can say.
    #[serde(with = "crate::with_text")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::with_text::WithText<Culprit>"))]
    pub culprit: Culprit,
    /// How long ago the interval was in which it was seen, in milliseconds; 0 is this one.
    pub ms_ago: u64,
}

/// What is kept from interval to interval.
#[derive(Debug)]
pub struct LiveModel {
    scene: LiveSetup,
    before: LiveReading,
    begun: Duration,
    /// Who was seen last on each CPU, and when.
    last: BTreeMap<usize, (Duration, Cause, Culprit)>,
    history: BTreeMap<usize, Vec<f64>>,
}

impl LiveModel {
    /// From the first reading on.
    #[must_use]
    pub fn new(scene: LiveSetup, first: LiveReading) -> LiveModel {
        let begun = first.at;
        let (last, history) = (BTreeMap::new(), BTreeMap::new());
        LiveModel { scene, before: first, begun, last, history }
    }

    /// What does not change.
    #[must_use]
    pub fn scene(&self) -> &LiveSetup {
        &self.scene
    }

    /// The next reading: what happened since the one before.
    pub fn next(&mut self, now: LiveReading) -> LiveFrame {
        let interval = now.at.saturating_sub(self.before.at);
        let mut order: Vec<&Cpu> = self.scene.topology.cpus.iter().collect();
        order.sort_by_key(|cpu| (cpu.node, cpu.package, cpu.core, cpu.cpu));
        let mut cpus = Vec::new();
        for cpu in order {
            let mut line = line(&self.scene, cpu, &self.before, &now, interval);
            if let Some((cause, culprit)) = &line.1 {
                self.last.insert(cpu.cpu, (now.at, *cause, culprit.clone()));
            }
            line.0.last = self.last.get(&cpu.cpu).map(|(at, cause, culprit)| LastSeen {
                cause: *cause,
                culprit: culprit.clone(),
                ms_ago: millis(now.at.saturating_sub(*at)),
            });
            let history = self.history.entry(cpu.cpu).or_default();
            history.push(line.0.entries_per_s.unwrap_or(0.0));
            let old = history.len().saturating_sub(HISTORY);
            history.drain(..old);
            line.0.history.clone_from(history);
            cpus.push(line.0);
        }
        let at_ms = millis(now.at.saturating_sub(self.begun));
        self.before = now;
        let from = self.scene.from.clone();
        LiveFrame { schema: SCHEMA, at_ms, interval_ms: millis(interval), from, cpus }
    }
}

/// What one CPU did, and who is to be named for it.
fn line(
    scene: &LiveSetup,
    cpu: &Cpu,
    before: &LiveReading,
    now: &LiveReading,
    interval: Duration,
) -> (CpuLine, Option<(Cause, Culprit)>) {
    let counts = counters::compare(&before.counters, &now.counters, cpu.cpu, &now.own);
    let traced = now.traced.iter().find(|seen| seen.cpu == cpu.cpu);
    let seconds = interval.as_secs_f64();
    let rate = |count: u64| if seconds > 0.0 { count as f64 / seconds } else { 0.0 };
    let (witness, entries, rows, mut doubts) = match traced {
        Some(seen) => {
            let doubts = seen.doubts.clone();
            (WitnessKind::Trace, Some(seen.entries), &seen.interruptions, doubts)
        }
        None => (WitnessKind::Counters, counts.entries, &counts.interruptions, Vec::new()),
    };
    doubts.extend(counts.doubts.iter().cloned());
    let mut causes_per_s = BTreeMap::new();
    for row in rows {
        *causes_per_s.entry(row.cause).or_default() += rate(row.count.saturating_add(row.nested));
    }
    let share = |ns: u64| if seconds > 0.0 { ns as f64 / seconds / 1e7 } else { 0.0 };
    let line = CpuLine {
        cpu: cpu.cpu,
        role: role(scene, cpu.cpu),
        node: cpu.node,
        package: cpu.package,
        core: cpu.core,
        siblings: cpu.siblings.clone(),
        witness,
        entries_per_s: entries.map(rate),
        causes_per_s,
        unseen: unseen(traced.is_some(), before, now),
        switches_per_s: counts.switches.map(rate),
        busy_percent: busy(before, now, cpu.cpu),
        steal_percent: counts.steal_ns.map(|ns| share(ns).min(100.0)),
        last: None,
        history: Vec::new(),
        doubts,
    };
    (line, whom(rows))
}

/// What nobody could count.
fn unseen(traced: bool, before: &LiveReading, now: &LiveReading) -> Vec<Cause> {
    let read = [before, now].iter().all(|reading| reading.counters.softirqs.is_ok());
    if traced || read { Vec::new() } else { vec![Cause::Softirq] }
}

fn role(scene: &LiveSetup, cpu: usize) -> CpuRole {
    match cpu {
        cpu if scene.idle.contains(cpu) => CpuRole::Idle,
        cpu if scene.shielded.contains(cpu) => CpuRole::Shielded,
        cpu if scene.isolated.contains(cpu) => CpuRole::Isolated,
        _ if scene.unread => CpuRole::Unknown,
        _ => CpuRole::Housekeeping,
    }
}

/// Time that was not idle; `/proc/stat` counts in steps of 10 ms.
fn busy(before: &LiveReading, now: &LiveReading, cpu: usize) -> Option<f64> {
    let of = |reading: &LiveReading| reading.counters.times.as_ref().ok()?.get(&cpu).copied();
    let (a, b) = (of(before)?, of(now)?);
    let idle = |t: CpuTime| t.idle.saturating_add(t.iowait);
    let work = |t: CpuTime| {
        [t.user, t.nice, t.system, t.irq, t.softirq, t.steal]
            .into_iter()
            .fold(0, u64::saturating_add)
    };
    let (idle, work) = (idle(b).saturating_sub(idle(a)), work(b).saturating_sub(work(a)));
    let all = idle.saturating_add(work);
    // On a CPU without a tick the kernel may not have counted anything yet.
    (all > 0).then(|| 100.0 * work as f64 / all as f64)
}

/// Whom to name: the most frequent that is not the tick, which is always there; softirqs run inside
/// what is named already.
fn whom(rows: &[InterruptionCount]) -> Option<(Cause, Culprit)> {
    let often = |row: &&InterruptionCount| row.count.saturating_add(row.nested);
    let weight = |row: &&InterruptionCount| {
        let kind = match row.cause {
            Cause::Softirq => 0,
            Cause::Tick => 1,
            _ => 2,
        };
        (kind, often(row))
    };
    let row = rows.iter().filter(|row| often(row) > 0).max_by_key(weight)?;
    Some((row.cause, row.culprit.clone()))
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use cpushield_linux::text::{interrupts, schedstat, stat};

    /// Two nodes with two cores of two threads each; odd numbers are the second threads.
    pub fn scene() -> LiveSetup {
        let cpu = |n: usize| Cpu {
            cpu: n,
            package: i64::try_from(n / 4).ok(),
            core: i64::try_from(n / 2 % 2).ok(),
            node: Some(n / 4),
            siblings: [n & !1, n | 1].into_iter().collect(),
            ..Cpu::default()
        };
        LiveSetup {
            topology: Topology { cpus: (0..8).map(cpu).collect(), ..Topology::default() },
            shielded: "6-7".parse().unwrap(),
            idle: CpuSet::one(7),
            isolated: CpuSet::one(5),
            from: Some("0-4".parse().unwrap()),
            unread: false,
        }
    }

    fn table(label: &str, count: impl Fn(usize) -> u64, name: &str) -> String {
        let counts: String = (0..8).map(|cpu| format!(" {}", count(cpu))).collect();
        format!("{label}:{counts} {name}\n")
    }

    /// After `n` intervals: every CPU but 6 has 250 ticks in each, CPU 0 also 40 of a device, and
    /// CPU 6 had one reschedule IPI in the second.
    pub fn reading(n: u64) -> LiveReading {
        let header: String = (0..8).map(|cpu| format!(" CPU{cpu}")).collect();
        let text = format!(
            "{header}\n{}{}{}",
            table(
                "24",
                |cpu| if cpu == 0 { 40 * n } else { 0 },
                "PCI-MSIX-0000:00:02.0 1-edge nvme0q1"
            ),
            table("LOC", |cpu| if cpu == 6 { 7 } else { 250 * n }, "Local timer interrupts"),
            table("RES", |cpu| u64::from(cpu == 6 && n >= 2), "Rescheduling interrupts"),
        );
        let stat: String =
            (0..8).map(|cpu| format!("cpu{cpu} {} 0 0 {} 0 0 0 0\n", 75 * n, 25 * n)).collect();
        let sched: String =
            (0..8).map(|cpu| format!("cpu{cpu} 0 0 0 0 0 0 5 5 {}\ndomain0 3\n", 10 * n)).collect();
        let absent = || "not there".to_owned();
        LiveReading {
            at: Duration::from_secs(100 + n),
            counters: CounterSnapshot {
                interrupts: interrupts::parse(&text).map_err(|e| e.to_string()),
                softirqs: Err(absent()),
                times: stat::parse(&stat).map_err(|e| e.to_string()),
                sched: schedstat::parse(&format!("version 17\ntimestamp 1\n{sched}"))
                    .map_err(|e| e.to_string()),
                tasks: BTreeMap::new(),
            },
            traced: Vec::new(),
            own: Vec::new(),
        }
    }

    /// The frames of the first `n` intervals.
    pub fn frames(n: u64) -> Vec<LiveFrame> {
        let mut model = LiveModel::new(scene(), reading(0));
        (1..=n).map(|n| model.next(reading(n))).collect()
    }

    fn of(frame: &LiveFrame, cpu: usize) -> &CpuLine {
        frame.cpus.iter().find(|line| line.cpu == cpu).unwrap()
    }

    #[test]
    fn rates_are_those_of_the_interval_and_names_stay_until_another_comes() {
        let frames = frames(4);
        let zero = of(&frames[0], 0);
        assert_eq!((zero.entries_per_s, zero.switches_per_s), (Some(290.0), Some(10.0)));
        assert_eq!(zero.busy_percent, Some(75.0));
        let named = zero.last.as_ref().unwrap();
        assert_eq!((named.culprit.to_string().as_str(), named.ms_ago), ("IRQ 24 nvme0q1", 0));
        assert_eq!(zero.causes_per_s[&Cause::Irq], 40.0);
        let six: Vec<_> = frames.iter().map(|frame| of(frame, 6)).collect();
        assert_eq!(
            six.iter().map(|l| l.entries_per_s.unwrap()).collect::<Vec<_>>(),
            [0., 1., 0., 0.]
        );
        assert_eq!(six[0].last, None);
        let last =
            LastSeen { cause: Cause::IpiReschedule, culprit: Culprit::Unknown, ms_ago: 2000 };
        assert_eq!(six[3].last, Some(last));
        assert_eq!(six[3].history, [0., 1., 0., 0.]);
        assert_eq!((frames[3].at_ms, frames[3].interval_ms), (4000, 1000));
    }

    #[test]
    fn every_cpu_has_its_role_and_place() {
        let frame = &frames(1)[0];
        let roles: Vec<CpuRole> = frame.cpus.iter().map(|line| line.role).collect();
        let house = CpuRole::Housekeeping;
        assert_eq!(
            roles,
            [
                house,
                house,
                house,
                house,
                house,
                CpuRole::Isolated,
                CpuRole::Shielded,
                CpuRole::Idle
            ]
        );
        assert_eq!((of(frame, 5).node, of(frame, 5).core), (Some(1), Some(0)));
    }

    #[test]
    fn the_trace_is_believed_before_the_counters() {
        let mut model = LiveModel::new(scene(), reading(0));
        let row = |cause, culprit: &str, count, nested| InterruptionCount {
            cause,
            culprit: Culprit::shown(cause, culprit),
            count,
            nested,
            time_ns: None,
            max_ns: None,
            witness: WitnessKind::Trace,
            stack: Vec::new(),
        };
        let seen = TraceEvidence {
            cpu: 1,
            entries: 3,
            interruptions: vec![
                row(Cause::Tick, "tick_nohz_handler", 2, 0),
                row(Cause::Workqueue, "vmstat_update", 0, 1),
            ],
            doubts: vec![CpuDoubt::EventsLost { count: 7 }],
            ..TraceEvidence::default()
        };
        let frame = model.next(LiveReading { traced: vec![seen], ..reading(1) });
        let one = of(&frame, 1);
        assert_eq!((one.witness, one.entries_per_s), (WitnessKind::Trace, Some(3.0)));
        assert_eq!(one.last.as_ref().unwrap().culprit.to_string(), "vmstat_update");
        assert_eq!(one.doubts.len(), 1);
        assert_eq!(of(&frame, 2).witness, WitnessKind::Counters);
    }

    #[test]
    fn no_time_and_no_counters_make_no_numbers_out_of_nothing() {
        let mut model = LiveModel::new(scene(), reading(0));
        let frame = model.next(reading(0));
        assert!(frame.cpus.iter().all(|line| line.entries_per_s == Some(0.0)));
        assert!(frame.cpus.iter().all(|line| line.busy_percent.is_none()));
        let mut blind = reading(1);
        blind.counters.interrupts = Err("cannot read /proc/interrupts".to_owned());
        let frame = model.next(blind);
        assert!(frame.cpus.iter().all(|line| line.entries_per_s.is_none()));
        let answer = "cannot read /proc/interrupts".to_owned();
        assert_eq!(frame.cpus[0].doubts, [CpuDoubt::CountersUnreadable { answer }]);
    }
}
