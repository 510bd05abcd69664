//! `wakeup`: a thread that another CPU wakes, by a futex in memory that both share.

use super::{Instrument, ThreadTask};
use cpushield_linux::clock::{monotonic_ns, sleep_until};
use cpushield_linux::latency_stats::{
    EventSource, FutexWait, LatencyStats, TriggerListener, WakeEvent, WakeMethod, measure,
};
use cpushield_linux::{Host, sched};
use std::io;

/// So often the one who wakes looks whether it is to end.
const STEP_NS: u64 = 100_000_000;

/// See the file.
#[derive(Debug)]
pub struct WakeupInstrument;

impl Instrument for WakeupInstrument {
    fn name(&self) -> &'static str {
        "wakeup"
    }

    fn summary(&self) -> &'static str {
        "being woken by another CPU (futex), as a message between programs does it"
    }

    fn page(&self) -> &'static str {
        "A thread sleeps on a word in shared memory (futex(2)); once a period a process on a \
         housekeeping CPU looks at the clock, writes the time next to the word, and wakes it. In \
         the figure: the system call of the one who wakes, the interrupt to the other CPU (or its \
         polling idle loop), the scheduler, and whatever ran there meanwhile. It is what a message \
         from an ordinary program to one in the shield costs. How late the one who wakes is, is \
         not in the figure: its time counts from its look at the clock.\n\n\
         The one who wakes is an ordinary program, of nice -20 where that is allowed. When it is \
         kept from running between its look at the clock and the end of its system call, that is \
         in the figure too; calls longer than 50 us are counted, and the worst is doubtful where \
         one of them may have made it.\n\n\
         `eventfd` is the same by a file, as programs with an event loop wake each other.\n\n\
         A sleeper that has not answered when the next period begins is not woken again: that \
         period is counted as missed, as are those that the one who wakes let go by.\n\n\
         Source: futex(2); ttwu_queue() in kernel/sched/core.c (6.12)."
    }

    fn possible(&self, _host: &Host) -> Result<(), String> {
        Ok(())
    }

    fn run(&self, task: &ThreadTask, tally: &LatencyStats) {
        let mut sleeper = WakeupSleeper { tally, ear: tally.listener(), cord: FutexWait };
        measure(&mut sleeper, tally, task.terms);
    }

    fn drive(&self, period_ns: u64, begin_ns: u64, tally: &LatencyStats) {
        ring(period_ns, begin_ns, tally, &FutexWait);
    }

    fn is_driven(&self) -> bool {
        true
    }
}

/// Rings the bell of a tally once a period until it is stopped.
pub(super) fn ring(period_ns: u64, begin_ns: u64, tally: &LatencyStats, cord: &impl WakeMethod) {
    // Not of a real-time priority: with a short period it would take the housekeeping CPU.
    let _hurry = sched::boost_priority();
    let mut due = begin_ns;
    while !tally.is_stopped() {
        // In parts: nobody waits for a period of hours once it is stopped.
        let step = due.min(monotonic_ns().saturating_add(STEP_NS));
        if sleep_until(step).is_err() {
            return;
        }
        if step < due {
            continue;
        }
        tally.trigger(monotonic_ns(), cord);
        let skipped = skipped(due, monotonic_ns(), period_ns);
        tally.add_skipped(skipped);
        due = due.saturating_add(period_ns.saturating_mul(skipped + 1));
    }
    // Whoever sleeps now has nobody else.
    tally.trigger(monotonic_ns(), cord);
}

/// Periods that are over before the next one can be begun.
fn skipped(due_ns: u64, now_ns: u64, period_ns: u64) -> u64 {
    now_ns.saturating_sub(due_ns).checked_div(period_ns).unwrap_or(0)
}

/// Who waits for the bell of its tally.
pub(super) struct WakeupSleeper<'a, C> {
    pub(super) tally: &'a LatencyStats,
    pub(super) ear: TriggerListener,
    pub(super) cord: C,
}

impl<C: WakeMethod> EventSource for WakeupSleeper<'_, C> {
    #[inline]
    fn wait(&mut self) -> io::Result<WakeEvent> {
        let bell = self.tally.wait_for_trigger(&mut self.ear, &self.cord)?;
        let woke_ns = monotonic_ns();
        Ok(WakeEvent { due_ns: bell.triggered_ns, woke_ns, missed: bell.missed })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cpushield_linux::latency_stats::{LIMITS, LatencyBoard, ThreadSettings, ThreadStage};

    #[test]
    fn periods_that_the_one_who_wakes_let_go_by_are_counted() {
        for (now, wanted) in [(7_000, 0), (7_999, 0), (8_000, 1), (10_500, 3), (6_000, 0)] {
            assert_eq!(skipped(7_000, now, 1_000), wanted, "{now}");
        }
    }

    #[test]
    fn every_ring_is_heard_once_and_the_sleeper_ends() {
        for instrument in [&WakeupInstrument as &dyn Instrument, &super::super::eventfd::EventFd] {
            heard_once(instrument);
        }
    }

    fn heard_once(instrument: &dyn Instrument) {
        let board = LatencyBoard::new(1).unwrap();
        let tally = &board.tallies()[0];
        let (period_ns, begin_ns) = (500_000, monotonic_ns() + 1_000_000);
        let terms = ThreadSettings {
            cpu: 0,
            period_ns,
            from_ns: 0,
            until_ns: u64::MAX,
            gives_up: false,
            limits_ns: [0; LIMITS],
        };
        let task = ThreadTask { period_ns, begin_ns, terms };
        std::thread::scope(|scope| {
            scope.spawn(|| instrument.run(&task, tally));
            scope.spawn(|| instrument.drive(period_ns, begin_ns, tally));
            while tally.figures().samples < 20 {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            tally.stop();
        });
        assert_eq!(tally.stage(), ThreadStage::Ended);
        let figures = tally.figures();
        // The last ring is for one who sleeps when it ends; there may be none.
        let unheard = u64::from(tally.trigger_count()).checked_sub(figures.samples);
        assert!(unheard.is_some_and(|unheard| unheard <= 1), "{unheard:?} {figures:?}");
        assert!(figures.max_ns > 0);
    }
}
