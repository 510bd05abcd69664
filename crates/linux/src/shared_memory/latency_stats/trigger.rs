//! The trigger of a tally: how another thread or process generates the events of a thread.

use super::{LatencyStats, add};
use crate::sys::clock::monotonic_ns;
use crate::sys::events::{self, EventFile};
use std::io;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// A trigger that takes longer was interrupted.
const SLOW_NS: u64 = 50_000;

/// The method by which a thread sleeps and is woken.
pub trait WakeMethod {
    /// Wakes the sleeping thread. The word already has its new value.
    fn wake(&self, word: &AtomicU32);

    /// Sleeps until woken. May return spuriously.
    ///
    /// # Errors
    /// The kernel's error.
    fn sleep(&self, word: &AtomicU32, value: u32) -> io::Result<()>;
}

/// Sleeps on the word itself (futex(2)).
#[derive(Debug, Clone, Copy)]
pub struct FutexWait;

impl WakeMethod for FutexWait {
    #[inline]
    fn wake(&self, word: &AtomicU32) {
        events::wake(word);
    }

    #[inline]
    fn sleep(&self, word: &AtomicU32, value: u32) -> io::Result<()> {
        events::wait_while(word, value)
    }
}

impl WakeMethod for EventFile {
    #[inline]
    fn wake(&self, _word: &AtomicU32) {
        // It fails only when the counter is full, after 2^64 - 1 triggers without a read.
        let _ = self.add();
    }

    #[inline]
    fn sleep(&self, _word: &AtomicU32, _value: u32) -> io::Result<()> {
        self.wait().map(|_| ())
    }
}

/// The trigger that a thread can wait for.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub(super) struct WakeTrigger {
    /// How often the event was triggered: the word that the thread sleeps on.
    triggered: AtomicU32,
    /// How many of these triggers the thread has seen.
    seen: AtomicU32,
    /// When it was triggered last, in nanoseconds of `CLOCK_MONOTONIC`.
    triggered_ns: AtomicU64,
    /// How often it was not triggered because the thread had not seen the last trigger yet.
    skipped: AtomicU64,
    /// How often triggering took long.
    pub(super) slow: AtomicU64,
    /// The longest duration of triggering.
    pub(super) slowest_ns: AtomicU64,
    /// The file by which the thread sleeps: the process in the upper half, its file descriptor in
    /// the lower; 0 without a file.
    file: AtomicU64,
}

/// The position of a listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TriggerListener {
    triggered: u32,
    skipped: u64,
}

/// A trigger that the listener saw.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TriggerSignal {
    /// When it was triggered, in nanoseconds of `CLOCK_MONOTONIC`.
    pub triggered_ns: u64,
    /// How many triggers were skipped since the last one that the listener saw.
    pub missed: u64,
}

impl LatencyStats {
    /// Triggers the event, unless the thread has not seen the last trigger yet. Only one thread may
    /// call this.
    #[inline]
    pub fn trigger(&self, now_ns: u64, method: &impl WakeMethod) {
        let triggered = self.trigger.triggered.load(Ordering::Relaxed);
        if self.trigger.seen.load(Ordering::Acquire) != triggered {
            add(&self.trigger.skipped, 1);
            return;
        }
        self.trigger.triggered_ns.store(now_ns, Ordering::Relaxed);
        self.trigger.triggered.store(triggered.wrapping_add(1), Ordering::Release);
        method.wake(&self.trigger.triggered);
        let took = monotonic_ns().saturating_sub(now_ns);
        if took > SLOW_NS {
            add(&self.trigger.slow, 1);
            self.trigger.slowest_ns.fetch_max(took, Ordering::Relaxed);
        }
    }

    /// Counts triggers that the triggering thread could not make. Only that thread may call this.
    pub fn add_skipped(&self, times: u64) {
        add(&self.trigger.skipped, times);
    }

    /// How often the event was triggered.
    #[must_use]
    pub fn trigger_count(&self) -> u32 {
        self.trigger.triggered.load(Ordering::Relaxed)
    }

