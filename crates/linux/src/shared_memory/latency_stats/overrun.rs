//! Whether a measuring thread keeps up with its events. Pure.

use super::WakeEvent;

/// A thread that cannot keep up for this long ends itself; see
/// [`ThreadSettings::gives_up`](super::ThreadSettings::gives_up).
const OVERRUN_NS: u64 = 1_000_000_000;
/// Fewer events per second prove nothing: a thread that wakes so rarely starves no other task.
const OVERRUN_EVENTS: u64 = 100;

/// Checks once a second whether a thread keeps up.
#[derive(Default)]
pub(super) struct OverrunDetector {
    began_ns: u64,
    events: u64,
    late: u64,
}

impl OverrunDetector {
    /// Whether a second is over in which more than half of the events missed others. A single event
    /// that missed thousands does not count: the thread was interrupted, and starved no other task.
    #[inline(always)]
    pub(super) fn is_overrun(&mut self, wake: WakeEvent) -> bool {
        self.events += 1;
        self.late += u64::from(wake.missed > 0);
        if wake.woke_ns.saturating_sub(self.began_ns) < OVERRUN_NS {
            return false;
        }
        // The time before the first event is not a second of measurement.
        let is_overrun = self.began_ns != 0
            && self.events >= OVERRUN_EVENTS
            && self.late.saturating_mul(2) > self.events;
        *self = OverrunDetector { began_ns: wake.woke_ns, ..OverrunDetector::default() };
        is_overrun
    }
}
