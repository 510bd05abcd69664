//! Whose the interruptions of a program that sleeps are: its own, the tick's or foreign. Pure.
//!
//! [`CpuOwnership`] takes the finished interruptions of one CPU with what ran inside them, and the
//! switches and signals between them. `owners.rs` finds out what each part served. A foreign part
//! during a sleep waits for the next activation of the workload: it is harmless if it had ended
//! before the timer of that activation was due.

mod owners;

pub use owners::{IN_FLIGHT_NS, OwnershipFacts, PendingRelations, WorkloadProcesses};
use owners::{OwnedBy, Part, inside, is_softirq, owner_of_entry};

use super::culprit_stats::{CulpritKey, CulpritNames, TracedCulprit};
use super::decode::TaskLeft;
use super::interruptions::{HRTIMER_SOFTIRQ, LogEntry, LogEntryKind, Moment, ns_to_ticks};
use super::ipi_senders::SentBy;
use super::relations::WakeUp;
use crate::causes::culprit::KernelEvent;
use crate::causes::{Cause, Culprit};
use crate::documents::evidence::{
    ActivationDelay, ActivationDelays, IpiOrigin, KernelWork, OwnedRow, Owner, OwnerSum,
    OwnershipEvidence,
};
use cpushield_linux::sys::clock::TickScale;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

/// The longest delays that are kept.
const WORST_MAX: usize = 64;

/// How many past periods of a CPU are kept to split a delay.
const PERIODS_MAX: usize = 4096;

/// What is counted together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct RowKey {
    owner: Owner,
    harmless: bool,
    key: CulpritKey,
    by: Option<SentBy>,
}

/// The figures of a row or a sum, in ticks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Figures {
    count: u64,
    ticks: u64,
    max: u64,
}

impl Figures {
    fn add(&mut self, count: u64, ticks: u64, longest: u64) {
        self.count += count;
        self.ticks += ticks;
        self.max = self.max.max(longest);
    }
}

/// A judged interruption.
#[derive(Debug, Clone)]
struct OwnedInterruption {
    begun: u64,
    end: u64,
    owner: Owner,
    /// Its parts, with how often each counts and its own ticks.
    parts: Vec<(CulpritKey, OwnedBy, [u64; 2])>,
}

/// The state of one CPU.
#[derive(Debug, Default)]
pub struct CpuOwnership {
    cpu: usize,
    /// What was added and not judged yet.
    entries: Vec<LogEntry>,
    moments: Vec<(u64, Moment)>,
    /// Threads of the workload that have run here and not slept since.
    awake: HashSet<i32>,
    /// Since when the CPU is idle.
    idle_since: Option<u64>,
    /// Interruptions during the present sleep that harm only if they last until the due time.
    during_sleep: VecDeque<OwnedInterruption>,
    /// What the CPU did lately; `None` for idle time, which may contain interruptions.
    periods: VecDeque<(u64, u64, Option<Owner>)>,
    /// An interrupt that raised a softirq for timers which has not run yet.
    softirq: Option<OwnedInterruption>,
    /// When the first thread was due that has not run yet.
    earliest_due: Option<u64>,
    /// Signals and kernel faults of the workload since the last interruption.
    untimed: Vec<(u64, i32, CulpritKey)>,
    rows: HashMap<RowKey, Figures>,
    sums: BTreeMap<(Owner, bool), Figures>,
    activations: u64,
    /// Activations since the watch began, in all phases.
    ever: u64,
    delays: ActivationDelays,
    begun: u64,
}

impl CpuOwnership {
    /// Nothing has happened yet.
    #[must_use]
    pub fn new(cpu: usize) -> CpuOwnership {
        CpuOwnership { cpu, ..CpuOwnership::default() }
    }

    /// Takes finished interruptions with what ran inside them, and the moments between.
    pub fn add(&mut self, entries: Vec<LogEntry>, moments: Vec<(u64, Moment)>) {
        self.entries.extend(entries);
        self.moments.extend(moments);
    }

