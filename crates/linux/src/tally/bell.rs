//! The bell of a tally: how another thread, of another process even, makes the events of one.

use super::{Tally, add};
use crate::events;
use std::io;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Wakes the thread when that is what it waits for.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub(super) struct Bell {
    /// How often it was rung: the word that is slept on.
    rings: AtomicU32,
    /// How many of them the thread has heard.
    heard: AtomicU32,
    /// When it was rung last, in nanoseconds of `CLOCK_MONOTONIC`.
    rung_ns: AtomicU64,
    /// How often it was not rung, as the last time was not heard yet.
    unheard: AtomicU64,
}

/// A ring that was heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heard {
    /// When it was rung.
    pub rung_ns: u64,
    /// How often it could not be rung since, and before it was heard.
    pub missed: u64,
}

impl Tally {
    /// Rings the bell, unless the last ring was not heard yet. By one thread alone.
    #[inline]
    pub fn ring(&self, now_ns: u64) {
        let rings = self.bell.rings.load(Ordering::Relaxed);
        if self.bell.heard.load(Ordering::Acquire) != rings {
            add(&self.bell.unheard, 1);
            return;
        }
        self.bell.rung_ns.store(now_ns, Ordering::Relaxed);
        self.bell.rings.store(rings.wrapping_add(1), Ordering::Release);
        events::wake(&self.bell.rings);
    }

    /// How often the bell was rung.
    #[must_use]
    pub fn rings(&self) -> u32 {
        self.bell.rings.load(Ordering::Relaxed)
    }

    /// The ring that was heard last. Who begins to listen begins behind it: one that came before
    /// would never be answered, and the bell not be rung again.
    #[must_use]
    pub fn heard(&self) -> u32 {
        self.bell.heard.load(Ordering::Relaxed)
    }

    /// Sleeps until the bell is rung again; `heard` is how often it was before.
    ///
    /// # Errors
    /// The kernel's answer.
    #[inline]
    pub fn listen(&self, heard: &mut u32) -> io::Result<Heard> {
        let missed = self.bell.unheard.load(Ordering::Relaxed);
        loop {
            let rings = self.bell.rings.load(Ordering::Acquire);
            if rings != *heard {
                *heard = rings;
                let rung_ns = self.bell.rung_ns.load(Ordering::Relaxed);
                let now = self.bell.unheard.load(Ordering::Relaxed);
                self.bell.heard.store(rings, Ordering::Release);
                return Ok(Heard { rung_ns, missed: now.wrapping_sub(missed) });
            }
            events::wait_while(&self.bell.rings, rings)?;
        }
    }
}
