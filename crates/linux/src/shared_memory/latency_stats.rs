//! The statistics of a measuring thread, in memory that another process reads during the
//! measurement. The thread does not allocate, makes no system call except to wait for its next
//! event, and never waits for a reader. The memory does not grow with the length of the run.
//!
//! [`measure`] is the loop: it waits on an [`EventSource`] and records into a [`LatencyStats`].
//! Elsewhere: which sources exist, on which CPUs they run, and what the figures mean.

mod board;
mod cpu;
mod deferred_recorder;
mod overrun;
mod peaks;
mod trigger;

pub use board::LatencyBoard;
pub use deferred_recorder::DeferredRecorder;
pub use peaks::{LatencyPeak, MOMENT_NS};
pub use trigger::{FutexWait, TriggerListener, TriggerSignal, WakeMethod};

use crate::shared_memory::AtomicCells;
use cpu::CpuNumberReader;
use overrun::OverrunDetector;
use peaks::LatencyPeaks;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use trigger::WakeTrigger;

/// Values are stored to one part in a thousand, like HDR histograms with three significant digits:
/// exact up to 2047, then in steps that double with the value.
const EXACT_BITS: u32 = 11;
/// Values up to this many bits (18 minutes in nanoseconds) are distinguished; longer ones count as
/// the largest of them.
const BITS: u32 = 40;
/// Values in the range of one step.
const HALF: usize = 1 << (EXACT_BITS - 1);
/// Counters of a tally.
const COUNTERS: usize = (BITS - EXACT_BITS) as usize * HALF + 2 * HALF;
/// How many of the longest latencies are stored with their time.
pub const WORST: usize = 16;
/// The maximum number of limits.
pub const LIMITS: usize = 8;
/// If an event is seen this long before it was due, clock differences between CPUs do not explain
/// it.
const EARLY_NS: u64 = 1_000;

/// An event as the thread saw it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WakeEvent {
    /// When it was due, in nanoseconds of `CLOCK_MONOTONIC`.
    pub due_ns: u64,
    /// When the thread saw it, in nanoseconds of `CLOCK_MONOTONIC`.
    pub woke_ns: u64,
    /// Further events that were due before `woke_ns`, while the thread was not waiting.
    pub missed: u64,
}

/// What a thread waits for.
pub trait EventSource {
    /// Waits for the next event. Must not allocate.
    ///
    /// # Errors
    /// The kernel's error, which ends the thread.
    fn wait(&mut self) -> io::Result<WakeEvent>;
}

/// The settings of a measuring thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadSettings {
    /// The CPU it is bound to.
    pub cpu: usize,
    /// The time between two events; 0 if they are not periodic.
    pub period_ns: u64,
    /// Events that are due before this time of `CLOCK_MONOTONIC` do not count.
    pub from_ns: u64,
    /// The thread ends itself at its first event after this time, because a controlling process may
    /// not get a CPU while the thread runs.
    pub until_ns: u64,
    /// The thread ends itself when more than half of its events are a period late for a second. A
    /// real-time thread that never sleeps starves every other task on its CPU.
    pub gives_up: bool,
    /// Events that take longer than these are counted; 0 marks an unused entry.
    pub limits_ns: [u64; LIMITS],
}

/// The stage of a measuring thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThreadStage {
    /// Not started.
    Waiting,
    /// Measuring.
    Running,
    /// Stopped, or its time is over.
    Ended,
    /// Ended itself because it could not keep up.
    Overrun,
    /// Failed with this error number.
    Failed(i32),
}

/// One of the longest latencies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WorstMoment {
    /// When the event was due, in nanoseconds of `CLOCK_MONOTONIC`.
    pub due_ns: u64,
    /// How late it was, in nanoseconds.
    pub late_ns: u64,
}

#[derive(Debug, Default)]
#[repr(C)]
struct WorstSlot {
    due_ns: AtomicU64,
    late_ns: AtomicU64,
}

/// A number on a separate cache line.
#[derive(Debug, Default)]
#[repr(C, align(64))]
struct CounterLine(AtomicU64);

