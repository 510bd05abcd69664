//! [`LiveModel`]: the state from earlier readings. [`LiveFrame`]: the document of one interval.

use crate::causes::{Cause, Culprit};
use crate::documents::evidence::{CpuDoubt, InterruptionCount, WitnessKind};
use crate::documents::machine::{Cpu, Topology};
use crate::observe::counters::{self, CounterSnapshot};
use crate::trace::TraceEvidence;
use cpushield_linux::CpuSet;
use cpushield_linux::text::stat::{CpuTime, UserTicks};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// The version of [`LiveFrame`]'s form.
pub const SCHEMA: u32 = 1;

/// Rates that the trend keeps.
const HISTORY: usize = 32;

/// The machine's CPUs and shields: what changes rarely while `watch` runs.
#[derive(Debug, Clone, Default)]
pub struct LiveSetup {
    /// The online CPUs.
    pub topology: Topology,
    /// CPUs of the shield.
    pub shielded: CpuSet,
    /// Siblings of shielded CPUs that are kept idle.
    pub idle: CpuSet,
    /// Whether the journal cannot be read, so that the shielded CPUs are unknown.
    pub unread: bool,
    /// CPUs that were isolated at boot and belong to no cpushield shield.
    pub isolated: CpuSet,
    /// CPUs that this program is bound to; `None` when it is not bound.
    pub from: Option<CpuSet>,
}

/// One reading of the machine.
#[derive(Debug, Clone)]
pub struct LiveReading {
    /// The time since an arbitrary start.
    pub at: Duration,
    /// The counters.
    pub counters: CounterSnapshot,
    /// What the trace saw since the previous reading; empty without a trace.
    pub traced: Vec<TraceEvidence>,
    /// Threads of the programs in the shield, which are not culprits.
    pub own: Vec<i32>,
}

/// The role of a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum CpuRole {
    /// It is shielded.
    Shielded,
    /// It is kept idle because its sibling is shielded.
    Idle,
    /// It was isolated at boot and belongs to no cpushield shield.
    Isolated,
    /// It runs everything else.
    Housekeeping,
    /// It is unknown whether it is shielded: only root can read the journal.
    Unknown,
}

/// One interval: a line of `watch --json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LiveFrame {
    /// The version of this form: [`SCHEMA`].
    pub schema: u32,
    /// Milliseconds since `watch` started.
    pub at_ms: u64,
    /// Length of the interval in milliseconds.
    pub interval_ms: u64,
    /// CPUs that the watching program is bound to; `None` when it is not bound.
    pub from: Option<CpuSet>,
    /// Every online CPU, ordered by node, package and core.
    pub cpus: Vec<CpuLine>,
}

/// One CPU in one interval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CpuLine {
    /// Its number.
    pub cpu: usize,
    /// Its role.
    pub role: CpuRole,
    /// The NUMA node; `None` on a machine without nodes.
    pub node: Option<usize>,
    /// The physical package.
    pub package: Option<i64>,
    /// The core within the package.
    pub core: Option<i64>,
    /// The CPUs of the same core, including this one.
    pub siblings: CpuSet,
    /// The source of the counts: the trace, or the counters of `/proc`.
    pub witness: WitnessKind,
    /// Kernel entries per second; `None` when they could not be counted.
    pub entries_per_s: Option<f64>,
    /// How often each cause was seen per second, including nested ones.
    pub causes_per_s: BTreeMap<Cause, f64>,
    /// Causes that could not be counted, so that their absence from [`Self::causes_per_s`] has no
    /// meaning.
    pub unseen: Vec<Cause>,
    /// How often per second the CPU switched to a task; `None` without `/proc/schedstat`.
    pub switches_per_s: Option<f64>,
    /// The time that it was not idle, in percent; `None` when that cannot be read.
    pub busy_percent: Option<f64>,
    /// The time that the hypervisor took, in percent, as far as the hypervisor reports it.
    pub steal_percent: Option<f64>,
    /// The last culprit; `None` before the first one.
    pub last: Option<LastSeen>,
    /// Entries per second of this interval and earlier ones, oldest first.
    pub history: Vec<f64>,
    /// The reasons why these figures are doubtful.
    #[serde(with = "crate::with_text::TextList::<CpuDoubt>")]
    pub doubts: Vec<CpuDoubt>,
}

