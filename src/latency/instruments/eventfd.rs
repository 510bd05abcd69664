//! `eventfd`: a thread that another CPU wakes through an eventfd.

use super::wakeup::{WakeupSleeper, wake_periodically};
use super::{Instrument, InstrumentRefusal, ThreadTask};
use cpushield_linux::Host;
use cpushield_linux::shared_memory::latency_stats::{LatencyStats, measure};
use cpushield_linux::sys::clock::sleep_until;
use cpushield_linux::sys::events::EventFile;
use std::time::Duration;

/// How often to check whether the thread has opened its file.
const TIMEOUT: Duration = Duration::from_millis(1);

/// The instrument `eventfd`.
#[derive(Debug)]
pub struct EventFd;

impl Instrument for EventFd {
    fn name(&self) -> &'static str {
        "eventfd"
    }

    fn summary(&self) -> &'static str {
        "a wakeup by another CPU through a file (eventfd), as in event loops"
    }

    fn page(&self) -> &'static str {
        "A thread reads from an eventfd(2). Once a period, a process on a housekeeping CPU reads \
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
         ttwu_queue() in kernel/sched/core.c (6.12)."
    }

    fn possible(&self, _host: &Host) -> Result<(), InstrumentRefusal> {
        let own_pid = i32::try_from(std::process::id()).unwrap_or(i32::MAX);
        let file = EventFile::new()
            .map_err(|error| InstrumentRefusal::NoEventFd { answer: error.to_string() })?;
        match EventFile::open(own_pid, file.number()) {
            Ok(_) => Ok(()),
            Err(error) => Err(InstrumentRefusal::NoPidfdGetfd { answer: error.to_string() }),
        }
    }

    fn run(&self, _host: &Host, task: &ThreadTask, tally: &LatencyStats) {
        match EventFile::new() {
            Ok(file) => {
                tally.set_wake_file(&file);
                let mut sleeper = WakeupSleeper { tally, listener: tally.listener(), method: file };
                measure(&mut sleeper, tally, task.settings);
            }
            Err(error) => tally.fail(&error),
        }
    }

    fn drive(&self, period_ns: u64, begin_ns: u64, tally: &LatencyStats) {
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

    fn is_driven(&self) -> bool {
        true
    }
}
