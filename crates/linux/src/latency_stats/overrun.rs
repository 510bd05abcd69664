//! Whether a measuring thread keeps up with its events. Pure.

use super::WakeEvent;

/// Who cannot keep up for so long ends itself, see [`Terms::gives_up`](super::Terms::gives_up).
const OVERRUN_NS: u64 = 1_000_000_000;
/// Of fewer events nothing is concluded: who is woken that seldom takes nobody's time.
const OVERRUN_EVENTS: u64 = 100;

/// Whether a thread keeps up, a second at a time.
#[derive(Default)]
pub(super) struct OverrunDetector {
    began_ns: u64,
    events: u64,
    late: u64,
}

impl OverrunDetector {
    /// Whether a second is over in which more than half of the events missed others. One event that
    /// missed thousands is a thread that was kept from running: that takes nobody's time.
    #[inline(always)]
    pub(super) fn is_lost(&mut self, wake: WakeEvent) -> bool {
        self.events += 1;
        self.late += u64::from(wake.missed > 0);
        if wake.woke_ns.saturating_sub(self.began_ns) < OVERRUN_NS {
            return false;
        }
        // What came before the first event is no second.
        let is_lost = self.began_ns != 0
            && self.events >= OVERRUN_EVENTS
            && self.late.saturating_mul(2) > self.events;
        *self = OverrunDetector { began_ns: wake.woke_ns, ..OverrunDetector::default() };
        is_lost
    }
}
