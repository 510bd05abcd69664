//! The bell of a tally: how another thread, of another process even, makes the events of one.

use super::{LatencyStats, add};
use crate::clock::monotonic_ns;
use crate::events::{self, EventFile};
use std::io;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Who rings for longer was kept from it meanwhile.
const SLOW_NS: u64 = 50_000;

/// By what a thread sleeps and is woken.
pub trait WakeMethod {
    /// Wakes whoever sleeps; the word has its new value already.
    fn pull(&self, word: &AtomicU32);

    /// Sleeps until it is pulled. May return for no reason.
    ///
    /// # Errors
    /// The kernel's answer.
    fn sleep(&self, word: &AtomicU32, value: u32) -> io::Result<()>;
}

/// The word itself is slept on (futex(2)).
#[derive(Debug, Clone, Copy)]
pub struct FutexWait;

impl WakeMethod for FutexWait {
    #[inline]
    fn pull(&self, word: &AtomicU32) {
        events::wake(word);
    }

    #[inline]
    fn sleep(&self, word: &AtomicU32, value: u32) -> io::Result<()> {
        events::wait_while(word, value)
    }
}

impl WakeMethod for EventFile {
    #[inline]
    fn pull(&self, _word: &AtomicU32) {
        // It would have to be full, which takes 2^64 - 1 rings that nobody heard.
        let _ = self.add();
    }

    #[inline]
    fn sleep(&self, _word: &AtomicU32, _value: u32) -> io::Result<()> {
        self.wait().map(|_| ())
    }
}

/// Wakes the thread when that is what it waits for.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub(super) struct WakeTrigger {
    /// How often it was rung: the word that is slept on.
    rings: AtomicU32,
    /// How many of them the thread has heard.
    heard: AtomicU32,
    /// When it was rung last, in nanoseconds of `CLOCK_MONOTONIC`.
    rung_ns: AtomicU64,
    /// How often it was not rung, as the last time was not heard yet.
    unheard: AtomicU64,
    /// How often ringing it took long, and how long at most.
    pub(super) slow: AtomicU64,
    pub(super) slowest_ns: AtomicU64,
    /// Where the file is by which the thread sleeps: the process in the upper half, its number
    /// there in the lower; 0 when it has none.
    file: AtomicU64,
}

/// What a listener has heard so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TriggerListener {
    rings: u32,
    unheard: u64,
}

/// A ring that was heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TriggerSignal {
    /// When it was rung.
    pub rung_ns: u64,
    /// How often it was not rung since the ring that was heard before.
    pub missed: u64,
}

impl LatencyStats {
    /// Rings the bell, unless the last ring was not heard yet. By one thread alone.
    #[inline]
    pub fn ring(&self, now_ns: u64, cord: &impl WakeMethod) {
        let rings = self.bell.rings.load(Ordering::Relaxed);
        if self.bell.heard.load(Ordering::Acquire) != rings {
            add(&self.bell.unheard, 1);
            return;
        }
        self.bell.rung_ns.store(now_ns, Ordering::Relaxed);
        self.bell.rings.store(rings.wrapping_add(1), Ordering::Release);
        cord.pull(&self.bell.rings);
        let took = monotonic_ns().saturating_sub(now_ns);
        if took > SLOW_NS {
            add(&self.bell.slow, 1);
            self.bell.slowest_ns.fetch_max(took, Ordering::Relaxed);
        }
    }

    /// Who rings could not do so so many times. By the one who rings.
    pub fn skip(&self, times: u64) {
        add(&self.bell.unheard, times);
    }

    /// How often the bell was rung.
    #[must_use]
    pub fn rings(&self) -> u32 {
        self.bell.rings.load(Ordering::Relaxed)
    }

    /// Who begins to listen begins behind the ring that was heard last: one that came before would
    /// never be answered, and the bell not be rung again.
    #[must_use]
    pub fn ear(&self) -> TriggerListener {
        let unheard = self.bell.unheard.load(Ordering::Relaxed);
        TriggerListener { rings: self.bell.heard.load(Ordering::Relaxed), unheard }
    }

    /// Tells the one who rings which file the thread sleeps by.
    pub fn hang(&self, file: &EventFile) {
        let [pid, number] = [std::process::id(), file.number().unsigned_abs()];
        self.bell.file.store(u64::from(pid) << 32 | u64::from(number), Ordering::Release);
    }

    /// The file that the thread sleeps by; `None` before it has told.
    ///
    /// # Errors
    /// It may not be had.
    pub fn hung(&self) -> io::Result<Option<EventFile>> {
        let place = self.bell.file.load(Ordering::Acquire);
        let half = |n: u64| i32::try_from(n & u64::from(u32::MAX)).map_err(io::Error::other);
        match place {
            0 => Ok(None),
            _ => EventFile::of(half(place >> 32)?, half(place)?).map(Some),
        }
    }

    /// Sleeps until the bell is rung again.
    ///
    /// # Errors
    /// The kernel's answer.
    #[inline]
    pub fn listen(
        &self,
        ear: &mut TriggerListener,
        cord: &impl WakeMethod,
    ) -> io::Result<TriggerSignal> {
        loop {
            let rings = self.bell.rings.load(Ordering::Acquire);
            if rings != ear.rings {
                let rung_ns = self.bell.rung_ns.load(Ordering::Relaxed);
                let now = self.bell.unheard.load(Ordering::Relaxed);
                let missed = now.wrapping_sub(ear.unheard);
                *ear = TriggerListener { rings, unheard: now };
                self.bell.heard.store(rings, Ordering::Release);
                return Ok(TriggerSignal { rung_ns, missed });
            }
            cord.sleep(&self.bell.rings, rings)?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::LatencyBoard;
    use super::*;

    #[test]
    fn what_was_not_rung_is_missed_whenever_the_listener_was_away() {
        let board = LatencyBoard::new(1).unwrap();
        let tally = &board.tallies()[0];
        let mut ear = tally.ear();
        tally.ring(monotonic_ns(), &FutexWait);
        // Nobody listens meanwhile.
        tally.ring(monotonic_ns(), &FutexWait);
        tally.skip(3);
        assert_eq!(tally.listen(&mut ear, &FutexWait).unwrap().missed, 4);
        tally.skip(2);
        tally.ring(monotonic_ns(), &FutexWait);
        assert_eq!(tally.listen(&mut ear, &FutexWait).unwrap().missed, 2);
    }

    #[test]
    fn who_rings_late_is_found_out() {
        let board = LatencyBoard::new(1).unwrap();
        let tally = &board.tallies()[0];
        let mut ear = tally.ear();
        tally.ring(monotonic_ns() - 70_000_000, &FutexWait);
        tally.listen(&mut ear, &FutexWait).unwrap();
        let figures = tally.figures();
        assert!(figures.slow == 1 && figures.slowest_ns >= 70_000_000, "{figures:?}");
    }

    #[test]
    fn a_file_wakes_as_the_word_does() {
        let board = LatencyBoard::new(1).unwrap();
        let tally = &board.tallies()[0];
        assert!(tally.hung().unwrap().is_none());
        let file = EventFile::new().unwrap();
        tally.hang(&file);
        let rope = tally.hung().unwrap().unwrap();
        let (mut ear, began_ns) = (tally.ear(), monotonic_ns());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(std::time::Duration::from_millis(5));
                tally.ring(monotonic_ns(), &rope);
            });
            let heard = tally.listen(&mut ear, &file).unwrap();
            assert!(heard.rung_ns >= began_ns + 5_000_000 && heard.missed == 0, "{heard:?}");
        });
    }
}
