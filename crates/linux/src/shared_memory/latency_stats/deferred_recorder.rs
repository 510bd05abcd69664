//! Recording events afterwards, from the kernel's trace records.

use super::{LatencyRecorder, LatencyStats, ThreadSettings, WakeEvent};
use std::sync::atomic::Ordering;

/// Records events into a tally without a measuring loop: they are read from the kernel's trace
/// records afterwards.
#[derive(Debug, Clone, Copy)]
pub struct DeferredRecorder {
    settings: ThreadSettings,
    worst_threshold: u64,
    last: u64,
}

impl DeferredRecorder {
    /// Starts to record into the tally.
    #[must_use]
    pub fn open(tally: &LatencyStats, settings: ThreadSettings) -> DeferredRecorder {
        tally.stage.store(1, Ordering::Release);
        DeferredRecorder { settings, worst_threshold: 0, last: 0 }
    }

    /// Records an event; the events must be in the order of their times.
    pub fn record(&mut self, tally: &LatencyStats, wake: WakeEvent) {
        let DeferredRecorder { settings, worst_threshold, last } = *self;
        // The CPU of this process says nothing about the CPU of the event.
        let cpu_number = None;
        let mut recorder =
            LatencyRecorder { tally, settings, worst_threshold, moment: 0, last, cpu_number };
        recorder.record(wake);
        (self.worst_threshold, self.last) = (recorder.worst_threshold, recorder.last);
    }

    /// Marks the tally as ended.
    pub fn close(self, tally: &LatencyStats) {
        tally.stage.store(2, Ordering::Release);
    }
}
