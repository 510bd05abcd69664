//! `timerfd`: a timer as a file that is read, as event loops and audio programs use it.

use super::{Instrument, ThreadTask};
use cpushield_linux::Host;
use cpushield_linux::shared_memory::latency_stats::{
    EventSource, LatencyStats, WakeEvent, measure,
};
use cpushield_linux::sys::clock::monotonic_ns;
use cpushield_linux::sys::events::TimerFile;
use std::io;

/// The instrument `timerfd`.
#[derive(Debug)]
pub struct TimerFd;

impl Instrument for TimerFd {
    fn name(&self) -> &'static str {
        "timerfd"
    }

    fn summary(&self) -> &'static str {
        "a timer as a file (timerfd), as in event loops"
    }

    fn page(&self) -> &'static str {
        "A thread reads from a file that is a periodic timer of CLOCK_MONOTONIC. The figure \
         includes everything that `timer` measures, and the file's own lock and wait queue. On \
         PREEMPT_RT kernels the figure is higher than that of `timer` with a real-time thread, \
         because the timer does not expire in the interrupt itself. It expires in a softirq \
         thread: ktimers/N (in the kernel since 6.13 and in the RT patches before) or ksoftirqd/N. \
         As with `timer`, a nohz_full CPU's timer may expire on another CPU.\n\n\
         The file counts expirations until they are read. If a read returns several, all but the \
         first count as missed.\n\n\
         Source: timerfd_create(2); timerfd_setup() in fs/timerfd.c and hrtimer_init() in \
         kernel/time/hrtimer.c (6.12), where a timer without HRTIMER_MODE_HARD is a soft one on \
         PREEMPT_RT."
    }

    fn run(&self, _host: &Host, task: &ThreadTask, tally: &LatencyStats) {
        let period_ns = task.period_ns.max(1);
        match TimerFile::new(task.begin_ns, period_ns) {
            Ok(timer) => {
                let mut reader = TimerFdReader { timer, due_ns: task.begin_ns, period_ns };
                measure(&mut reader, tally, task.settings);
            }
            Err(error) => tally.fail(&error),
        }
    }
}

struct TimerFdReader {
    timer: TimerFile,
    due_ns: u64,
    period_ns: u64,
}

impl EventSource for TimerFdReader {
    #[inline]
    fn wait(&mut self) -> io::Result<WakeEvent> {
        let expired = self.timer.wait()?;
        let woke_ns = monotonic_ns();
        let due_ns = self.due_ns;
        self.due_ns = due_ns.saturating_add(self.period_ns.saturating_mul(expired));
        Ok(WakeEvent { due_ns, woke_ns, missed: expired.saturating_sub(1) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unread_expirations_are_missed_and_the_grid_stays() {
        let begin = monotonic_ns() + 1_000_000;
        let timer = TimerFile::new(begin, 1_000_000).unwrap();
        let mut reader = TimerFdReader { timer, due_ns: begin, period_ns: 1_000_000 };
        let first = reader.wait().unwrap();
        assert_eq!(first.due_ns, begin);
        std::thread::sleep(std::time::Duration::from_millis(6));
        let late = reader.wait().unwrap();
        assert!(late.missed >= 4 && late.woke_ns - late.due_ns >= 4_000_000, "{late:?}");
        assert_eq!((reader.due_ns - begin) % 1_000_000, 0);
    }
}
