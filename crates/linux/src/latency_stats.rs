//! What a measuring thread saw, in memory that another process reads while it goes on: the thread
//! allocates nothing, asks the kernel for nothing but its next event, and never waits for a reader.
//! The memory of a day is that of a second.
//!
//! [`measure`] is the loop; what it waits for is a [`EventSource`], and what came of it goes into a
//! [`LatencyStats`]. Not its job: which sources there are, on which CPUs, what the figures mean.

mod cpu;
mod deferred_recorder;
mod overrun;
mod peaks;
mod trigger;

pub use deferred_recorder::DeferredRecorder;
pub use peaks::{LatencyPeak, MOMENT_NS};
pub use trigger::{FutexWait, TriggerListener, TriggerSignal, WakeMethod};

use crate::shared_memory::{MappingAccess, SharedMemory};
#[cfg(target_arch = "x86_64")]
use cpu::cpu_number;
use cpu::has_cpu_number;
use overrun::OverrunDetector;
use peaks::LatencyPeaks;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering, fence};
use trigger::WakeTrigger;

/// Values are kept to one part in a thousand, as HDR histograms of three digits keep them: exact up
/// to 2047, then in steps that double with the value.
const EXACT_BITS: u32 = 11;
/// Values of so many bits (18 minutes in nanoseconds) are told apart; longer ones count as those.
const BITS: u32 = 40;
/// Values in one step's range.
const HALF: usize = 1 << (EXACT_BITS - 1);
/// Counters of a tally.
const COUNTERS: usize = (BITS - EXACT_BITS) as usize * HALF + 2 * HALF;
/// How many of the longest are kept with their time.
pub const WORST: usize = 16;
/// How many limits can be counted against.
pub const LIMITS: usize = 8;
/// An event seen so long before it was due is not explained by the clocks of two CPUs.
const EARLY_NS: u64 = 1_000;

/// An event that came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WakeEvent {
    /// When it was due, in nanoseconds of `CLOCK_MONOTONIC`.
    pub due_ns: u64,
    /// When the thread saw it.
    pub woke_ns: u64,
    /// Further events that were due before that, and that nobody waited for.
    pub missed: u64,
}

/// What a thread waits for.
pub trait EventSource {
    /// Waits for the next event. Must not allocate.
    ///
    /// # Errors
    /// The kernel's answer; the thread ends with it.
    fn wait(&mut self) -> io::Result<WakeEvent>;
}

/// What a thread is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadSettings {
    /// The CPU it belongs to.
    pub cpu: usize,
    /// The time between two events; 0 where there is none.
    pub period_ns: u64,
    /// Events that are due before this time of `CLOCK_MONOTONIC` do not count.
    pub from_ns: u64,
    /// The thread ends by itself with its first event after this time: whoever should stop it may
    /// not get a CPU from it.
    pub until_ns: u64,
    /// The thread ends by itself when more than half of its events come a period late for a second:
    /// one of a real-time priority that never sleeps takes its CPU from everybody else.
    pub gives_up: bool,
    /// Events that take longer than these are counted; 0 is none.
    pub limits_ns: [u64; LIMITS],
}

/// Where a thread is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThreadStage {
    /// It has not begun.
    Waiting,
    /// It measures.
    Running,
    /// It was told to end, or its time was over.
    Ended,
    /// It could not keep up, and gave up.
    Overrun,
    /// It could not go on: the error number.
    Failed(i32),
}

/// One of the longest.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WorstMoment {
    /// When it was due, in nanoseconds of `CLOCK_MONOTONIC`.
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

/// A number with a cache line of its own.
#[derive(Debug, Default)]
#[repr(C, align(64))]
struct CounterLine(AtomicU64);

/// The shared memory of one thread. It is written by that thread alone, but for `stop`, `peaks` and
/// who rings the bell.
#[derive(Debug)]
#[repr(C)]
pub struct LatencyStats {
    /// Not 0: the thread is to end.
    stop: CounterLine,
    bell: WakeTrigger,
    /// 0 waiting, 1 running, 2 ended, 3 gave up, 4 and more failed with this number less 4.
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
    /// Odd while `worst` is written.
    version: AtomicU64,
    worst: [WorstSlot; WORST],
    /// The longest of each moment that no reader took yet.
    peaks: LatencyPeaks,
    counts: [AtomicU64; COUNTERS],
}