    /// Judges the interruptions that began before this moment. The relations are known up to the
    /// end of all that were added.
    pub fn judge(&mut self, facts: &mut OwnershipFacts<'_>, until: u64) {
        facts.activations = self.ever;
        let later = |entry: &LogEntry| entry.depth == 0 && entry.begun >= until;
        let ready = self.entries.iter().position(later).unwrap_or(self.entries.len());
        let entries: Vec<LogEntry> = self.entries.drain(..ready).collect();
        let ready = self.moments.partition_point(|(at, _)| *at <= until);
        let moments: Vec<(u64, Moment)> = self.moments.drain(..ready).collect();
        let untimed = moments.iter().filter_map(|(at, moment)| match moment {
            Moment::Untimed(pid, key) => Some((*at, *pid, *key)),
            Moment::Switch { .. } => None,
        });
        self.untimed.extend(untimed);
        let mut moments = moments.into_iter().peekable();
        let mut rest = entries.as_slice();
        while let Some((first, after)) = rest.split_first() {
            let inside = after.iter().take_while(|entry| entry.depth > 0).count();
            let (frames, next) = after.split_at(inside);
            rest = next;
            match first.what {
                // The next phase has what ran in it.
                LogEntryKind::Interruption(_) if first.end == until && frames.is_empty() => {}
                LogEntryKind::Interruption(key) => {
                    while let Some((at, moment)) = moments.next_if(|(at, _)| *at <= first.begun) {
                        self.moment(facts, at, moment);
                    }
                    let slept = moments.peek().is_some_and(|(at, moment)| {
                        *at == first.end
                            && matches!(moment, Moment::Switch { left: TaskLeft::Waits, .. })
                    });
                    self.interruption(facts, (first.begun, first.end), key, (frames, slept));
                }
                LogEntryKind::Lost => {
                    self.awake.clear();
                    self.idle_since = None;
                    self.periods.clear();
                }
                LogEntryKind::Undisturbed(_) | LogEntryKind::Frame(..) => {}
            }
        }
        moments.for_each(|(at, moment)| self.moment(facts, at, moment));
        self.awake.retain(|pid| facts.is_own(*pid));
        facts.advance(until);
        self.earliest_due = self.find_earliest_due(facts);
    }

    /// When the first thread should have run that is woken and has not run yet.
    fn find_earliest_due(&self, facts: &OwnershipFacts<'_>) -> Option<u64> {
        let pending = facts.pending.wakes.iter().map(|i| &facts.relations.wakes[*i]);
        let pending = pending.filter(|wake| {
            wake.to == self.cpu && facts.is_own(wake.pid) && !self.awake.contains(&wake.pid)
        });
        pending.map(|wake| due(facts, wake)).min()
    }

    fn moment(&mut self, facts: &mut OwnershipFacts<'_>, at: u64, moment: Moment) {
        let Moment::Switch { task, left, next } = moment else { return };
        if let Some(since) = self.idle_since.take() {
            self.add_period(since, at, None);
        }
        self.idle_since = (next == 0).then_some(at);
        let sleeps = facts.is_own(task) && left.sleeps();
        facts.end_wakes(at, |pid| pid == next || (sleeps && pid == task));
        if facts.is_own(task) {
            self.awake.insert(task);
            if sleeps {
                self.awake.remove(&task);
            }
        }
        if facts.is_own(next) && self.awake.insert(next) {
            self.activation(facts, at, next);
        }
    }

    /// Adds what the CPU did in this time.
    fn add_period(&mut self, from: u64, to: u64, owner: Option<Owner>) {
        if to > from {
            self.periods.push_back((from, to, owner));
        }
        if self.periods.len() > PERIODS_MAX {
            self.periods.pop_front();
        }
    }

