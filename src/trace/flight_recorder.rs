//! The recent history of the recorded CPUs, at constant memory, and which culprits had the time
//! between two moments of it. For measurements that know only afterwards which moments were bad.

use super::culprit_stats::{CulpritKey, CulpritNames, TracedCulprit};
use super::interruptions::{LogEntry, LogEntryKind, ns_to_ticks};
use super::{TraceRecorder, look_up_task};
use crate::causes::Cause;
use crate::documents::evidence::{TimeBreakdown, TimeShare, UnknownBreakdown};
use cpushield_linux::sys::clock::ClockTicks;
use cpushield_linux::sys::clock_sync::{ClockSample, ClockSync};
use std::collections::{HashMap, VecDeque};

/// Pieces kept of all CPUs: some tens of MiB.
const ENTRIES_MAX: usize = 512 << 10;
/// The most losses kept on one CPU; with more, the time between the first two counts as lost too.
const LOSSES_MAX: usize = 64;
/// The most culprits that are named; the time of others is part of the rest.
const SHARES_MAX: usize = 12;

/// The recent history of all CPUs.
#[derive(Debug)]
pub struct FlightRecorder {
    clock_sync: ClockSync,
    histories: Vec<(usize, CpuHistory)>,
    last_ns: u64,
}

/// The recent history of one CPU. Times are ticks.
#[derive(Debug, Default)]
struct CpuHistory {
    entries: VecDeque<LogEntry>,
    most: usize,
    /// The history is unknown before this time.
    since: u64,
    /// Spans in which events are missing.
    lost: VecDeque<(u64, u64)>,
}

/// The time between two moments by culprit, in ticks.
#[derive(Debug, Default, PartialEq, Eq)]
struct CulpritTime {
    shares: Vec<(CulpritKey, u64)>,
    unseen: u64,
    rest: u64,
}

impl CpuHistory {
    fn add(&mut self, entries: Vec<LogEntry>) {
        for entry in entries {
            if let Some((_, end)) = self.lost.back_mut().filter(|(_, end)| *end == u64::MAX)
                && entry.what != LogEntryKind::Lost
            {
                // The first entry after a loss shows that events arrive again.
                *end = entry.begun;
            }
            if entry.what == LogEntryKind::Lost {
                self.lost.push_back((entry.begun, u64::MAX));
                continue;
            }
            self.entries.push_back(entry);
        }
        while self.entries.len() > self.most
            && let Some(entry) = self.entries.pop_front()
        {
            self.since = self.since.max(entry.end);
        }
        while self.lost.len() > LOSSES_MAX
            && let (Some(first), Some(second)) = (self.lost.pop_front(), self.lost.front_mut())
        {
            second.0 = first.0;
        }
    }

    /// Discards what ended before this moment.
    fn forget_before(&mut self, at: u64) {
        // Inner entries end before those around them, so old entries may remain behind newer ones.
        while self.entries.front().is_some_and(|entry| entry.end < at) {
            self.entries.pop_front();
        }
        self.lost.retain(|(_, end)| *end >= at);
        self.since = self.since.max(at);
    }

    /// Why this time is unknown; `None` when it is known.
    fn missing(&self, from: u64, until: u64) -> Option<UnknownBreakdown> {
        if from < self.since {
            return Some(UnknownBreakdown::RecordsDiscarded);
        }
        let lost = self.lost.iter().any(|(begun, end)| *begun <= until && *end >= from);
        lost.then_some(UnknownBreakdown::EventsLost)
    }

    /// Splits the time among culprits. `waiter` is the thread that waited; its time is no share.
    fn split_time(&self, from: u64, until: u64, waiter: i32) -> CulpritTime {
        let mut time = CulpritTime::default();
        let mut first_seen = until;
        let mut frames: Vec<(u64, u64, usize, CulpritKey)> = Vec::new();
        let touching = self.entries.iter().filter(|entry| entry.end >= from && entry.begun < until);
        for entry in touching {
            let key = match entry.what {
                LogEntryKind::Undisturbed(pid) if pid == waiter || pid == 0 => continue,
                LogEntryKind::Undisturbed(pid) => {
                    let culprit = TracedCulprit::Task { pid, comm: Default::default() };
                    Some(CulpritKey { cause: Cause::UserTask, culprit })
                }
                LogEntryKind::Frame(_, key) => Some(key),
                LogEntryKind::Interruption(_) | LogEntryKind::Lost => None,
            };
            // What ended at the first moment ran before it.
            if entry.end > from || entry.begun == from {
                first_seen = first_seen.min(entry.begun.max(from));
            }
            frames.extend(
                key.map(|key| (entry.begun.max(from), entry.end.min(until), entry.depth, key)),
            );
        }
        frames.sort_by_key(|(begun, end, depth, _)| (*begun, *depth, std::cmp::Reverse(*end)));
        let mut attribution = TimeAttribution { at: from, ..TimeAttribution::default() };
        for (begun, end, _, key) in frames {
            attribution.advance(begun);
            attribution.open.push((end, key));
        }
        attribution.advance(until);
        let took = attribution.took.into_iter();
        time.shares = took.filter(|(_, ticks)| *ticks > 0).collect();
        let attributed: u64 = time.shares.iter().map(|(_, ticks)| ticks).sum();
        time.unseen = first_seen.saturating_sub(from);
        time.rest = until.saturating_sub(from).saturating_sub(attributed + time.unseen);
        time
    }
}