/// The last culprit of a CPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LastSeen {
    /// The cause.
    pub cause: Cause,
    /// The culprit; empty when it is unknown.
    #[serde(with = "crate::with_text::WithText::<Culprit>")]
    pub culprit: Culprit,
    /// The age of the interval in which it was seen, in milliseconds; 0 for the current one.
    pub ms_ago: u64,
}

/// The state that is kept from interval to interval.
#[derive(Debug)]
pub struct LiveModel {
    /// The CPUs and the shields of the next interval.
    pub setup: LiveSetup,
    before: LiveReading,
    begun: Duration,
    /// The last culprit of each CPU, and when it was seen.
    last: BTreeMap<usize, (Duration, Cause, Culprit)>,
    history: BTreeMap<usize, Vec<f64>>,
}

impl LiveModel {
    /// A model that starts with this reading.
    #[must_use]
    pub fn new(setup: LiveSetup, first: LiveReading) -> LiveModel {
        let begun = first.at;
        let (last, history) = (BTreeMap::new(), BTreeMap::new());
        LiveModel { setup, before: first, begun, last, history }
    }

    /// Takes the next reading and returns what happened since the previous one.
    pub fn next(&mut self, now: LiveReading) -> LiveFrame {
        let interval = now.at.saturating_sub(self.before.at);
        let mut order: Vec<&Cpu> = self.setup.topology.cpus.iter().collect();
        order.sort_by_key(|cpu| (cpu.node, cpu.package, cpu.core, cpu.cpu));
        let mut cpus = Vec::new();
        for cpu in order {
            let (mut line, culprit) = cpu_line(&self.setup, cpu, &self.before, &now, interval);
            if let Some((cause, culprit)) = &culprit {
                self.last.insert(cpu.cpu, (now.at, *cause, culprit.clone()));
            }
            line.last = self.last.get(&cpu.cpu).map(|(at, cause, culprit)| LastSeen {
                cause: *cause,
                culprit: culprit.clone(),
                ms_ago: millis(now.at.saturating_sub(*at)),
            });
            let history = self.history.entry(cpu.cpu).or_default();
            history.push(line.entries_per_s.unwrap_or(0.0));
            let old = history.len().saturating_sub(HISTORY);
            history.drain(..old);
            line.history.clone_from(history);
            cpus.push(line);
        }
        let at_ms = millis(now.at.saturating_sub(self.begun));
        self.before = now;
        let from = self.setup.from.clone();
        LiveFrame { schema: SCHEMA, at_ms, interval_ms: millis(interval), from, cpus }
    }
}