/// The shared memory of one thread. Only that thread writes to it, except for `stop`, `peaks` and
/// the fields of `trigger` that the triggering thread writes.
#[derive(Debug)]
#[repr(C)]
pub struct LatencyStats {
    /// Not 0: the thread must end.
    stop: CounterLine,
    trigger: WakeTrigger,
    /// 0: waiting, 1: running, 2: ended, 3: overrun, 4 and above: failed with this number minus 4.
    stage: AtomicU64,
    samples: AtomicU64,
    missed: AtomicU64,
    early: AtomicU64,
    blur: AtomicU64,
    looks: AtomicU64,
    looked_ns: AtomicU64,
    elsewhere: AtomicU64,
    sum: AtomicU64,
    min: AtomicU64,
    max: AtomicU64,
    shortest: AtomicU64,
    longest: AtomicU64,
    last_due: AtomicU64,
    over: [AtomicU64; LIMITS],
    /// Odd while `worst` is being written.
    version: AtomicU64,
    worst: [WorstSlot; WORST],
    /// The peaks that no reader has taken yet.
    peaks: LatencyPeaks,
    counts: [AtomicU64; COUNTERS],
}

// SAFETY: it consists of atomic numbers only.
unsafe impl AtomicCells for LatencyStats {}

/// A copy of the figures in a tally.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LatencyFigures {
    /// Events seen.
    pub samples: u64,
    /// Events that came while the thread was not waiting, because the one before was so late.
    pub missed: u64,
    /// Events seen before they were due, so the thread's due times are wrong.
    pub early: u64,
    /// Every event may have been due later than the thread assumes, by up to this much.
    pub blur_ns: u64,
    /// Clock reads of a thread that polls; 0 for threads that wait.
    pub looks: u64,
    /// The duration of all clock reads in nanoseconds, without the events between them.
    pub looked_ns: u64,
    /// How often the thread that triggers the events was interrupted while it did so.
    pub slow: u64,
    /// The longest duration of a trigger, in nanoseconds.
    pub slowest_ns: u64,
    /// Events that the thread saw on another CPU than its own; `None` if the processor cannot give
    /// the CPU number without a system call.
    pub elsewhere: Option<u64>,
    /// The sum of all latencies, in nanoseconds.
    pub sum_ns: u64,
    /// The shortest latency, in nanoseconds; 0 without events.
    pub min_ns: u64,
    /// The longest latency, in nanoseconds.
    pub max_ns: u64,
    /// The shortest time between two events, in nanoseconds; 0 with fewer than two events.
    pub shortest_ns: u64,
    /// The longest time between two events, in nanoseconds.
    pub longest_ns: u64,
    /// When the last event was due, in nanoseconds of `CLOCK_MONOTONIC`.
    pub last_due_ns: u64,
    /// How many events exceeded each limit. Missed events count too: an event that was due later
    /// than the one seen was late by that much less.
    pub over: [u64; LIMITS],
    /// The longest latencies, longest first.
    pub worst: Vec<WorstMoment>,
}

/// The index of the counter for a value.
#[inline(always)]
fn counter_index(value: u64) -> usize {
    let value = value.min((1 << BITS) - 1);
    let shift = (u64::BITS - value.leading_zeros()).saturating_sub(EXACT_BITS);
    // The value has at most EXACT_BITS bits after the shift.
    shift as usize * HALF + (value >> shift) as usize
}

/// The smallest value that a counter stands for.
fn smallest_value(counter: usize) -> u64 {
    match counter.checked_sub(2 * HALF) {
        None => counter as u64,
        Some(beyond) => {
            let shift = 1 + beyond / HALF;
            ((HALF + beyond % HALF) as u64) << shift
        }
    }
}

/// Adds to a counter. There is only one writer, so no locked instruction is needed.
#[inline(always)]
fn add(counter: &AtomicU64, n: u64) {
    counter.store(read(counter).wrapping_add(n), Ordering::Relaxed);
}

