//! `wakeup`: a thread that another CPU wakes by a futex in shared memory.

use super::{Instrument, ThreadTask};
use cpushield_linux::shared_memory::latency_stats::{
    EventSource, FutexWait, LatencyStats, TriggerListener, WakeEvent, WakeMethod, measure,
};
use cpushield_linux::sys::clock::{monotonic_ns, sleep_until};
use cpushield_linux::{Host, sys::sched};
use std::io;

/// How often the waker checks whether to end.
const STEP_NS: u64 = 100_000_000;

/// The instrument `wakeup`.
#[derive(Debug)]
pub struct WakeupInstrument;

impl Instrument for WakeupInstrument {
    fn name(&self) -> &'static str {
        "wakeup"
    }

    fn summary(&self) -> &'static str {
        "a wakeup by another CPU (futex), as when one program sends another a message"
    }

    fn page(&self) -> &'static str {
        "A thread sleeps on a word in shared memory (futex(2)). Once a period, a process on a \
         housekeeping CPU reads the clock, writes the time next to the word and wakes the thread. \
         The figure includes the waker's system call, the interrupt to the other CPU (or its \
         polling idle loop) and the scheduler. It includes everything else that ran on the \
         thread's CPU in that time. It is the cost of a message from an ordinary program to one in \
         the shield. The figure does not include the waker's own delay: it counts from the waker's \
         read of the clock.\n\n\
         The waker is an ordinary program, with nice -20 where that is allowed. If it is delayed \
         between its read of the clock and the end of its system call, the figure includes that \
         delay. Calls longer than 50 µs are counted, and the worst latency is doubtful if one of \
         them may have caused it.\n\n\
         `eventfd` measures the same through a file, which is how programs with an event loop wake \
         each other.\n\n\
         If the sleeper has not answered when the next period starts, the waker does not wake it \
         again, and that period counts as missed. Periods that the waker skips count as missed, \
         too.\n\n\
         Source: futex(2); ttwu_queue() in kernel/sched/core.c (6.12)."
    }

    fn run(&self, _host: &Host, task: &ThreadTask, tally: &LatencyStats) {
        let mut sleeper = WakeupSleeper { tally, listener: tally.listener(), method: FutexWait };
        measure(&mut sleeper, tally, task.settings);
    }

    fn drive(&self, period_ns: u64, begin_ns: u64, tally: &LatencyStats) {
        wake_periodically(period_ns, begin_ns, tally, &FutexWait);
    }

    fn is_driven(&self) -> bool {
        true
    }
}

/// Wakes the sleeper of a tally once a period until the tally is stopped.
pub(super) fn wake_periodically(
    period_ns: u64,
    begin_ns: u64,
    tally: &LatencyStats,
    method: &impl WakeMethod,
) {
    // Not with a real-time priority: with a short period it would starve the housekeeping CPU.
    let _hurry = sched::boost_priority();
    let mut due = begin_ns;
    while !tally.is_stopped() {
        // In steps, so that a period of hours does not delay the end.
        let step = due.min(monotonic_ns().saturating_add(STEP_NS));
        if sleep_until(step).is_err() {
            return;
        }
        if step < due {
            continue;
        }
        tally.trigger(monotonic_ns(), method);
        let skipped = skipped(due, monotonic_ns(), period_ns);
        tally.add_skipped(skipped);
        due = due.saturating_add(period_ns.saturating_mul(skipped + 1));
    }
    // Wakes a sleeper that still waits.
    tally.trigger(monotonic_ns(), method);
}

/// Counts the periods that are over before the next one can start.
fn skipped(due_ns: u64, now_ns: u64, period_ns: u64) -> u64 {
    now_ns.saturating_sub(due_ns).checked_div(period_ns).unwrap_or(0)
}

/// The thread that the waker of its tally wakes.
pub(super) struct WakeupSleeper<'a, C> {
    pub(super) tally: &'a LatencyStats,
    pub(super) listener: TriggerListener,
    pub(super) method: C,
}

impl<C: WakeMethod> EventSource for WakeupSleeper<'_, C> {
    #[inline]
    fn wait(&mut self) -> io::Result<WakeEvent> {
        let trigger = self.tally.wait_for_trigger(&mut self.listener, &self.method)?;
        let woke_ns = monotonic_ns();
        Ok(WakeEvent { due_ns: trigger.triggered_ns, woke_ns, missed: trigger.missed })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cpushield_linux::shared_memory::latency_stats::{
        LIMITS, LatencyBoard, ThreadSettings, ThreadStage,
    };

    #[test]
    fn periods_that_the_waker_skipped_are_counted() {
        for (now, wanted) in [(7_000, 0), (7_999, 0), (8_000, 1), (10_500, 3), (6_000, 0)] {
            assert_eq!(skipped(7_000, now, 1_000), wanted, "{now}");
        }
    }

    #[test]
    fn every_wakeup_is_seen_once_and_the_sleeper_ends() {
        for instrument in [&WakeupInstrument as &dyn Instrument, &super::super::eventfd::EventFd] {
            assert_seen_once(instrument);
        }
    }

    fn assert_seen_once(instrument: &dyn Instrument) {
        let board = LatencyBoard::new(1).unwrap();
        let tally = &board.tallies()[0];
        let (period_ns, begin_ns) = (500_000, monotonic_ns() + 1_000_000);
        let settings = ThreadSettings {
            cpu: 0,
            period_ns,
            from_ns: 0,
            until_ns: u64::MAX,
            gives_up: false,
            limits_ns: [0; LIMITS],
        };
        let task = ThreadTask { period_ns, begin_ns, settings };
        std::thread::scope(|scope| {
            scope.spawn(|| instrument.run(&Host::live(), &task, tally));
            scope.spawn(|| instrument.drive(period_ns, begin_ns, tally));
            while tally.figures().samples < 20 {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            tally.stop();
        });
        assert_eq!(tally.stage(), ThreadStage::Ended);
        let figures = tally.figures();
        // The last wakeup is for a sleeper that still waits at the end; there may be none.
        let unseen = u64::from(tally.trigger_count()).checked_sub(figures.samples);
        assert!(unseen.is_some_and(|unseen| unseen <= 1), "{unseen:?} {figures:?}");
        assert!(figures.max_ns > 0);
    }
}