/// Attributes time to the innermost open frame. Times are ticks.
#[derive(Debug, Default)]
struct TimeAttribution {
    /// Time of each culprit so far.
    took: HashMap<CulpritKey, u64>,
    /// End and culprit of each open frame, innermost last.
    open: Vec<(u64, CulpritKey)>,
    /// The time up to which everything is attributed.
    at: u64,
}

impl TimeAttribution {
    /// Attributes the time up to `to`, and closes the frames that end before it.
    fn advance(&mut self, to: u64) {
        while let Some((end, key)) = self.open.last().copied() {
            *self.took.entry(key).or_default() += end.min(to).saturating_sub(self.at);
            self.at = self.at.max(end.min(to));
            if end > to {
                break;
            }
            self.open.pop();
        }
        self.at = self.at.max(to);
    }
}

impl TraceRecorder<'_> {
    /// Keeps the history of the last `last_ns` nanoseconds from [`TraceRecorder::start`] on, for
    /// [`TraceRecorder::why`]. A busy CPU has less, because memory is limited by this module.
    pub fn remember(&mut self, last_ns: u64) {
        let most = ENTRIES_MAX / self.channels.len().max(1);
        let mut histories = Vec::new();
        for channel in &mut self.channels {
            histories.push((channel.cpu, CpuHistory { most, ..CpuHistory::default() }));
            channel.tracker.keep_history();
        }
        self.flight_recorder =
            Some(FlightRecorder { clock_sync: ClockSync::default(), histories, last_ns });
    }

    /// Adds what was just read to the history.
    pub(super) fn record_history(&mut self, ClockTicks(now): ClockTicks) {
        let (tsc, begun, per_ns) = (self.tsc, self.begun.0, self.context.ticks_per_ns);
        let Some(flight_recorder) = &mut self.flight_recorder else { return };
        if tsc {
            flight_recorder.clock_sync.add(ClockSample::now());
        }
        let old = now.saturating_sub(ns_to_ticks(flight_recorder.last_ns, per_ns)).max(begun);
        for (channel, (_, history)) in self.channels.iter_mut().zip(&mut flight_recorder.histories)
        {
            history.add(channel.tracker.take_all_entries());
            history.forget_before(old);
        }
    }

    /// What ran on a CPU between two times of `CLOCK_MONOTONIC`, both before the last
    /// [`TraceRecorder::poll`]. `waiter` is the thread that waited. Without remedies.
    pub fn why(&mut self, cpu: usize, waiter: i32, from_ns: u64, until_ns: u64) -> TimeBreakdown {
        let Some(flight_recorder) = &self.flight_recorder else {
            return TimeBreakdown::unknown(UnknownBreakdown::NoHistory);
        };
        let ends = [from_ns, until_ns].map(|ns| match self.tsc {
            true => flight_recorder.clock_sync.ticks_at(ns),
            false => Some((ClockTicks(ns), ClockTicks::default())),
        });
        let [Some((from, error)), Some((until, other))] = ends else {
            return TimeBreakdown::unknown(UnknownBreakdown::ClocksNotSynchronized);
        };
        let Some((_, history)) =
            flight_recorder.histories.iter().find(|(recorded, _)| *recorded == cpu)
        else {
            return TimeBreakdown::unknown(UnknownBreakdown::CpuNotTraced);
        };
        if let Some(why) = history.missing(from.0, until.0) {
            return TimeBreakdown::unknown(why);
        }
        let scale = self.scale();
        let time = history.split_time(from.0, until.0, waiter);
        for (key, _) in &time.shares {
            if let TracedCulprit::Task { pid, .. } = key.culprit {
                look_up_task(self.host, &mut self.tasks, pid);
            }
        }
        let names = CulpritNames { symbols: &self.symbols, tasks: &self.tasks, stacks: None };
        let mut shares: Vec<TimeShare> = Vec::new();
        for (key, ticks) in time.shares {
            let ((cause, culprit), took_ns) = (names.describe(key), scale.ns(ticks));
            match shares.iter_mut().find(|s| s.cause == cause && s.culprit == culprit) {
                Some(share) => share.took_ns += took_ns,
                None => shares.push(TimeShare { cause, culprit, took_ns, remedy: None }),
            }
        }
        shares.sort_by_cached_key(|share| {
            (std::cmp::Reverse(share.took_ns), share.culprit.to_string())
        });
        let others = shares.drain(SHARES_MAX.min(shares.len())..);
        let rest_ns = others.map(|share| share.took_ns).sum::<u64>() + scale.ns(time.rest);
        let (unseen_ns, error_ns) = (scale.ns(time.unseen), scale.duration_ns(error.max(other)));
        TimeBreakdown { shares, unseen_ns, rest_ns, error_ns, unknown: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::causes::culprit::KernelEvent;
    use crate::documents::evidence::KernelWork;

    const IRQ: CulpritKey = CulpritKey {
        cause: Cause::Hrtimer,
        culprit: TracedCulprit::Event(KernelEvent::LocalTimer),
    };
    const HOG: CulpritKey = CulpritKey { cause: Cause::UserTask, culprit: TracedCulprit::Others };
    const SELF: i32 = 7;

    fn entry(begun: u64, end: u64, depth: usize, what: LogEntryKind) -> LogEntry {
        LogEntry { begun, end, depth, what, stack: None }
    }

    fn history(entries: Vec<LogEntry>) -> CpuHistory {
        let mut history = CpuHistory { most: 100, ..CpuHistory::default() };
        history.add(entries);
        history
    }

    fn split(history: &CpuHistory, from: u64, until: u64) -> (Vec<(CulpritKey, u64)>, u64, u64) {
        let mut time = history.split_time(from, until, SELF);
        time.shares.sort_by_key(|(_, ticks)| std::cmp::Reverse(*ticks));
        let whole: u64 = time.shares.iter().map(|(_, ticks)| ticks).sum();
        assert_eq!(whole + time.unseen + time.rest, until - from, "the shares add up");
        (time.shares, time.unseen, time.rest)
    }

    #[test]
    fn each_culprit_has_its_own_time_and_the_remaining_time_is_the_rest() {
        // A task from 100 on, interrupted twice, the first time within an interrupt.
        let history = history(vec![
            entry(50, 100, 0, LogEntryKind::Undisturbed(SELF)),
            entry(210, 220, 3, LogEntryKind::Frame(KernelWork::Hrtimer, IRQ)),
            entry(200, 240, 2, LogEntryKind::Frame(KernelWork::Vector, IRQ)),
            entry(300, 310, 2, LogEntryKind::Frame(KernelWork::Vector, IRQ)),
            entry(100, 400, 1, LogEntryKind::Frame(KernelWork::Task, HOG)),
            entry(100, 420, 0, LogEntryKind::Interruption(HOG)),
            entry(420, 500, 0, LogEntryKind::Undisturbed(SELF)),
        ]);
        assert_eq!(split(&history, 150, 430), (vec![(HOG, 200), (IRQ, 50)], 0, 30));
        assert_eq!(split(&history, 60, 430), (vec![(HOG, 250), (IRQ, 50)], 40, 30));
        assert_eq!(split(&history, 215, 218), (vec![(IRQ, 3)], 0, 0), "inside an interrupt");
        assert_eq!(split(&history, 430, 450), (vec![], 20, 0), "no other task ran");
        assert_eq!(split(&history, 600, 700), (vec![], 100, 0), "no events");
        let other = CulpritKey {
            cause: Cause::UserTask,
            culprit: TracedCulprit::Task { pid: SELF, comm: Default::default() },
        };
        let time = history.split_time(60, 100, SELF + 1);
        assert_eq!((time.shares, time.unseen), (vec![(other, 40)], 0), "another measuring thread");
    }

    #[test]
    fn lost_and_discarded_times_are_unknown() {
        let task = |begun, end| entry(begun, end, 0, LogEntryKind::Undisturbed(SELF));
        let mut history =
            history(vec![task(0, 100), entry(100, 100, 0, LogEntryKind::Lost), task(150, 200)]);
        let known = |history: &CpuHistory, from, until| history.missing(from, until).is_none();
        assert!(known(&history, 10, 99) && known(&history, 151, 190));
        assert!(
            !known(&history, 10, 100) && !known(&history, 120, 130) && !known(&history, 140, 190)
        );
        history.add(vec![entry(300, 300, 0, LogEntryKind::Lost)]);
        assert!(!known(&history, 250, 400), "the loss continues");
        history.forget_before(160);
        assert!(!known(&history, 151, 190) && known(&history, 160, 190));
        history.add((0..200).map(|n| task(400 + n, 401 + n)).collect());
        assert_eq!((history.entries.len(), history.since), (100, 500), "memory is limited");
        assert!(!known(&history, 450, 502) && known(&history, 500, 502));
        for n in 0..1000 {
            history.add(vec![
                entry(1000 + n, 1000 + n, 0, LogEntryKind::Lost),
                task(1000 + n, 1001 + n),
            ]);
        }
        assert_eq!(history.lost.len(), LOSSES_MAX);
        assert!(!known(&history, 1000, 1001), "losses are merged, not dropped");
    }
}