/// A copy of the figures of a tally.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LatencyFigures {
    /// Events that came.
    pub samples: u64,
    /// Events that nobody waited for, because the one before was that late.
    pub missed: u64,
    /// Events that came before they were due: when they were is not what the thread believes.
    pub early: u64,
    /// By so much every event may have been due later than the thread believes.
    pub blur_ns: u64,
    /// Looks at the clock of a thread that does nothing else; 0 for those that wait.
    pub looks: u64,
    /// What all of them took together, without the events between them.
    pub looked_ns: u64,
    /// How often the one who makes the events was itself kept from it while it did so.
    pub slow: u64,
    /// For how long at most, in nanoseconds.
    pub slowest_ns: u64,
    /// Events that the thread saw on another CPU than its own; `None` where the processor does not
    /// tell without asking the kernel.
    pub elsewhere: Option<u64>,
    /// All together, in nanoseconds.
    pub sum_ns: u64,
    /// The shortest, in nanoseconds; 0 without events.
    pub min_ns: u64,
    /// The longest, in nanoseconds.
    pub max_ns: u64,
    /// The shortest time between two events seen; 0 with fewer than two.
    pub shortest_ns: u64,
    /// The longest time between two events seen.
    pub longest_ns: u64,
    /// When the last one was due.
    pub last_due_ns: u64,
    /// How many took longer than each limit, those that were missed too: one that was due so much
    /// later than the event that came was late by so much less.
    pub over: [u64; LIMITS],
    /// The longest of all, longest first.
    pub worst: Vec<WorstMoment>,
}

/// The counter of a value.
#[inline(always)]
fn place(value: u64) -> usize {
    let value = value.min((1 << BITS) - 1);
    let shift = (u64::BITS - value.leading_zeros()).saturating_sub(EXACT_BITS);
    // The value has at most EXACT_BITS bits after the shift.
    shift as usize * HALF + (value >> shift) as usize
}

/// The smallest value of a counter.
fn value(place: usize) -> u64 {
    match place.checked_sub(2 * HALF) {
        None => place as u64,
        Some(beyond) => {
            let shift = 1 + beyond / HALF;
            ((HALF + beyond % HALF) as u64) << shift
        }
    }
}

/// One more; the only writer needs no locked instruction.
#[inline(always)]
fn add(to: &AtomicU64, n: u64) {
    to.store(to.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
}

impl LatencyStats {
    /// Tells the thread to end after its next event.
    pub fn stop(&self) {
        self.stop.0.store(1, Ordering::Release);
    }

    /// Whether it was told to.
    #[inline(always)]
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.stop.0.load(Ordering::Acquire) != 0
    }

    /// Where its thread is.
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

    /// The thread cannot begin.
    pub fn fail(&self, error: &io::Error) {
        let number = error.raw_os_error().unwrap_or(libc::EIO);
        self.stage.store(4 + u64::from(number.unsigned_abs()), Ordering::Release);
    }

    /// When the events are due is known to so many nanoseconds only.
    pub fn blur(&self, ns: u64) {
        self.blur.store(ns, Ordering::Relaxed);
    }

    /// A thread that does nothing but look at the clock has done so this often, and it took so long
    /// without its events.
    #[inline]
    pub fn looked(&self, looks: u64, ns: u64) {
        self.looked_ns.store(ns, Ordering::Relaxed);
        self.looks.store(looks, Ordering::Relaxed);
    }

    /// Whether there are events yet.
    #[must_use]
    pub fn has_samples(&self) -> bool {
        self.samples.load(Ordering::Relaxed) > 0
    }

    /// The longest of each moment since this was asked the last time, in no order; nothing of a
    /// moment in which no event was due.
    pub fn take_peaks(&self) -> impl Iterator<Item = LatencyPeak> {
        self.peaks.take()
    }

    /// The figures as they are now. While its thread runs, they may be one event apart.
    #[must_use]
    pub fn figures(&self) -> LatencyFigures {
        let read = |number: &AtomicU64| number.load(Ordering::Relaxed);
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
            slow: read(&self.bell.slow),
            slowest_ns: read(&self.bell.slowest_ns),
            elsewhere: has_cpu_number().then(|| read(&self.elsewhere)),
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

    fn worst(&self) -> Vec<WorstMoment> {
        let copy = |slot: &WorstSlot| WorstMoment {
            due_ns: slot.due_ns.load(Ordering::Relaxed),
            late_ns: slot.late_ns.load(Ordering::Relaxed),
        };
        // A writer is never in the middle for long, unless it was stopped there: then one of them
        // may be torn, and the reader knows no better.
        let mut found = Vec::new();
        for _ in 0..1000 {
            let before = self.version.load(Ordering::Acquire);
            found = self.worst.iter().map(copy).collect();
            fence(Ordering::Acquire);
            if before.is_multiple_of(2) && self.version.load(Ordering::Relaxed) == before {
                break;
            }
        }
        found
    }

    /// The values that came and how often, smallest first. A value stands for those up to a
    /// thousandth above it.
    pub fn counts(&self) -> impl Iterator<Item = (u64, u64)> {
        let counts = self.counts.iter().map(|count| count.load(Ordering::Relaxed)).enumerate();
        counts.filter(|(_, count)| *count > 0).map(|(at, count)| (value(at), count))
    }
}

/// The loop's side of a tally, with what only the loop needs to know.
struct LatencyRecorder<'a> {
    tally: &'a LatencyStats,
    terms: ThreadSettings,
    /// Among the longest from here on.
    bar: u64,
    /// The number of the moment of the last event.
    moment: u64,
    /// When the last event was seen; 0 before the first.
    last: u64,
    /// [`has_cpu_number`], asked once: in a guest the question costs an exit to the hypervisor.
    #[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "asked on x86 alone"))]
    knows_cpu: bool,
}