    /// A thread of the workload runs again after it slept.
    fn activation(&mut self, facts: &mut OwnershipFacts<'_>, at: u64, pid: i32) {
        self.activations += 1;
        self.ever += 1;
        facts.activations = self.ever;
        let wake = facts.relations.wake_of(pid, at).cloned();
        let own_due = wake.as_ref().map(|wake| due(facts, wake));
        // Another thread may have been due earlier and run later.
        let first = self.find_earliest_due(facts).into_iter().chain(own_due).min();
        for interruption in std::mem::take(&mut self.during_sleep) {
            let harmless = own_due.and(first).is_some_and(|due| interruption.end <= due);
            self.count(&interruption, harmless);
        }
        let (Some(wake), Some(due)) = (wake, own_due) else { return };
        let mut delay = self.split(&facts.scale, due, at);
        delay.at_ns = facts.scale.ns(at.saturating_sub(self.begun));
        delay.tid = pid;
        let run = wake.timer.as_ref();
        self.delays.by_wake += u64::from(run.is_none_or(|run| run.armed.is_none()));
        // The scheduler may have moved the thread since.
        if let Some(run) = run.filter(|run| run.cpu != wake.to) {
            delay.elsewhere = Some(run.cpu);
            self.delays.elsewhere += 1;
            let culprit = TracedCulprit::Function(run.function);
            let by = Some(SentBy::Interrupt(run.cpu));
            let key = CulpritKey { cause: Cause::TimerElsewhere, culprit };
            let row = RowKey { owner: Owner::Foreign, harmless: false, key, by };
            self.rows.entry(row).or_default().add(1, 0, 0);
        }
        self.delays.foreign += u64::from(delay.foreign_ns > 0);
        let worst = &mut self.delays.worst;
        let place = worst.partition_point(|known| known.delay_ns >= delay.delay_ns);
        worst.insert(place, delay);
        worst.truncate(WORST_MAX);
    }

    /// Splits a delay by what the CPU did.
    fn split(&self, scale: &TickScale, from: u64, until: u64) -> ActivationDelay {
        let shared = |a: u64, b: u64| b.min(until).saturating_sub(a.max(from));
        let lately = || self.periods.iter().rev().take_while(|(_, end, _)| *end >= from);
        let (mut idle, mut ticks) = (0u64, [0u64; 4]);
        for (begun, end, owner) in lately() {
            let Some(owner) = owner else {
                idle += shared(*begun, *end);
                continue;
            };
            ticks[*owner as usize] += shared(*begun, *end);
            // Of the time of the idle task, what interrupted it is no idle time.
            let around = |(a, b, owner): &&(u64, u64, Option<Owner>)| {
                owner.is_none() && a <= begun && end <= b
            };
            if lately().any(|period| around(&period)) {
                idle = idle.saturating_sub(shared(*begun, *end));
            }
        }
        let foreign = ticks[Owner::Foreign as usize];
        let tick = ticks[Owner::Tick as usize];
        let whole = until.saturating_sub(from);
        ActivationDelay {
            delay_ns: scale.ns(whole),
            idle_ns: scale.ns(idle),
            foreign_ns: scale.ns(foreign),
            tick_ns: scale.ns(tick),
            own_ns: scale.ns(whole.saturating_sub(idle + foreign + tick)),
            ..ActivationDelay::default()
        }
    }

    /// Judges an interruption, and counts it unless that depends on the next activation.
    fn interruption(
        &mut self,
        facts: &mut OwnershipFacts<'_>,
        (begun, end): (u64, u64),
        key: CulpritKey,
        (frames, slept): (&[LogEntry], bool),
    ) {
        let mut parts: Vec<Part> = frames
            .iter()
            .filter_map(|frame| match frame.what {
                LogEntryKind::Frame(work, key) => Some((frame, work, key)),
                _ => None,
            })
            .map(|(frame, work, key)| Part {
                begun: frame.begun,
                end: frame.end,
                depth: frame.depth,
                work: Some(work),
                key,
                owned: None,
            })
            .collect();
        for i in 0..parts.len() {
            parts[i].owned = facts.owner_of_leaf(&parts, i);
            if slept && parts[i].work == Some(KernelWork::PageFault) {
                parts[i].owned = Some((Owner::Unassigned, None));
            }
        }
        for i in (0..parts.len()).rev() {
            if parts[i].owned.is_none() {
                parts[i].owned = Some(facts.owner_of_container(&parts, i));
            }
        }
        let ended = self.untimed.partition_point(|(at, ..)| *at <= end);
        for (at, pid, key) in self.untimed.drain(..ended) {
            let (owned, work) = (None, None);
            let mut part = Part { begun: at, end: at, depth: 1, work, key, owned };
            part.owned = Some(match (key.cause, key.culprit) {
                (Cause::Signal, TracedCulprit::Signal { number, .. }) => {
                    facts.owner_of_signal(at, pid, number)
                }
                (Cause::PageFault, _) => (facts.owner_of_fault(&part), None),
                _ => (Owner::Own, None),
            });
            parts.push(part);
        }
        if parts.is_empty() {
            let key = match key.culprit {
                TracedCulprit::Event(KernelEvent::WithoutEvent) if facts.tracked => CulpritKey {
                    culprit: TracedCulprit::Event(KernelEvent::SyscallOrException),
                    ..key
                },
                _ => key,
            };
            let owned = Some((owner_of_entry(key), None));
            parts.push(Part { begun, end, depth: 0, work: None, key, owned });
        }
        self.finish(begun, end, &parts);
    }