/// The figures of one CPU, and the culprit of the interval.
fn cpu_line(
    setup: &LiveSetup,
    cpu: &Cpu,
    before: &LiveReading,
    now: &LiveReading,
    interval: Duration,
) -> (CpuLine, Option<(Cause, Culprit)>) {
    let counts = counters::compare(&before.counters, &now.counters, cpu.cpu, &now.own);
    let traced = now.traced.iter().find(|seen| seen.cpu == cpu.cpu);
    let seconds = interval.as_secs_f64();
    let (witness, entries, rows, mut doubts) = match traced {
        Some(seen) => {
            let lost = CpuDoubt::EventsLost { count: seen.lost };
            let lost = (seen.lost > 0).then_some(lost);
            let doubts = seen.doubts.iter().cloned().chain(lost).collect::<Vec<_>>();
            // An interrupt of an idle CPU, or of a program outside all shields, hits the kernel as
            // far as the trace can tell. The counters count it too.
            let entries = seen.entries.saturating_add(seen.kernel_interrupts);
            (WitnessKind::Trace, Some(entries), seen.interruptions.iter().collect(), doubts)
        }
        None => {
            let rows: Vec<&InterruptionCount> = counts.interruptions().collect();
            (WitnessKind::Counters, counts.entries, rows, Vec::new())
        }
    };
    doubts.extend(counts.doubts.iter().cloned());
    let mut causes_per_s = BTreeMap::new();
    for row in &rows {
        *causes_per_s.entry(row.cause).or_default() +=
            rate(row.count.saturating_add(row.nested), seconds);
    }
    let line = CpuLine {
        cpu: cpu.cpu,
        role: role(setup, cpu.cpu),
        node: cpu.node,
        package: cpu.package,
        core: cpu.core,
        siblings: cpu.siblings.clone(),
        witness,
        entries_per_s: entries.map(|count| rate(count, seconds)),
        causes_per_s,
        unseen: uncounted_causes(witness, before, now),
        switches_per_s: counts.switches.map(|count| rate(count, seconds)),
        busy_percent: busy_percent(before, now, cpu.cpu),
        steal_percent: counts.steal_ns.map(|ns| (rate(ns, seconds) / 1e7).min(100.0)),
        last: None,
        history: Vec::new(),
        doubts,
    };
    (line, main_culprit(&rows))
}

/// A count per second; 0 when no time has passed.
fn rate(count: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { count as f64 / seconds } else { 0.0 }
}

/// The causes that could not be counted.
fn uncounted_causes(witness: WitnessKind, before: &LiveReading, now: &LiveReading) -> Vec<Cause> {
    let read = [before, now].iter().all(|reading| reading.counters.softirqs.is_ok());
    let counted = witness == WitnessKind::Trace || read;
    if counted { Vec::new() } else { vec![Cause::Softirq] }
}

fn role(setup: &LiveSetup, cpu: usize) -> CpuRole {
    match cpu {
        cpu if setup.idle.contains(cpu) => CpuRole::Idle,
        cpu if setup.shielded.contains(cpu) => CpuRole::Shielded,
        cpu if setup.isolated.contains(cpu) => CpuRole::Isolated,
        _ if setup.unread => CpuRole::Unknown,
        _ => CpuRole::Housekeeping,
    }
}

/// The time that was not idle, in percent; `/proc/stat` counts in steps of 10 ms.
fn busy_percent(before: &LiveReading, now: &LiveReading, cpu: usize) -> Option<f64> {
    let before = idle_and_work(before.counters.times.as_ref().ok()?.get(&cpu)?);
    let now = idle_and_work(now.counters.times.as_ref().ok()?.get(&cpu)?);
    let (idle, work) = (now.0.saturating_sub(before.0), now.1.saturating_sub(before.1));
    let all = idle.saturating_add(work);
    // On a CPU without a tick the kernel may not have counted anything yet.
    (all > UserTicks::default()).then(|| 100.0 * work.0 as f64 / all.0 as f64)
}

fn idle_and_work(t: &CpuTime) -> (UserTicks, UserTicks) {
    let work = [t.user, t.nice, t.system, t.irq, t.softirq, t.steal];
    (
        t.idle.saturating_add(t.iowait),
        work.into_iter().fold(UserTicks::default(), UserTicks::saturating_add),
    )
}