impl LatencyRecorder<'_> {
    #[inline(always)]
    fn enter(&mut self, wake: WakeEvent) {
        if wake.due_ns < self.terms.from_ns {
            return;
        }
        let tally = self.tally;
        let late = wake.woke_ns.saturating_sub(wake.due_ns);
        if let Some(count) = tally.counts.get(place(late)) {
            add(count, 1);
        }
        let first = tally.samples.load(Ordering::Relaxed) == 0;
        add(&tally.samples, 1);
        add(&tally.missed, wake.missed);
        if wake.due_ns > wake.woke_ns.saturating_add(EARLY_NS) {
            add(&tally.early, 1);
        }
        add(&tally.sum, late);
        tally.last_due.store(wake.due_ns, Ordering::Relaxed);
        if first || late < tally.min.load(Ordering::Relaxed) {
            tally.min.store(late, Ordering::Relaxed);
        }
        if late > tally.max.load(Ordering::Relaxed) {
            tally.max.store(late, Ordering::Relaxed);
        }
        self.moment = tally.peaks.enter(self.moment, wake.due_ns - self.terms.from_ns, late);
        for (limit, over) in self.terms.limits_ns.iter().zip(&tally.over) {
            if *limit == 0 {
                break;
            }
            if late > *limit {
                // Each event that was missed would have come at the same moment.
                let beyond = (late - limit - 1).checked_div(self.terms.period_ns);
                add(over, 1 + wake.missed.min(beyond.unwrap_or(0)));
            }
        }
        if late > self.bar || (first && late == 0) {
            self.keep(WorstMoment { due_ns: wake.due_ns, late_ns: late });
        }
        #[cfg(target_arch = "x86_64")]
        // SAFETY: asked when the loop began.
        if self.knows_cpu && unsafe { cpu_number() } != self.terms.cpu {
            add(&tally.elsewhere, 1);
        }
        self.between(wake.woke_ns);
    }

    /// The time since the last event.
    #[inline(always)]
    fn between(&mut self, now: u64) {
        if self.last != 0 {
            let (tally, time) = (self.tally, now.saturating_sub(self.last));
            let shortest = tally.shortest.load(Ordering::Relaxed);
            if shortest == 0 || time < shortest {
                tally.shortest.store(time, Ordering::Relaxed);
            }
            if time > tally.longest.load(Ordering::Relaxed) {
                tally.longest.store(time, Ordering::Relaxed);
            }
        }
        self.last = now;
    }

    /// In the place of the least of the longest.
    fn keep(&mut self, moment: WorstMoment) {
        let tally = self.tally;
        let late = |slot: &WorstSlot| slot.late_ns.load(Ordering::Relaxed);
        let Some(least) = tally.worst.iter().min_by_key(|slot| late(slot)) else { return };
        let version = tally.version.load(Ordering::Relaxed);
        tally.version.store(version.wrapping_add(1), Ordering::Relaxed);
        fence(Ordering::Release);
        least.due_ns.store(moment.due_ns, Ordering::Relaxed);
        least.late_ns.store(moment.late_ns, Ordering::Relaxed);
        tally.version.store(version.wrapping_add(2), Ordering::Release);
        self.bar = tally.worst.iter().map(late).min().unwrap_or(0);
    }
}