#[inline(always)]
fn read(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

impl WorstSlot {
    /// A copy, which is torn if the thread writes at the same time.
    fn load(&self) -> WorstMoment {
        WorstMoment { due_ns: read(&self.due_ns), late_ns: read(&self.late_ns) }
    }
}

impl LatencyStats {
    /// Asks the thread to end after its next event.
    pub fn stop(&self) {
        self.stop.0.store(1, Ordering::Release);
    }

    /// Whether the thread was asked to end.
    #[inline(always)]
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.stop.0.load(Ordering::Acquire) != 0
    }

    /// The stage of the thread.
    #[must_use]
    pub fn stage(&self) -> ThreadStage {
        match self.stage.load(Ordering::Acquire) {
            0 => ThreadStage::Waiting,
            1 => ThreadStage::Running,
            2 => ThreadStage::Ended,
            3 => ThreadStage::Overrun,
            n => ThreadStage::Failed(i32::try_from(n - 4).unwrap_or(i32::MAX)),
        }
    }

    /// Records that the thread failed with this error.
    pub fn fail(&self, error: &io::Error) {
        let number = error.raw_os_error().unwrap_or(libc::EIO);
        self.stage.store(4 + u64::from(number.unsigned_abs()), Ordering::Release);
    }

    /// Sets how many nanoseconds later than assumed events may have been due.
    pub fn set_blur(&self, ns: u64) {
        self.blur.store(ns, Ordering::Relaxed);
    }

    /// Sets the number of clock reads of a polling thread, and their duration without its events.
    #[inline]
    pub fn set_clock_reads(&self, looks: u64, ns: u64) {
        self.looked_ns.store(ns, Ordering::Relaxed);
        self.looks.store(looks, Ordering::Relaxed);
    }

    /// Whether an event was recorded.
    #[must_use]
    pub fn has_samples(&self) -> bool {
        self.samples.load(Ordering::Relaxed) > 0
    }

    /// Removes and returns the longest latency of each moment since the last call, in no order.
    /// Moments in which no event was due are left out.
    pub fn take_peaks(&self) -> impl Iterator<Item = LatencyPeak> {
        self.peaks.take()
    }

    /// A copy of the current figures. They may be one event apart while the thread runs.
    #[must_use]
    pub fn figures(&self) -> LatencyFigures {
        let mut worst = self.worst();
        worst.retain(|moment| moment.due_ns > 0);
        worst.sort_by_key(|moment| (std::cmp::Reverse(moment.late_ns), moment.due_ns));
        LatencyFigures {
            samples: read(&self.samples),
            missed: read(&self.missed),
            early: read(&self.early),
            blur_ns: read(&self.blur),
            looks: read(&self.looks),
            looked_ns: read(&self.looked_ns),
            slow: read(&self.trigger.slow),
            slowest_ns: read(&self.trigger.slowest_ns),
            elsewhere: CpuNumberReader::find().map(|_| read(&self.elsewhere)),
            sum_ns: read(&self.sum),
            min_ns: read(&self.min),
            max_ns: read(&self.max),
            shortest_ns: read(&self.shortest),
            longest_ns: read(&self.longest),
            last_due_ns: read(&self.last_due),
            over: std::array::from_fn(|i| self.over.get(i).map_or(0, read)),
            worst,
        }
    }

    /// A consistent copy of the longest latencies. If the thread is stopped while it writes, one of
    /// them may be torn: after many attempts the copy is returned as it is.
    fn worst(&self) -> Vec<WorstMoment> {
        let mut found = Vec::new();
        for _ in 0..1000 {
            let before = self.version.load(Ordering::Acquire);
            found = self.worst.iter().map(WorstSlot::load).collect();
            fence(Ordering::Acquire);
            if before.is_multiple_of(2) && self.version.load(Ordering::Relaxed) == before {
                break;
            }
        }
        found
    }

    /// The recorded values and how often each occurred, smallest first. A value stands for the
    /// range up to a thousandth above it.
    pub fn counts(&self) -> impl Iterator<Item = (u64, u64)> {
        let counts = self.counts.iter().map(read).enumerate();
        counts.filter(|(_, count)| *count > 0).map(|(at, count)| (smallest_value(at), count))
    }
}

/// Records events into a tally, together with the state that only the loop needs.
struct LatencyRecorder<'a> {
    tally: &'a LatencyStats,
    settings: ThreadSettings,
    /// A latency above this is among the longest.
    worst_threshold: u64,
    /// The number of the last event's moment.
    moment: u64,
    /// When the last event was seen; 0 before the first.
    last: u64,
    /// Found once, before the loop: in a guest, CPUID causes an exit to the hypervisor.
    cpu_number: Option<CpuNumberReader>,
}