/// The culprit to show: the most frequent one. The tick ranks lower because it is always there, and
/// softirqs lowest because they run inside another interruption.
fn main_culprit(rows: &[&InterruptionCount]) -> Option<(Cause, Culprit)> {
    let weighted = rows.iter().map(|row| {
        let rank = match row.cause {
            Cause::Softirq => 0,
            Cause::Tick => 1,
            _ => 2,
        };
        (rank, row.count.saturating_add(row.nested), row)
    });
    let seen = weighted.filter(|(_, count, _)| *count > 0);
    let (_, _, row) = seen.max_by_key(|(rank, count, _)| (*rank, *count))?;
    Some((row.cause, row.culprit.clone()))
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use cpushield_linux::text::{interrupts, schedstat, stat};

    fn cpu(n: usize) -> Cpu {
        Cpu {
            cpu: n,
            package: i64::try_from(n / 4).ok(),
            core: i64::try_from(n / 2 % 2).ok(),
            node: Some(n / 4),
            siblings: [n & !1, n | 1].into_iter().collect(),
            ..Cpu::default()
        }
    }

    /// Two nodes with two cores of two threads each; odd numbers are the second threads.
    pub fn setup() -> LiveSetup {
        LiveSetup {
            topology: Topology { cpus: (0..8).map(cpu).collect(), ..Topology::default() },
            shielded: "6-7".parse().unwrap(),
            idle: CpuSet::single(7),
            isolated: CpuSet::single(5),
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
        LiveReading {
            at: Duration::from_secs(100 + n),
            counters: CounterSnapshot {
                interrupts: interrupts::parse(&text).map_err(|e| e.to_string()),
                softirqs: Err("not there".to_owned()),
                times: stat::parse(&stat).map_err(|e| e.to_string()),
                times_at_ns: 0,
                sched: schedstat::parse(&format!("version 17\ntimestamp 1\n{sched}"))
                    .map_err(|e| e.to_string()),
                tasks: Ok(BTreeMap::new()),
            },
            traced: Vec::new(),
            own: Vec::new(),
        }
    }

    /// The frames of the first `n` intervals.
    pub fn frames(n: u64) -> Vec<LiveFrame> {
        let mut model = LiveModel::new(setup(), reading(0));
        (1..=n).map(|n| model.next(reading(n))).collect()
    }

    fn line(frame: &LiveFrame, cpu: usize) -> &CpuLine {
        frame.cpus.iter().find(|line| line.cpu == cpu).unwrap()
    }

    #[test]
    fn rates_are_those_of_the_interval_and_the_last_culprit_stays() {
        let frames = frames(4);
        let zero = line(&frames[0], 0);
        assert_eq!((zero.entries_per_s, zero.switches_per_s), (Some(290.0), Some(10.0)));
        assert_eq!(zero.busy_percent, Some(75.0));
        let named = zero.last.as_ref().unwrap();
        assert_eq!((named.culprit.to_string().as_str(), named.ms_ago), ("IRQ 24 nvme0q1", 0));
        assert_eq!(zero.causes_per_s[&Cause::Irq], 40.0);
        let six: Vec<_> = frames.iter().map(|frame| line(frame, 6)).collect();
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
        assert_eq!((line(frame, 5).node, line(frame, 5).core), (Some(1), Some(0)));
    }

    #[test]
    fn the_trace_takes_precedence_over_the_counters() {
        let mut model = LiveModel::new(setup(), reading(0));
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
            entries: 1,
            kernel_interrupts: 2,
            interruptions: vec![
                row(Cause::Tick, "tick_nohz_handler", 2, 0),
                row(Cause::Workqueue, "vmstat_update", 0, 1),
            ],
            doubts: vec![CpuDoubt::BytesNotUnderstood { count: 7 }],
            ..TraceEvidence::default()
        };
        let frame = model.next(LiveReading { traced: vec![seen], ..reading(1) });
        let one = line(&frame, 1);
        assert_eq!((one.witness, one.entries_per_s), (WitnessKind::Trace, Some(3.0)));
        assert_eq!(one.last.as_ref().unwrap().culprit.to_string(), "vmstat_update");
        assert_eq!(one.doubts.len(), 1);
        assert_eq!(line(&frame, 2).witness, WitnessKind::Counters);
    }

    #[test]
    fn an_empty_interval_and_missing_counters_give_no_false_numbers() {
        let mut model = LiveModel::new(setup(), reading(0));
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