/// Takes one event after the other until the tally is stopped, the time is over, the thread cannot
/// keep up, or the source fails.
pub fn measure(source: &mut impl EventSource, tally: &LatencyStats, terms: ThreadSettings) {
    tally.stage.store(1, Ordering::Release);
    let mut book =
        LatencyRecorder { tally, terms, bar: 0, moment: 0, last: 0, knows_cpu: has_cpu_number() };
    let mut pace = OverrunDetector::default();
    let stage = loop {
        if tally.is_stopped() {
            break 2;
        }
        match source.wait() {
            Ok(wake) => {
                book.enter(wake);
                if wake.woke_ns >= terms.until_ns {
                    break 2;
                }
                if terms.gives_up && pace.is_lost(wake) {
                    break 3;
                }
            }
            // It may have been in the middle of waiting.
            Err(_) if tally.is_stopped() => break 2,
            Err(error) => return tally.fail(&error),
        }
    };
    tally.stage.store(stage, Ordering::Release);
}

/// The tallies of some threads, in memory that another process finds by a number.
#[derive(Debug)]
pub struct LatencyBoard {
    region: SharedMemory,
    threads: usize,
    /// The file of its maker.
    file: Option<OwnedFd>,
    /// Whether it could be locked into memory.
    pub locked: bool,
}

impl LatencyBoard {
    /// New tallies.
    ///
    /// # Errors
    /// No memory.
    pub fn new(threads: usize) -> io::Result<LatencyBoard> {
        let (region, file) = SharedMemory::make(threads.saturating_mul(size_of::<LatencyStats>()))?;
        let locked = region.lock();
        Ok(LatencyBoard { region, threads, file: Some(file), locked })
    }

    /// The tallies of another process.
    ///
    /// # Errors
    /// It is gone, or may not be looked into.
    pub fn open(pid: i32, number: i32, threads: usize) -> io::Result<LatencyBoard> {
        let bytes = threads.saturating_mul(size_of::<LatencyStats>());
        let region = SharedMemory::open(pid, number, bytes, MappingAccess::Write)?;
        Ok(LatencyBoard { region, threads, file: None, locked: false })
    }

    /// By which number another process finds it among the open files of its maker.
    #[must_use]
    pub fn number(&self) -> Option<i32> {
        self.file.as_ref().map(AsRawFd::as_raw_fd)
    }

