//! What happened lately on the recorded CPUs, piece by piece, at constant memory; and of it, who
//! had the time between two moments. For those who know only afterwards which moments were bad.

use super::culprit_stats::{CulpritKey, CulpritNames, TracedCulprit};
use super::interruptions::{LogEntry, LogEntryKind, ticks};
use super::{TraceRecorder, look_up};
use crate::causes::Cause;
use crate::verify::{TimeBreakdown, TimeShare};
use cpushield_linux::clock_sync::{ClockSample, ClockSync};
use std::collections::{HashMap, VecDeque};

/// Pieces kept of all CPUs: some tens of MiB.
const PIECES_MAX: usize = 512 << 10;
/// Losses kept apart on one CPU; of more, all between the first two counts as lost too.
const LOSSES_MAX: usize = 64;
/// So many culprits are named; what the others took is part of the rest.
const SHARES_MAX: usize = 12;

/// What is kept of all CPUs.
#[derive(Debug)]
pub struct FlightRecorder {
    ties: ClockSync,
    lanes: Vec<(usize, CpuHistory)>,
    last_ns: u64,
}

/// What is kept of one CPU. Times are ticks.
#[derive(Debug, Default)]
struct CpuHistory {
    pieces: VecDeque<LogEntry>,
    most: usize,
    /// Of what was before, nothing is known.
    since: u64,
    /// Events are missing between these.
    lost: VecDeque<(u64, u64)>,
}

/// Who had the time between two moments, in ticks.
#[derive(Debug, Default, PartialEq, Eq)]
struct CulpritTime {
    shares: Vec<(CulpritKey, u64)>,
    unseen: u64,
    rest: u64,
}

impl CpuHistory {
    fn hear(&mut self, pieces: Vec<LogEntry>) {
        for piece in pieces {
            if let Some((_, end)) = self.lost.back_mut().filter(|(_, end)| *end == u64::MAX)
                && piece.what != LogEntryKind::Lost
            {
                // Whatever comes first shows that events come again.
                *end = piece.begun;
            }
            if piece.what == LogEntryKind::Lost {
                self.lost.push_back((piece.begun, u64::MAX));
                continue;
            }
            self.pieces.push_back(piece);
        }
        while self.pieces.len() > self.most
            && let Some(piece) = self.pieces.pop_front()
        {
            self.since = self.since.max(piece.end);
        }
        while self.lost.len() > LOSSES_MAX
            && let (Some(first), Some(second)) = (self.lost.pop_front(), self.lost.front_mut())
        {
            second.0 = first.0;
        }
    }

    /// Forgets what was over before this moment.
    fn forget_before(&mut self, at: u64) {
        // Inner ones end before those around them, so that not every old one is in front.
        while self.pieces.front().is_some_and(|piece| piece.end < at) {
            self.pieces.pop_front();
        }
        self.lost.retain(|(_, end)| *end >= at);
        self.since = self.since.max(at);
    }

    /// Why nothing can be said of this time.
    fn unknown(&self, from: u64, until: u64) -> Option<&'static str> {
        if from < self.since {
            return Some("it began before what is kept of the trace");
        }
        let lost = self.lost.iter().any(|(begun, end)| *begun <= until && *end >= from);
        lost.then_some("events are missing in the trace of that time")
    }

    /// Who had the time. `own` is the thread that waited: its time is no part of anybody's.
    fn time(&self, from: u64, until: u64, own: i32) -> CulpritTime {
        let touching = |piece: &&LogEntry| piece.end >= from && piece.begun < until;
        let mut time = CulpritTime::default();
        let mut seen = until;
        let mut frames: Vec<(u64, u64, usize, CulpritKey)> = Vec::new();
        for piece in self.pieces.iter().filter(touching) {
            let key = match piece.what {
                LogEntryKind::Undisturbed(pid) if pid == own || pid == 0 => continue,
                LogEntryKind::Undisturbed(pid) => {
                    let who = TracedCulprit::Task { pid, comm: Default::default() };
                    Some(CulpritKey { cause: Cause::UserTask, who })
                }
                LogEntryKind::Frame(_, key) => Some(key),
                LogEntryKind::Stay(_) | LogEntryKind::Lost => None,
            };
            // What ended at the first moment was before it.
            if piece.end > from || piece.begun == from {
                seen = seen.min(piece.begun.max(from));
            }
            frames.extend(
                key.map(|key| (piece.begun.max(from), piece.end.min(until), piece.depth, key)),
            );
        }
        frames.sort_by_key(|(begun, end, depth, _)| (*begun, *depth, std::cmp::Reverse(*end)));
        let mut took: HashMap<CulpritKey, u64> = HashMap::new();
        let mut open: Vec<(u64, CulpritKey)> = Vec::new();
        let mut at = from;
        let mut give = |open: &mut Vec<(u64, CulpritKey)>, at: &mut u64, to: u64| {
            while let Some((end, key)) = open.last().copied() {
                *took.entry(key).or_default() += end.min(to).saturating_sub(*at);
                *at = (*at).max(end.min(to));
                if end > to {
                    break;
                }
                open.pop();
            }
            *at = (*at).max(to);
        };
        for (begun, end, _, key) in frames {
            give(&mut open, &mut at, begun);
            open.push((end, key));
        }
        give(&mut open, &mut at, until);
        time.shares = took.into_iter().filter(|(_, ticks)| *ticks > 0).collect();
        let shared: u64 = time.shares.iter().map(|(_, ticks)| ticks).sum();
        time.unseen = seen.saturating_sub(from);
        time.rest = until.saturating_sub(from).saturating_sub(shared + time.unseen);
        time
    }
}