    fn finish(&mut self, begun: u64, end: u64, parts: &[Part]) {
        let mut judged = OwnedInterruption { begun, end, owner: Owner::Own, parts: Vec::new() };
        // Time outside all parts goes to the first. Context tracking puts its entry around all.
        let first = parts.first().and_then(|part| part.owned).map(|(owner, _)| owner);
        let outer = parts.iter().map(|part| part.depth).min();
        let mut periods: Vec<(u64, u64, Option<Owner>)> = Vec::new();
        let (mut outside, mut until) = (0, begun);
        for (i, part) in parts.iter().enumerate() {
            let owned = part.owned.unwrap_or((Owner::Unassigned, None));
            // A part that began in an earlier phase counts from the beginning of this one.
            let start = part.begun.max(begun);
            let (mut own, mut from) = (0, start);
            for inner in inside(parts, i).map(|j| &parts[j]) {
                own += inner.begun.saturating_sub(from);
                periods.push((from, inner.begun, Some(owned.0)));
                from = inner.end;
            }
            own += part.end.saturating_sub(from);
            periods.push((from, part.end, Some(owned.0)));
            if Some(part.depth) == outer {
                outside += start.saturating_sub(until);
                periods.push((until, start, first));
                until = until.max(part.end);
            }
            judged.owner = judged.owner.max(owned.0);
            // An interrupt that a part inside it names is one item with that.
            let is_named = inside(parts, i).any(|j| parts[j].key == part.key);
            judged.parts.push((part.key, owned, [u64::from(!is_named), own]));
        }
        outside += end.saturating_sub(until);
        periods.push((until, end, first));
        periods.sort_by_key(|(_, end, _)| *end);
        periods.into_iter().for_each(|(from, to, owner)| self.add_period(from, to, owner));
        if let Some((_, _, [_, ticks])) = judged.parts.first_mut() {
            *ticks += outside;
        }
        self.settle_softirq(parts);
        let alone = parts
            .iter()
            .all(|part| part.key.culprit == TracedCulprit::Event(KernelEvent::HrtimersInSoftirq));
        if alone && judged.owner == Owner::Unassigned {
            self.softirq = Some(judged);
            return;
        }
        self.keep_or_count(judged);
    }

    /// On RT, the thread that runs the timers may begin after the interrupt that raised its
    /// softirq. That interrupt has the owner of the timers.
    fn settle_softirq(&mut self, parts: &[Part]) {
        let ran = parts.iter().find(|part| is_softirq(part, HRTIMER_SOFTIRQ));
        let owner = ran.and_then(|part| part.owned).map(|(owner, _)| owner);
        let Some(owner) = owner else { return };
        if let Some(mut raised) = self.softirq.take() {
            raised.owner = owner;
            raised.parts.iter_mut().for_each(|(_, owned, _)| owned.0 = owner);
            self.keep_or_count(raised);
        }
    }