    /// One for each thread.
    #[must_use]
    pub fn tallies(&self) -> &[LatencyStats] {
        // SAFETY: the region is as long as `self`, aligned to pages, holds that many tallies, and
        // they are nothing but atomics, for which all bytes are valid.
        unsafe {
            std::slice::from_raw_parts(
                self.region.start().cast::<LatencyStats>().as_ptr(),
                self.threads,
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;
    use crate::sampler::tests::{allocations, without_other_calls_than};
    use proptest::prelude::*;

    /// Events whose lateness is given.
    struct Given<'a> {
        due: u64,
        late: std::slice::Iter<'a, u64>,
    }

    impl EventSource for Given<'_> {
        fn wait(&mut self) -> io::Result<WakeEvent> {
            let late = self.late.next().ok_or(io::Error::from_raw_os_error(libc::ENODATA))?;
            let due_ns = self.due + 1_000_000;
            let missed = late / 1_000_000;
            self.due = due_ns + missed * 1_000_000;
            Ok(WakeEvent { due_ns, woke_ns: due_ns + late, missed })
        }
    }

    const TERMS: ThreadSettings = ThreadSettings {
        cpu: 0,
        period_ns: 1_000_000,
        from_ns: 0,
        until_ns: u64::MAX,
        gives_up: false,
        limits_ns: [0; LIMITS],
    };

    fn measured(late: &[u64], terms: ThreadSettings) -> (LatencyBoard, LatencyFigures) {
        let board = LatencyBoard::new(1).unwrap();
        let tally = &board.tallies()[0];
        assert_eq!(tally.stage(), ThreadStage::Waiting);
        measure(&mut Given { due: 0, late: late.iter() }, tally, terms);
        assert_eq!(tally.stage(), ThreadStage::Failed(libc::ENODATA));
        let figures = tally.figures();
        (board, figures)
    }

    #[test]
    fn every_event_is_counted_once_and_the_longest_are_kept_with_their_time() {
        let mut late: Vec<u64> = (1..=1000).collect();
        late[499] = 3_500_000;
        let limits_ns = [999, 3_499_999, 3_500_000, 499_999, 0, 0, 0, 0];
        let (board, figures) = measured(&late, ThreadSettings { limits_ns, ..TERMS });
        assert_eq!((figures.samples, figures.missed), (1000, 3));
        assert_eq!((figures.min_ns, figures.max_ns), (1, 3_500_000));
        assert_eq!(figures.sum_ns, 500_500 - 500 + 3_500_000);
        // The three that it missed were 2.5, 1.5 and 0.5 ms late.
        assert_eq!(figures.over[..4], [5, 1, 0, 4]);
        assert_eq!(figures.worst.len(), WORST);
        assert_eq!(figures.worst[0], WorstMoment { due_ns: 500_000_000, late_ns: 3_500_000 });
        assert_eq!(figures.worst[1], WorstMoment { due_ns: 1_003_000_000, late_ns: 1000 });
        // What comes after the late one comes soon.
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
        assert_eq!(longest.at_ns, (500_000_000 - TERMS.from_ns) / MOMENT_NS * MOMENT_NS);
        assert_eq!(board.tallies()[0].take_peaks().count(), 0, "they were taken");
    }

    #[test]
    fn what_was_due_before_the_beginning_does_not_count() {
        let (_, figures) =
            measured(&[9_000, 10, 20], ThreadSettings { from_ns: 1_500_000, ..TERMS });
        assert_eq!((figures.samples, figures.max_ns), (2, 20));
    }

    #[test]
    fn an_event_before_its_time_is_told_and_is_no_good_result() {
        let board = LatencyBoard::new(1).unwrap();
        let tally = &board.tallies()[0];
        let mut wakes = [(5_000, 9_000), (20_000, 10_000), (30_000, 29_500)].into_iter();
        let mut source = Told(|| {
            let (due_ns, woke_ns) = wakes.next()?;
            Some(WakeEvent { due_ns, woke_ns, missed: 0 })
        });
        measure(&mut source, tally, TERMS);
        let figures = tally.figures();
        assert_eq!((figures.samples, figures.early, figures.min_ns), (3, 1, 0));
    }

    /// Events that a closure tells of.
    struct Told<F>(F);

    impl<F: FnMut() -> Option<WakeEvent>> EventSource for Told<F> {
        fn wait(&mut self) -> io::Result<WakeEvent> {
            (self.0)().ok_or(io::Error::from_raw_os_error(libc::ENODATA))
        }
    }

    /// The stage after a thread of 10 µs that comes `late_ns` late each time, and when it ended.
    fn ended(terms: ThreadSettings, late_ns: impl Fn(u64) -> u64) -> (ThreadStage, u64) {
        let (period, mut due, mut last, mut nth) = (10_000, 1_000_000, 0, 0);
        let board = LatencyBoard::new(1).unwrap();
        let mut source = Told(|| {
            let (due_ns, late) = (due, late_ns(nth));
            let (woke_ns, missed) = (due_ns + late, late / period);
            (last, nth) = (woke_ns, nth + 1);
            due += period * (missed + 1);
            (nth < 1_000_000).then_some(WakeEvent { due_ns, woke_ns, missed })
        });
        measure(&mut source, &board.tallies()[0], terms);
        (board.tallies()[0].stage(), last)
    }

    #[test]
    fn a_thread_ends_by_itself_when_its_time_is_over() {
        let terms = ThreadSettings { until_ns: 3_000_000, ..TERMS };
        assert_eq!(ended(terms, |_| 0), (ThreadStage::Ended, 3_000_000));
    }

    #[test]
    fn a_thread_that_cannot_keep_up_gives_up_within_two_seconds() {
        let terms = ThreadSettings { gives_up: true, period_ns: 10_000, ..TERMS };
        let (stage, at_ns) = ended(terms, |_| 12_000);
        assert_eq!(stage, ThreadStage::Overrun);
        assert!(at_ns < 2_100_000_000, "{at_ns}");
        // Not who keeps up, who was kept from running a few times, or who needs not.
        let unended = ThreadStage::Failed(libc::ENODATA);
        assert_eq!(ended(terms, |_| 8_000).0, unended);
        assert_eq!(ended(terms, |nth| if nth % 9_000 == 0 { 900_000_000 } else { 0 }).0, unended);
        assert_eq!(ended(ThreadSettings { gives_up: false, ..terms }, |_| 12_000).0, unended);
    }

    proptest! {
        #[test]
        fn a_value_is_kept_to_a_thousandth(value_ns in any::<u64>()) {
            let found = value(place(value_ns));
            let real = value_ns.min((1 << BITS) - 1);
            prop_assert!(place(value_ns) < COUNTERS);
            prop_assert!(found <= real && real - found <= real / 1024, "{found} for {real}");
        }
    }

    #[test]
    fn the_counters_are_in_the_order_of_their_values() {
        assert!((1..COUNTERS).all(|at| value(at) > value(at - 1) && place(value(at)) == at));
    }

    /// A timer, as `latency timer` has it.
    struct Timer(u64);

    impl EventSource for Timer {
        fn wait(&mut self) -> io::Result<WakeEvent> {
            self.0 += 200_000;
            clock::sleep_until(self.0)?;
            Ok(WakeEvent { due_ns: self.0, woke_ns: clock::monotonic_ns(), missed: 0 })
        }
    }

    /// Ends after so many events.
    struct Few<'a>(Timer, u32, &'a LatencyStats);