impl TraceRecorder<'_> {
    /// From [`TraceRecorder::start`] on what happened in the last so many nanoseconds is kept, see
    /// [`TraceRecorder::why`]; of a busy CPU less, as no more memory is taken than this module
    /// says.
    pub fn remember(&mut self, last_ns: u64) {
        let most = PIECES_MAX / self.channels.len().max(1);
        let lane = |cpu| (cpu, CpuHistory { most, ..CpuHistory::default() });
        let lanes = self.channels.iter().map(|channel| lane(channel.cpu)).collect();
        self.channels.iter_mut().for_each(|channel| channel.stays.keep_tape());
        self.lately = Some(FlightRecorder { ties: ClockSync::default(), lanes, last_ns });
    }

    /// Keeps what was just read.
    pub(super) fn note(&mut self, heard: u64) {
        let (tsc, begun, per_ns) = (self.tsc, self.begun, self.shared.ticks_per_ns);
        let Some(lately) = &mut self.lately else { return };
        if tsc {
            lately.ties.add(ClockSample::now());
        }
        let old = heard.saturating_sub(ticks(lately.last_ns, per_ns)).max(begun);
        for (channel, (_, lane)) in self.channels.iter_mut().zip(&mut lately.lanes) {
            lane.hear(channel.stays.take_pieces());
            lane.forget_before(old);
        }
    }

    /// What ran on a CPU between two times of `CLOCK_MONOTONIC`, the last of which is before the
    /// last [`TraceRecorder::poll`]. `own` is the thread that waited. Without remedies.
    pub fn why(&mut self, cpu: usize, own: i32, from_ns: u64, until_ns: u64) -> TimeBreakdown {
        let Some(lately) = &self.lately else { return TimeBreakdown::unknown("nothing was kept") };
        let at = |ns: u64| if self.tsc { lately.ties.ticks_at(ns) } else { Some((ns, 0)) };
        let (Some((from, error)), Some((until, other))) = (at(from_ns), at(until_ns)) else {
            return TimeBreakdown::unknown(
                "the clocks of the thread and of the trace do not go together",
            );
        };
        let Some((_, lane)) = lately.lanes.iter().find(|(of, _)| *of == cpu) else {
            return TimeBreakdown::unknown("its CPU was not traced");
        };
        if let Some(why) = lane.unknown(from, until) {
            return TimeBreakdown::unknown(why);
        }
        let scale = self.scale();
        let time = lane.time(from, until, own);
        for (key, _) in &time.shares {
            if let TracedCulprit::Task { pid, .. } = key.who {
                look_up(self.host, &mut self.tasks, pid);
            }
        }
        let names = CulpritNames { symbols: &self.symbols, tasks: &self.tasks, stacks: None };
        let mut shares: Vec<TimeShare> = Vec::new();
        for (key, ticks) in time.shares {
            let ((cause, culprit), took_ns) = (names.of(key), scale.ns(ticks));
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
        let (unseen_ns, error_ns) = (scale.ns(time.unseen), scale.ns(error.max(other)));
        TimeBreakdown { shares, unseen_ns, rest_ns, error_ns, unknown: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::causes::culprit::KernelEvent;

    const IRQ: CulpritKey =
        CulpritKey { cause: Cause::Hrtimer, who: TracedCulprit::Event(KernelEvent::LocalTimer) };
    const HOG: CulpritKey = CulpritKey { cause: Cause::UserTask, who: TracedCulprit::Others };
    const SELF: i32 = 7;

    fn piece(begun: u64, end: u64, depth: usize, what: LogEntryKind) -> LogEntry {
        LogEntry { begun, end, depth, what, stack: None }
    }

    fn lane(pieces: Vec<LogEntry>) -> CpuHistory {
        let mut lane = CpuHistory { most: 100, ..CpuHistory::default() };
        lane.hear(pieces);
        lane
    }

    fn told(lane: &CpuHistory, from: u64, until: u64) -> (Vec<(CulpritKey, u64)>, u64, u64) {
        let mut time = lane.time(from, until, SELF);
        time.shares.sort_by_key(|(_, ticks)| std::cmp::Reverse(*ticks));
        let whole: u64 = time.shares.iter().map(|(_, ticks)| ticks).sum();
        assert_eq!(whole + time.unseen + time.rest, until - from, "nothing is told twice");
        (time.shares, time.unseen, time.rest)
    }

    #[test]
    fn each_has_its_own_time_and_what_nobody_had_is_the_rest() {
        // A task from 100 on, interrupted twice, the first time within an interrupt.
        let lane = lane(vec![
            piece(50, 100, 0, LogEntryKind::Undisturbed(SELF)),
            piece(210, 220, 3, LogEntryKind::Frame("hrtimer", IRQ)),
            piece(200, 240, 2, LogEntryKind::Frame("interrupt", IRQ)),
            piece(300, 310, 2, LogEntryKind::Frame("interrupt", IRQ)),
            piece(100, 400, 1, LogEntryKind::Frame("task", HOG)),
            piece(100, 420, 0, LogEntryKind::Stay(HOG)),
            piece(420, 500, 0, LogEntryKind::Undisturbed(SELF)),
        ]);
        assert_eq!(told(&lane, 150, 430), (vec![(HOG, 200), (IRQ, 50)], 0, 30));
        assert_eq!(told(&lane, 60, 430), (vec![(HOG, 250), (IRQ, 50)], 40, 30));
        assert_eq!(told(&lane, 215, 218), (vec![(IRQ, 3)], 0, 0), "inside of one");
        assert_eq!(told(&lane, 430, 450), (vec![], 20, 0), "nobody else was there");
        assert_eq!(told(&lane, 600, 700), (vec![], 100, 0), "nothing came");
        let other = CulpritKey {
            cause: Cause::UserTask,
            who: TracedCulprit::Task { pid: SELF, comm: Default::default() },
        };
        let time = lane.time(60, 100, SELF + 1);
        assert_eq!((time.shares, time.unseen), (vec![(other, 40)], 0), "another one that measures");
    }

    #[test]
    fn of_what_was_lost_or_forgotten_nothing_is_said() {
        let task = |begun, end| piece(begun, end, 0, LogEntryKind::Undisturbed(SELF));
        let mut lane =
            lane(vec![task(0, 100), piece(100, 100, 0, LogEntryKind::Lost), task(150, 200)]);
        let known = |lane: &CpuHistory, from, until| lane.unknown(from, until).is_none();
        assert!(known(&lane, 10, 99) && known(&lane, 151, 190));
        assert!(!known(&lane, 10, 100) && !known(&lane, 120, 130) && !known(&lane, 140, 190));
        lane.hear(vec![piece(300, 300, 0, LogEntryKind::Lost)]);
        assert!(!known(&lane, 250, 400), "it goes on");
        lane.forget_before(160);
        assert!(!known(&lane, 151, 190) && known(&lane, 160, 190));
        lane.hear((0..200).map(|n| task(400 + n, 401 + n)).collect());
        assert_eq!((lane.pieces.len(), lane.since), (100, 500), "memory has an end");
        assert!(!known(&lane, 450, 502) && known(&lane, 500, 502));
        for n in 0..1000 {
            lane.hear(vec![
                piece(1000 + n, 1000 + n, 0, LogEntryKind::Lost),
                task(1000 + n, 1001 + n),
            ]);
        }
        assert_eq!(lane.lost.len(), LOSSES_MAX);
        assert!(!known(&lane, 1000, 1001), "told together, not forgotten");
    }
}