    /// Counts an interruption, unless the next activation decides whether it was harmless.
    fn keep_or_count(&mut self, judged: OwnedInterruption) {
        if self.awake.is_empty() && judged.owner > Owner::Tick {
            self.during_sleep.push_back(judged);
            // A timer that was due would have fired long since.
            if self.during_sleep.len() > PERIODS_MAX
                && let Some(first) = self.during_sleep.pop_front()
            {
                self.count(&first, true);
            }
        } else {
            self.count(&judged, false);
        }
    }

    fn count(&mut self, judged: &OwnedInterruption, harmless: bool) {
        let length = judged.end - judged.begun;
        self.sums.entry((judged.owner, harmless)).or_default().add(1, length, length);
        for (key, (owner, by), [count, ticks]) in &judged.parts {
            let row = RowKey { owner: *owner, harmless, key: *key, by: *by };
            self.rows.entry(row).or_default().add(*count, *ticks, length);
        }
    }

    /// Begins a phase at this moment.
    pub fn begin_phase(&mut self, at: u64) {
        self.begun = at;
        self.rows.clear();
        self.sums.clear();
        self.activations = 0;
        self.delays = ActivationDelays::default();
    }

    /// The evidence of the phase. What happened since the last activation is harmless unless a
    /// thread is due.
    pub fn evidence(
        &mut self,
        names: &CulpritNames<'_>,
        scale: &TickScale,
        processes: &WorkloadProcesses,
    ) -> OwnershipEvidence {
        let raised = self.softirq.take();
        for interruption in std::mem::take(&mut self.during_sleep).into_iter().chain(raised) {
            let harmless = self.earliest_due.is_none_or(|due| interruption.end <= due);
            self.count(&interruption, harmless);
        }
        type NamedRow = (Owner, bool, Cause, Culprit, Option<IpiOrigin>, bool);
        let mut merged: BTreeMap<NamedRow, Figures> = BTreeMap::new();
        for (row, figures) in &self.rows {
            let (cause, culprit) = names.describe(row.key);
            let by = row.by.map(|by| names.origin(by));
            let relative = row.by.and_then(SentBy::task);
            let same = relative.is_some_and(|pid| processes.relatives.contains(&pid));
            let into =
                merged.entry((row.owner, row.harmless, cause, culprit, by, same)).or_default();
            into.add(figures.count, figures.ticks, figures.max);
        }
        let sums = self.sums.iter().map(|((owner, harmless), figures)| OwnerSum {
            owner: *owner,
            harmless: *harmless,
            count: figures.count,
            time_ns: scale.ns(figures.ticks),
            max_ns: scale.ns(figures.max),
        });
        let rows = merged.into_iter().map(|((owner, harmless, cause, culprit, by, same), row)| {
            let (time_ns, max_ns) = (scale.ns(row.ticks), scale.ns(row.max));
            let (same_process, count) = (same, row.count);
            OwnedRow { owner, harmless, cause, culprit, by, same_process, count, time_ns, max_ns }
        });
        let mut rows: Vec<OwnedRow> = rows.collect();
        rows.sort_by_key(|row| (std::cmp::Reverse(row.owner), std::cmp::Reverse(row.count)));
        OwnershipEvidence {
            sums: sums.collect(),
            rows,
            activations: self.activations,
            delays: self.delays.clone(),
            partial: false,
        }
    }

    /// The tasks among the senders, wakers and armers.
    pub fn tasks(&self) -> impl Iterator<Item = i32> + '_ {
        self.rows.keys().filter_map(|row| row.by?.task())
    }
}

/// When a thread should have run: when its timer was due, but not before that was armed. Without a
/// timer, when it was woken.
fn due(facts: &OwnershipFacts<'_>, wake: &WakeUp) -> u64 {
    let Some((run, armed)) = wake.timer.as_ref().and_then(|run| Some((run, run.armed?))) else {
        return wake.at;
    };
    let (at, now_ns) = run.read;
    let late_ns = now_ns.saturating_sub(armed.expires_ns);
    at.saturating_sub(ns_to_ticks(late_ns, facts.context.ticks_per_ns)).max(armed.at)
}

#[cfg(test)]
mod tests;