impl LatencyRecorder<'_> {
    /// Records an event, unless it was due before the measurement began. Of the events that were
    /// missed together with it, those due since then are recorded.
    #[inline(always)]
    fn record(&mut self, mut wake: WakeEvent) {
        if wake.due_ns < self.settings.from_ns {
            let before = self.settings.from_ns - wake.due_ns;
            let period_ns = self.settings.period_ns.max(1);
            // Events that a late waker left out were due before this one.
            let later = wake.woke_ns.saturating_sub(wake.due_ns) / period_ns;
            wake.missed = wake.missed.min(later);
            let periods = before.div_ceil(period_ns);
            if periods > wake.missed {
                return;
            }
            wake.due_ns += periods * self.settings.period_ns;
            wake.missed -= periods;
        }
        let tally = self.tally;
        let late = wake.woke_ns.saturating_sub(wake.due_ns);
        if let Some(count) = tally.counts.get(counter_index(late)) {
            add(count, 1);
        }
        let first = read(&tally.samples) == 0;
        add(&tally.samples, 1);
        add(&tally.missed, wake.missed);
        if wake.due_ns > wake.woke_ns.saturating_add(EARLY_NS) {
            add(&tally.early, 1);
        }
        add(&tally.sum, late);
        tally.last_due.store(wake.due_ns, Ordering::Relaxed);
        if first || late < read(&tally.min) {
            tally.min.store(late, Ordering::Relaxed);
        }
        if late > read(&tally.max) {
            tally.max.store(late, Ordering::Relaxed);
        }
        let since_ns = wake.due_ns - self.settings.from_ns;
        self.moment = tally.peaks.record(self.moment, since_ns, late);
        for (limit, over) in self.settings.limits_ns.iter().zip(&tally.over) {
            if *limit == 0 {
                break;
            }
            if late > *limit {
                // Each missed event would have been seen at the same moment.
                let beyond = (late - limit - 1).checked_div(self.settings.period_ns);
                add(over, 1 + wake.missed.min(beyond.unwrap_or(0)));
            }
        }
        if late > self.worst_threshold || (first && late == 0) {
            self.replace_least_worst(WorstMoment { due_ns: wake.due_ns, late_ns: late });
        }
        if let Some(reader) = self.cpu_number
            && reader.read() != self.settings.cpu
        {
            add(&tally.elsewhere, 1);
        }
        self.record_interval(wake.woke_ns);
    }

    /// Records the time since the last event.
    #[inline(always)]
    fn record_interval(&mut self, now: u64) {
        if self.last != 0 {
            let (tally, time) = (self.tally, now.saturating_sub(self.last));
            let shortest = read(&tally.shortest);
            if shortest == 0 || time < shortest {
                tally.shortest.store(time, Ordering::Relaxed);
            }
            if time > read(&tally.longest) {
                tally.longest.store(time, Ordering::Relaxed);
            }
        }
        self.last = now;
    }

    /// Stores this latency in place of the shortest of the longest.
    fn replace_least_worst(&mut self, moment: WorstMoment) {
        let tally = self.tally;
        let Some(least) = tally.worst.iter().min_by_key(|slot| read(&slot.late_ns)) else {
            return;
        };
        let version = read(&tally.version);
        tally.version.store(version.wrapping_add(1), Ordering::Relaxed);
        fence(Ordering::Release);
        least.due_ns.store(moment.due_ns, Ordering::Relaxed);
        least.late_ns.store(moment.late_ns, Ordering::Relaxed);
        tally.version.store(version.wrapping_add(2), Ordering::Release);
        self.worst_threshold =
            tally.worst.iter().map(|slot| read(&slot.late_ns)).min().unwrap_or(0);
    }
}

