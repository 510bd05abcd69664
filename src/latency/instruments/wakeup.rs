//! A thread that is woken: by another CPU with a futex in shared memory (`wakeup`) or through a
//! file (`eventfd`), or by a timer that is a file (`timerfd`).

use super::{Instrument, InstrumentRefusal, ThreadTask};
use cpushield_linux::shared_memory::latency_stats::{
    EventSource, FutexWait, LatencyStats, TriggerListener, WakeEvent, WakeMethod, measure,
};
use cpushield_linux::sys::clock::{monotonic_ns, sleep_until};
use cpushield_linux::sys::events::{EventFile, TimerFile};
use cpushield_linux::{Host, sys::sched};
use std::io;
use std::time::Duration;

/// How often the waker checks whether to end.
const STEP_NS: u64 = 100_000_000;
/// How often to check whether the thread has opened its file.
const TIMEOUT: Duration = Duration::from_millis(1);

pub(super) const WAKEUP: Instrument = Instrument {
    name: "wakeup",
    summary: "a wakeup by another CPU (futex), as when one program sends another a message",
    page: "A thread sleeps on a word in shared memory (futex(2)). Once a period, a process on a \
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
     Source: futex(2); ttwu_queue() in kernel/sched/core.c (6.12).",
    run: run_futex,
    drive: Some(|period, begin, tally| wake_periodically(period, begin, tally, &FutexWait)),
    ..Instrument::PLAIN
};

pub(super) const EVENTFD: Instrument = Instrument {
    name: "eventfd",
    summary: "a wakeup by another CPU through a file (eventfd), as in event loops",
    page: "A thread reads from an eventfd(2). Once a period, a process on a housekeeping CPU reads \
     the clock, writes the time to shared memory and adds 1 to the counter. The figure \
     includes everything that `wakeup` measures, but through a file instead of a futex: two \
     system calls through the VFS, the counter's lock and its wait queue. It is the cost of a \
     message to a program that waits in read, poll or epoll, as event loops do. With KVM's \
     ioeventfd, a guest wakes QEMU in this way. A thread in epoll_wait pays for that call as \
     well. The difference from a run of `wakeup` is the cost of the file.\n\n\
     The figure does not include the waker's own delay. The limits of `wakeup` apply here too: \
     the waker is an ordinary program, and its slow calls are counted. A period counts as \
     missed if the sleeper has not answered the wakeup before it.\n\n\
     The waker is a separate process, which gets the file with pidfd_getfd(2). Kernels before \
     5.6 lack this system call, and some containers do not allow it.\n\n\
     Source: eventfd(2), pidfd_getfd(2); eventfd_write() and eventfd_read() in fs/eventfd.c, \
     ttwu_queue() in kernel/sched/core.c (6.12).",
    possible: check_file,
    run: run_file,
    drive: Some(drive_file),
    ..Instrument::PLAIN
};

pub(super) const TIMERFD: Instrument = Instrument {
    name: "timerfd",
    summary: "a timer as a file (timerfd), as in event loops",
    page: "A thread reads from a file that is a periodic timer of CLOCK_MONOTONIC. The figure \
     includes everything that `timer` measures, and the file's own lock and wait queue. On \
     PREEMPT_RT kernels the figure is higher than that of `timer` with a real-time thread, \
     because the timer does not expire in the interrupt itself. It expires in a softirq \
     thread: ktimers/N (in the kernel since 6.13 and in the RT patches before) or ksoftirqd/N. \
     As with `timer`, a nohz_full CPU's timer may expire on another CPU.\n\n\
     The file counts expirations until they are read. If a read returns several, all but the \
     first count as missed.\n\n\
     Source: timerfd_create(2); timerfd_setup() in fs/timerfd.c and hrtimer_init() in \
     kernel/time/hrtimer.c (6.12), where a timer without HRTIMER_MODE_HARD is a soft one on \
     PREEMPT_RT.",
    run: run_timer,
    ..Instrument::PLAIN
};

fn run_futex(_host: &Host, task: &ThreadTask, tally: &LatencyStats) {
    let mut sleeper = WakeupSleeper { tally, listener: tally.listener(), method: FutexWait };
    measure(&mut sleeper, tally, task.settings);
}

fn check_file(_host: &Host) -> Result<(), InstrumentRefusal> {
    let own_pid = i32::try_from(std::process::id()).unwrap_or(i32::MAX);
    let file = EventFile::new()
        .map_err(|error| InstrumentRefusal::NoEventFd { answer: error.to_string() })?;
    match EventFile::open(own_pid, file.number()) {
        Ok(_) => Ok(()),
        Err(error) => Err(InstrumentRefusal::NoPidfdGetfd { answer: error.to_string() }),
    }
}

fn run_file(_host: &Host, task: &ThreadTask, tally: &LatencyStats) {
    match EventFile::new() {
        Ok(file) => {
            tally.set_wake_file(&file);
            let mut sleeper = WakeupSleeper { tally, listener: tally.listener(), method: file };
            measure(&mut sleeper, tally, task.settings);
        }
        Err(error) => tally.fail(&error),
    }
}

fn drive_file(period_ns: u64, begin_ns: u64, tally: &LatencyStats) {
    if sleep_until(begin_ns).is_err() {
        return;
    }
    while !tally.is_stopped() {
        match tally.wake_file() {
            Ok(Some(file)) => return wake_periodically(period_ns, begin_ns, tally, &file),
            Ok(None) => std::thread::sleep(TIMEOUT),
            // The sleeper's tally is the only place for the error.
            Err(error) => return tally.fail(&error),
        }
    }
}

/// Wakes the sleeper of a tally once a period until the tally is stopped.
fn wake_periodically(
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
struct WakeupSleeper<'a, C> {
    tally: &'a LatencyStats,
    listener: TriggerListener,
    method: C,
}

impl<C: WakeMethod> EventSource for WakeupSleeper<'_, C> {
    #[inline]
    fn wait(&mut self) -> io::Result<WakeEvent> {
        let trigger = self.tally.wait_for_trigger(&mut self.listener, &self.method)?;
        let woke_ns = monotonic_ns();
        Ok(WakeEvent { due_ns: trigger.triggered_ns, woke_ns, missed: trigger.missed })
    }
}

fn run_timer(_host: &Host, task: &ThreadTask, tally: &LatencyStats) {
    let period_ns = task.period_ns.max(1);
    match TimerFile::new(task.begin_ns, period_ns) {
        Ok(timer) => {
            let mut reader = TimerFdReader { timer, due_ns: task.begin_ns, period_ns };
            measure(&mut reader, tally, task.settings);
        }
        Err(error) => tally.fail(&error),
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
        for instrument in [&WAKEUP, &EVENTFD] {
            assert_seen_once(instrument);
        }
    }

    fn assert_seen_once(instrument: &Instrument) {
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
        let drive = instrument.drive.unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| (instrument.run)(&Host::live(), &task, tally));
            scope.spawn(|| drive(period_ns, begin_ns, tally));
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
