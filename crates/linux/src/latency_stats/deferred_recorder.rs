//! A tally without a loop: its events come from the kernel's records.

use super::{LatencyRecorder, LatencyStats, ThreadSettings, WakeEvent};
use std::sync::atomic::Ordering;

/// The loop's side of a tally where there is no loop: who keeps it learns of the events afterwards,
/// from the kernel's records.
#[derive(Debug, Clone, Copy)]
pub struct DeferredRecorder {
    terms: ThreadSettings,
    bar: u64,
    last: u64,
}

impl DeferredRecorder {
    /// Begins to keep the tally.
    #[must_use]
    pub fn open(tally: &LatencyStats, terms: ThreadSettings) -> DeferredRecorder {
        tally.stage.store(1, Ordering::Release);
        DeferredRecorder { terms, bar: 0, last: 0 }
    }

    /// An event, in the order of their times.
    pub fn enter(&mut self, tally: &LatencyStats, wake: WakeEvent) {
        let DeferredRecorder { terms, bar, last } = *self;
        // Where this runs says nothing about where the event was.
        let mut book = LatencyRecorder { tally, terms, bar, moment: 0, last, knows_cpu: false };
        book.enter(wake);
        (self.bar, self.last) = (book.bar, book.last);
    }

    /// Nothing more comes.
    pub fn close(self, tally: &LatencyStats) {
        tally.stage.store(2, Ordering::Release);
    }
}
