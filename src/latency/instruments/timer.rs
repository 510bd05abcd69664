//! `timer`: cyclictest's measure. A thread sleeps until a point in time, looks at the clock when it
//! runs again, and sleeps until the next point.

use super::{Instrument, ThreadTask};
use cpushield_linux::Host;
use cpushield_linux::clock::{monotonic_ns, sleep_until};
use cpushield_linux::latency_stats::{EventSource, LatencyStats, WakeEvent, measure};
use std::io;

/// See the file.
#[derive(Debug)]
pub struct TimerInstrument;

impl Instrument for TimerInstrument {
    fn name(&self) -> &'static str {
        "timer"
    }

    fn summary(&self) -> &'static str {
        "a sleep until a point in time, as cyclictest measures it"
    }

    fn page(&self) -> &'static str {
        "A thread sleeps with clock_nanosleep(2) until a point in time (TIMER_ABSTIME, \
         CLOCK_MONOTONIC) and looks at the clock as soon as it runs again. In the figure: the time \
         until the timer's interrupt was taken, its handler, waking the thread, the scheduler, and \
         whatever ran on the CPU meanwhile, an idle state of the CPU too: unlike cyclictest by \
         default, /dev/cpu_dma_latency is left alone, because what runs in the shield later will \
         not hold it either.\n\n\
         A thread that is late by more than its period sleeps until the next point that is still \
         to come; the points between are counted as missed and are no samples. In percentiles and \
         --over they count all the same, each as late as it would have been: who leaves them out \
         counts one long wait as one event (coordinated omission). A real-time thread that is late \
         by a period again and again for a second ends itself, as it would take its CPU from \
         everybody else.\n\n\
         Threads that are not real-time may be woken later by their timer slack (50 us by \
         default), as any program is; on PREEMPT_RT their timers expire in a softirq thread, those \
         of real-time threads in the interrupt. A CPU of nohz_full does not always take the \
         interrupt itself: with kernel.timer_migration=1, the default, the kernel starts its timer \
         on a housekeeping CPU, unless it would be the next to expire there. Then the way from \
         that CPU to this one is in the figure, and what kept that CPU busy.\n\n\
         With a thread of 100 us or less and one of 500 us or more (--thread 25us --thread 1ms, \
         the base and servo threads of LinuxCNC's latency test) it says what LinuxCNC makes of the \
         max jitter of the first: 20 us or less are very good for step pulses made by software, up \
         to 50 us are good at a lower step rate, 100 us or more are no candidate for that, more \
         than 1 ms no candidate for LinuxCNC (docs/src/install/latency-test.adoc there). That test \
         asks for several minutes on a busy machine.\n\n\
         Source: clock_nanosleep(2); in kernel/time/hrtimer.c (6.12) hrtimer_nanosleep(), which \
         takes the task's slack: 0 for real-time ones, set with their policy since commit \
         ed4fb6d7ef68 and by that function before; __hrtimer_init_sleeper(), get_target_base() and \
         hrtimer_check_target(); get_nohz_timer_target() in kernel/sched/core.c."
    }

    fn possible(&self, _host: &Host) -> Result<(), String> {
        Ok(())
    }

    fn run(&self, task: &ThreadTask, tally: &LatencyStats) {
        let mut sleeper = TimerSleeper { due_ns: task.begin_ns, period_ns: task.period_ns.max(1) };
        measure(&mut sleeper, tally, task.terms);
    }
}

struct TimerSleeper {
    due_ns: u64,
    period_ns: u64,
}

impl EventSource for TimerSleeper {
    #[inline]
    fn wait(&mut self) -> io::Result<WakeEvent> {
        let due_ns = self.due_ns;
        sleep_until(due_ns)?;
        let woke_ns = monotonic_ns();
        let missed = missed(due_ns, woke_ns, self.period_ns);
        self.due_ns = due_ns.saturating_add(self.period_ns.saturating_mul(missed + 1));
        Ok(WakeEvent { due_ns, woke_ns, missed })
    }
}

/// Points in time that went by while the thread did not run.
#[inline]
fn missed(due_ns: u64, woke_ns: u64, period_ns: u64) -> u64 {
    let late = woke_ns.saturating_sub(due_ns);
    // The division is for those who are late.
    if late < period_ns { 0 } else { late / period_ns }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_that_went_by_are_missed_and_the_next_is_still_to_come() {
        for (late, wanted) in [(0, 0), (999, 0), (1000, 1), (1001, 1), (3500, 3)] {
            assert_eq!(missed(7_000, 7_000 + late, 1000), wanted, "{late}");
        }
        assert_eq!(missed(7_000, 6_000, 1000), 0, "a sleep that ends early is no reason to skip");
    }

    #[test]
    fn the_sleep_ends_after_its_time_and_the_points_stay_on_their_grid() {
        let begin = monotonic_ns() + 1_000_000;
        let mut sleeper = TimerSleeper { due_ns: begin, period_ns: 300_000 };
        for _ in 0..10 {
            let wake = sleeper.wait().unwrap();
            assert!(wake.woke_ns >= wake.due_ns, "{wake:?}");
            assert_eq!((wake.due_ns - begin) % 300_000, 0);
            assert!(sleeper.due_ns > wake.woke_ns);
        }
    }
}
