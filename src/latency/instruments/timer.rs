//! `timer`: like cyclictest. A thread sleeps until a point in time, reads the clock when it runs
//! again, and sleeps until the next point.

use super::{Instrument, ThreadTask};
use cpushield_linux::Host;
use cpushield_linux::shared_memory::latency_stats::{
    EventSource, LatencyStats, WakeEvent, measure,
};
use cpushield_linux::sys::clock::{monotonic_ns, sleep_until};
use std::io;

pub(super) const TIMER: Instrument = Instrument {
    name: "timer",
    summary: "a sleep until an absolute time, as in cyclictest",
    page: "A thread sleeps with clock_nanosleep(2) until a point in time (TIMER_ABSTIME, \
     CLOCK_MONOTONIC) and reads the clock as soon as it runs again. The figure includes the \
     time until the timer's interrupt was taken, its handler, the wakeup of the thread and the \
     scheduler. It includes everything else that ran on the CPU in that time. It also includes \
     the exit from an idle state: unlike cyclictest by default, /dev/cpu_dma_latency is not \
     used, because the program that runs in the shield later will not use it either.\n\n\
     A thread that is late by more than its period sleeps until the next point in the future; \
     the points in between are counted as missed and are not samples. Percentiles and --over \
     include them, each as late as it would have been: leaving them out would count one long \
     wait as one event (coordinated omission). A real-time thread that cannot keep up with its \
     period for a second ends itself, because it would starve every other task on its CPU.\n\n\
     The wakeup of a thread without a real-time policy may be late by its timer slack (50 µs \
     by default), as with any program. On PREEMPT_RT, the timers of such threads expire in a \
     softirq thread, and those of real-time threads in the interrupt. A nohz_full CPU does not \
     always take the interrupt itself: with kernel.timer_migration=1, the default, the kernel \
     starts its timer on a housekeeping CPU, unless it would be the next to expire there. The \
     figure then includes the wakeup from that CPU to this one, and everything that delayed \
     that CPU.\n\n\
     LinuxCNC's latency test has a base and a servo thread: --thread 25us --thread 1ms. With \
     threads of at most 100 µs and at least 500 µs, the max jitter of the first is rated as in \
     LinuxCNC. Up to 20 µs is very good for software step generation, and up to 50 µs is good \
     at a lower step rate. With 100 µs or more, software step generation is not suitable. \
     Above 1 ms, the machine is not suitable for LinuxCNC at all \
     (docs/src/install/latency-test.adoc there). That test requires several minutes on a busy \
     machine.\n\n\
     Source: clock_nanosleep(2); in kernel/time/hrtimer.c (6.12) hrtimer_nanosleep(), which \
     takes the task's slack: 0 for real-time ones, set with their policy since commit \
     ed4fb6d7ef68 and by that function before; __hrtimer_init_sleeper(), get_target_base() and \
     hrtimer_check_target(); get_nohz_timer_target() in kernel/sched/core.c.",
    run,
    ..Instrument::PLAIN
};

fn run(_host: &Host, task: &ThreadTask, tally: &LatencyStats) {
    let mut sleeper = TimerSleeper { due_ns: task.begin_ns, period_ns: task.period_ns.max(1) };
    measure(&mut sleeper, tally, task.settings);
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

/// Counts the points in time that passed while the thread did not run.
#[inline]
fn missed(due_ns: u64, woke_ns: u64, period_ns: u64) -> u64 {
    let late = woke_ns.saturating_sub(due_ns);
    // Only late events need the division.
    if late < period_ns { 0 } else { late / period_ns }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passed_points_are_missed_and_the_next_is_in_the_future() {
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