    impl EventSource for Few<'_> {
        fn wait(&mut self) -> io::Result<WakeEvent> {
            self.1 -= 1;
            if self.1 == 0 {
                self.2.stop();
            }
            self.0.wait()
        }
    }

    fn few(tally: &LatencyStats) {
        measure(&mut Few(Timer(clock::monotonic_ns()), 50, tally), tally, TERMS);
    }

    #[test]
    fn the_loop_allocates_nothing() {
        let board = LatencyBoard::new(1).unwrap();
        let before = allocations();
        few(&board.tallies()[0]);
        assert_eq!(allocations(), before);
        assert_eq!(board.tallies()[0].figures().samples, 50);
    }

    #[test]
    fn the_loop_asks_the_kernel_for_nothing_but_its_sleep() {
        let path = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
        let source = std::fs::read_to_string(path).unwrap_or_default();
        let mut allowed = vec![libc::SYS_clock_nanosleep];
        // Other clocks are read by the kernel alone (vDSO: `vclock_mode` of the clocksource).
        if !["tsc", "arch_sys_counter"].contains(&source.trim()) {
            allowed.push(libc::SYS_clock_gettime);
        }
        for (allowed, samples) in [(&allowed[..], 50), (&allowed[1..], 0)] {
            let board = LatencyBoard::new(1).unwrap();
            let tally = &board.tallies()[0];
            let body = || {
                few(tally);
                true
            };
            let ended = without_other_calls_than(allowed, body);
            assert_eq!((ended == 0, tally.figures().samples), (samples > 0, samples));
        }
    }

    #[test]
    fn another_process_reads_it_and_ends_it() {
        let board = LatencyBoard::new(2).unwrap();
        let pid = i32::try_from(std::process::id()).unwrap();
        let other = LatencyBoard::open(pid, board.number().unwrap(), 2).unwrap();
        assert!(
            LatencyBoard::open(pid, board.number().unwrap(), 3).is_err(),
            "the file is shorter"
        );
        std::thread::scope(|scope| {
            scope.spawn(|| measure(&mut Timer(clock::monotonic_ns()), &board.tallies()[1], TERMS));
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