/// Records one event after the other until the tally is stopped, the time is over, the thread
/// cannot keep up, or the source fails.
pub fn measure(source: &mut impl EventSource, tally: &LatencyStats, settings: ThreadSettings) {
    tally.stage.store(1, Ordering::Release);
    let mut recorder = LatencyRecorder {
        tally,
        settings,
        worst_threshold: 0,
        moment: 0,
        last: 0,
        cpu_number: CpuNumberReader::find(),
    };
    let mut overrun = OverrunDetector::default();
    let stage = loop {
        if tally.is_stopped() {
            break 2;
        }
        match source.wait() {
            Ok(wake) => {
                recorder.record(wake);
                if wake.woke_ns >= settings.until_ns {
                    break 2;
                }
                if settings.gives_up && overrun.is_overrun(wake) {
                    break 3;
                }
            }
            // The stop may have interrupted the wait.
            Err(_) if tally.is_stopped() => break 2,
            Err(error) => return tally.fail(&error),
        }
    };
    tally.stage.store(stage, Ordering::Release);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::processes::process::ProcessEnd;
    use crate::shared_memory::sampler::tests::{allocations, without_other_calls_than};
    use crate::sys::clock;
    use proptest::prelude::*;

    /// Events with given latencies.
    struct LateEvents<'a> {
        due: u64,
        late: std::slice::Iter<'a, u64>,
    }

    impl EventSource for LateEvents<'_> {
        fn wait(&mut self) -> io::Result<WakeEvent> {
            let late = self.late.next().ok_or(io::Error::from_raw_os_error(libc::ENODATA))?;
            let due_ns = self.due + 1_000_000;
            let missed = late / 1_000_000;
            self.due = due_ns + missed * 1_000_000;
            Ok(WakeEvent { due_ns, woke_ns: due_ns + late, missed })
        }
    }

    const SETTINGS: ThreadSettings = ThreadSettings {
        cpu: 0,
        period_ns: 1_000_000,
        from_ns: 0,
        until_ns: u64::MAX,
        gives_up: false,
        limits_ns: [0; LIMITS],
    };

    fn measure_late(late: &[u64], settings: ThreadSettings) -> (LatencyBoard, LatencyFigures) {
        let board = LatencyBoard::new(1).unwrap();
        let tally = &board.tallies()[0];
        assert_eq!(tally.stage(), ThreadStage::Waiting);
        measure(&mut LateEvents { due: 0, late: late.iter() }, tally, settings);
        assert_eq!(tally.stage(), ThreadStage::Failed(libc::ENODATA));
        let figures = tally.figures();
        (board, figures)
    }

    #[test]
    fn every_event_is_counted_once_and_the_longest_are_stored_with_their_time() {
        let mut late: Vec<u64> = (1..=1000).collect();
        late[499] = 3_500_000;
        let limits_ns = [999, 3_499_999, 3_500_000, 499_999, 0, 0, 0, 0];
        let (board, figures) = measure_late(&late, ThreadSettings { limits_ns, ..SETTINGS });
        assert_eq!((figures.samples, figures.missed), (1000, 3));
        assert_eq!((figures.min_ns, figures.max_ns), (1, 3_500_000));
        assert_eq!(figures.sum_ns, 500_500 - 500 + 3_500_000);
        // The three missed events were 2.5, 1.5 and 0.5 ms late.
        assert_eq!(figures.over[..4], [5, 1, 0, 4]);
        assert_eq!(figures.worst.len(), WORST);
        assert_eq!(figures.worst[0], WorstMoment { due_ns: 500_000_000, late_ns: 3_500_000 });
        assert_eq!(figures.worst[1], WorstMoment { due_ns: 1_003_000_000, late_ns: 1000 });
        // The event after the late one follows soon.
        assert_eq!((figures.shortest_ns, figures.longest_ns), (500_501, 4_499_501));
        assert_eq!(board.tallies()[0].counts().map(|(_, count)| count).sum::<u64>(), 1000);
        let mut peaks: Vec<LatencyPeak> = board.tallies()[0].take_peaks().collect();
        peaks.sort_by_key(|peak| peak.at_ns);
        // Events are due each millisecond: a hundred of them in each moment.
        assert!(
            peaks.windows(2).all(|pair| pair[1].at_ns == pair[0].at_ns + MOMENT_NS),
            "{peaks:?}"
        );
        let longest = peaks.iter().max_by_key(|peak| peak.late_ns).unwrap();
        assert_eq!(longest.late_ns, 3_500_000);
        assert_eq!(longest.at_ns, (500_000_000 - SETTINGS.from_ns) / MOMENT_NS * MOMENT_NS);
        assert_eq!(board.tallies()[0].take_peaks().count(), 0, "the peaks were already taken");
    }

    #[test]
    fn events_due_before_the_start_do_not_count() {
        let settings = ThreadSettings { from_ns: 1_500_000, ..SETTINGS };
        let (_, figures) = measure_late(&[9_000, 10, 20], settings);
        assert_eq!((figures.samples, figures.max_ns), (2, 20));
    }

    /// A waker that was late left out three events before the one that it triggered.
    #[test]
    fn events_that_a_late_waker_left_out_before_the_start_do_not_count() {
        let settings = ThreadSettings { from_ns: 5_000_000, ..SETTINGS };
        let board = LatencyBoard::new(1).unwrap();
        let tally = &board.tallies()[0];
        let mut wakes = [(3_200_000, 3_210_000, 3), (7_000_000, 7_005_000, 0)].into_iter();
        let mut source = FnSource(|| {
            let (due_ns, woke_ns, missed) = wakes.next()?;
            Some(WakeEvent { due_ns, woke_ns, missed })
        });
        measure(&mut source, tally, settings);
        let figures = tally.figures();
        assert_eq!((figures.samples, figures.early, figures.min_ns), (1, 0, 5_000));
    }

    #[test]
    fn an_event_seen_before_it_was_due_is_counted_as_early() {
        let board = LatencyBoard::new(1).unwrap();
        let tally = &board.tallies()[0];
        let mut wakes = [(5_000, 9_000), (20_000, 10_000), (30_000, 29_500)].into_iter();
        let mut source = FnSource(|| {
            let (due_ns, woke_ns) = wakes.next()?;
            Some(WakeEvent { due_ns, woke_ns, missed: 0 })
        });
        measure(&mut source, tally, SETTINGS);
        let figures = tally.figures();
        assert_eq!((figures.samples, figures.early, figures.min_ns), (3, 1, 0));
    }

    /// Events that a closure returns.
    struct FnSource<F>(F);

    impl<F: FnMut() -> Option<WakeEvent>> EventSource for FnSource<F> {
        fn wait(&mut self) -> io::Result<WakeEvent> {
            (self.0)().ok_or(io::Error::from_raw_os_error(libc::ENODATA))
        }
    }

    /// Measures with a period of 10 µs and this latency of the nth event; returns the final stage
    /// and the time of the last event.
    fn run_to_end(settings: ThreadSettings, late_ns: impl Fn(u64) -> u64) -> (ThreadStage, u64) {
        let (period, mut due, mut last, mut nth) = (10_000, 1_000_000, 0, 0);
        let board = LatencyBoard::new(1).unwrap();
        let mut source = FnSource(|| {
            let (due_ns, late) = (due, late_ns(nth));
            let (woke_ns, missed) = (due_ns + late, late / period);
            (last, nth) = (woke_ns, nth + 1);
            due += period * (missed + 1);
            (nth < 1_000_000).then_some(WakeEvent { due_ns, woke_ns, missed })
        });
        measure(&mut source, &board.tallies()[0], settings);
        (board.tallies()[0].stage(), last)
    }

    #[test]
    fn events_due_after_the_start_are_recorded_despite_a_stall_across_it() {
        let settings = ThreadSettings { from_ns: 5_000_000, ..SETTINGS };
        // Due at 1 to 3 ms, then at 8 ms. Those of 4 to 7 ms were missed.
        let (_, figures) = measure_late(&[0, 0, 4_500_000, 1], settings);
        assert_eq!((figures.samples, figures.missed), (2, 2));
        assert_eq!((figures.min_ns, figures.max_ns), (1, 2_500_000));
    }

    #[test]
    fn a_thread_ends_itself_when_its_time_is_over() {
        let settings = ThreadSettings { until_ns: 3_000_000, ..SETTINGS };
        assert_eq!(run_to_end(settings, |_| 0), (ThreadStage::Ended, 3_000_000));
    }

    #[test]
    fn a_thread_that_cannot_keep_up_gives_up_within_two_seconds() {
        let settings = ThreadSettings { gives_up: true, period_ns: 10_000, ..SETTINGS };
        let (stage, at_ns) = run_to_end(settings, |_| 12_000);
        assert_eq!(stage, ThreadStage::Overrun);
        assert!(at_ns < 2_100_000_000, "{at_ns}");
        // A thread that keeps up, is interrupted a few times, or need not give up does not end.
        let out_of_events = ThreadStage::Failed(libc::ENODATA);
        assert_eq!(run_to_end(settings, |_| 8_000).0, out_of_events);
        let rarely_late = |nth| if nth % 9_000 == 0 { 900_000_000 } else { 0 };
        assert_eq!(run_to_end(settings, rarely_late).0, out_of_events);
        let patient = ThreadSettings { gives_up: false, ..settings };
        assert_eq!(run_to_end(patient, |_| 12_000).0, out_of_events);
    }

    proptest! {
        #[test]
        fn a_value_is_stored_to_a_thousandth(value_ns in any::<u64>()) {
            let found = smallest_value(counter_index(value_ns));
            let real = value_ns.min((1 << BITS) - 1);
            prop_assert!(counter_index(value_ns) < COUNTERS);
            prop_assert!(found <= real && real - found <= real / 1024, "{found} for {real}");
        }
    }

    #[test]
    fn the_counters_are_in_the_order_of_their_values() {
        for at in 1..COUNTERS {
            assert!(smallest_value(at) > smallest_value(at - 1));
            assert_eq!(counter_index(smallest_value(at)), at);
        }
    }

    /// A timer like that of `latency timer`.
    struct Timer(u64);

    impl EventSource for Timer {
        fn wait(&mut self) -> io::Result<WakeEvent> {
            self.0 += 200_000;
            clock::sleep_until(self.0)?;
            Ok(WakeEvent { due_ns: self.0, woke_ns: clock::monotonic_ns(), missed: 0 })
        }
    }

    /// A timer that stops the tally at an event of this number.
    struct LimitedTimer<'a>(Timer, u32, &'a LatencyStats);

    impl EventSource for LimitedTimer<'_> {
        fn wait(&mut self) -> io::Result<WakeEvent> {
            self.1 -= 1;
            if self.1 == 0 {
                self.2.stop();
            }
            self.0.wait()
        }
    }

    fn measure_50_events(tally: &LatencyStats) {
        let mut source = LimitedTimer(Timer(clock::monotonic_ns()), 50, tally);
        measure(&mut source, tally, SETTINGS);
    }

    #[test]
    fn the_loop_allocates_nothing() {
        let board = LatencyBoard::new(1).unwrap();
        let before = allocations();
        measure_50_events(&board.tallies()[0]);
        assert_eq!(allocations(), before);
        assert_eq!(board.tallies()[0].figures().samples, 50);
    }

    #[test]
    fn the_loop_makes_no_system_call_but_its_sleep() {
        let path = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
        let source = std::fs::read_to_string(path).unwrap_or_default();
        let mut allowed = vec![libc::SYS_clock_nanosleep];
        // Only the kernel reads other clocks (vDSO: `vclock_mode` of the clocksource).
        if !["tsc", "arch_sys_counter"].contains(&source.trim()) {
            allowed.push(libc::SYS_clock_gettime);
        }
        // The first reading in a process looks up the vDSO by system calls.
        let _ = clock::monotonic_ns();
        for (allowed, samples) in [(&allowed[..], 50), (&allowed[1..], 0)] {
            let board = LatencyBoard::new(1).unwrap();
            let tally = &board.tallies()[0];
            let body = || {
                measure_50_events(tally);
                true
            };
            let ended = without_other_calls_than(allowed, body);
            assert_eq!(
                (ended == ProcessEnd::Exited(0), tally.figures().samples),
                (samples > 0, samples)
            );
        }
    }

    #[test]
    fn another_process_reads_the_figures_and_stops_the_thread() {
        let board = LatencyBoard::new(2).unwrap();
        let pid = i32::try_from(std::process::id()).unwrap();
        let other = LatencyBoard::open(pid, board.number().unwrap(), 2).unwrap();
        assert!(
            LatencyBoard::open(pid, board.number().unwrap(), 3).is_err(),
            "the file is shorter"
        );
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut timer = Timer(clock::monotonic_ns());
                measure(&mut timer, &board.tallies()[1], SETTINGS);
            });
            while other.tallies()[1].figures().samples < 10 {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            assert_eq!(other.tallies()[1].stage(), ThreadStage::Running);
            other.tallies()[1].stop();
        });
        assert_eq!(other.tallies()[1].stage(), ThreadStage::Ended);
        assert_eq!(other.tallies()[0].stage(), ThreadStage::Waiting);
    }
}