    /// A listener that starts after the last trigger seen. An earlier trigger that is still unseen
    /// must be answered, or the event would never be triggered again.
    #[must_use]
    pub fn listener(&self) -> TriggerListener {
        let skipped = self.trigger.skipped.load(Ordering::Relaxed);
        TriggerListener { triggered: self.trigger.seen.load(Ordering::Relaxed), skipped }
    }

    /// Publishes the file by which the thread sleeps, for the triggering process.
    pub fn set_wake_file(&self, file: &EventFile) {
        let [pid, fd] = [std::process::id(), file.number().unsigned_abs()];
        self.trigger.file.store(u64::from(pid) << 32 | u64::from(fd), Ordering::Release);
    }

    /// Opens the file by which the thread sleeps; `None` if it has not published one yet.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn wake_file(&self) -> io::Result<Option<EventFile>> {
        match self.trigger.file.load(Ordering::Acquire) {
            0 => Ok(None),
            packed => EventFile::open(lower_half(packed >> 32)?, lower_half(packed)?).map(Some),
        }
    }

    /// Sleeps until the event is triggered again.
    ///
    /// # Errors
    /// The kernel's error.
    #[inline]
    pub fn wait_for_trigger(
        &self,
        listener: &mut TriggerListener,
        method: &impl WakeMethod,
    ) -> io::Result<TriggerSignal> {
        loop {
            let triggered = self.trigger.triggered.load(Ordering::Acquire);
            if triggered != listener.triggered {
                let triggered_ns = self.trigger.triggered_ns.load(Ordering::Relaxed);
                let skipped = self.trigger.skipped.load(Ordering::Relaxed);
                let missed = skipped.wrapping_sub(listener.skipped);
                *listener = TriggerListener { triggered, skipped };
                self.trigger.seen.store(triggered, Ordering::Release);
                return Ok(TriggerSignal { triggered_ns, missed });
            }
            method.sleep(&self.trigger.triggered, triggered)?;
        }
    }
}

fn lower_half(packed: u64) -> io::Result<i32> {
    i32::try_from(packed & u64::from(u32::MAX)).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::super::LatencyBoard;
    use super::*;

    #[test]
    fn skipped_triggers_are_missed_events() {
        let board = LatencyBoard::new(1).unwrap();
        let tally = &board.tallies()[0];
        let mut listener = tally.listener();
        tally.trigger(monotonic_ns(), &FutexWait);
        // The listener has not seen the first trigger yet.
        tally.trigger(monotonic_ns(), &FutexWait);
        tally.add_skipped(3);
        assert_eq!(tally.wait_for_trigger(&mut listener, &FutexWait).unwrap().missed, 4);
        tally.add_skipped(2);
        tally.trigger(monotonic_ns(), &FutexWait);
        assert_eq!(tally.wait_for_trigger(&mut listener, &FutexWait).unwrap().missed, 2);
    }

    #[test]
    fn a_slow_trigger_is_counted() {
        let board = LatencyBoard::new(1).unwrap();
        let tally = &board.tallies()[0];
        let mut listener = tally.listener();
        tally.trigger(monotonic_ns() - 70_000_000, &FutexWait);
        tally.wait_for_trigger(&mut listener, &FutexWait).unwrap();
        let figures = tally.figures();
        assert!(figures.slow == 1 && figures.slowest_ns >= 70_000_000, "{figures:?}");
    }

    #[test]
    fn a_file_wakes_the_thread_as_the_futex_does() {
        let board = LatencyBoard::new(1).unwrap();
        let tally = &board.tallies()[0];
        assert!(tally.wake_file().unwrap().is_none());
        let file = EventFile::new().unwrap();
        tally.set_wake_file(&file);
        let other_end = tally.wake_file().unwrap().unwrap();
        let (mut listener, began_ns) = (tally.listener(), monotonic_ns());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(std::time::Duration::from_millis(5));
                tally.trigger(monotonic_ns(), &other_end);
            });
            let signal = tally.wait_for_trigger(&mut listener, &file).unwrap();
            assert!(signal.triggered_ns >= began_ns + 5_000_000, "{signal:?}");
            assert_eq!(signal.missed, 0);
        });
    }
}
