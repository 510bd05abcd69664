//! `eventfd`: a thread that another CPU wakes, by a counter that is a file.

use super::wakeup::{WakeupSleeper, ring};
use super::{Instrument, ThreadTask};
use cpushield_linux::Host;
use cpushield_linux::clock::sleep_until;
use cpushield_linux::events::EventFile;
use cpushield_linux::latency_stats::{LatencyStats, measure};
use std::time::Duration;

/// The thread has its file within this time, unless it failed.
const PATIENCE: Duration = Duration::from_millis(1);

/// See the file.
#[derive(Debug)]
pub struct EventFd;

impl Instrument for EventFd {
    fn name(&self) -> &'static str {
        "eventfd"
    }

    fn summary(&self) -> &'static str {
        "being woken by another CPU through a file (eventfd), as event loops do it"
    }

    fn page(&self) -> &'static str {
        "A thread reads from an eventfd(2); once a period a process on a housekeeping CPU looks at \
         the clock, writes the time into shared memory, and adds one to the counter. In the \
         figure: what is in that of `wakeup`, and instead of the futex's hash bucket the file: two \
         system calls through the VFS, the counter's lock and its wait queue. It is what a message \
         costs between programs that wait with read, poll or epoll, as those of io_uring, KVM's \
         irqfd and most event loops; a thread in epoll_wait has that on top. Compared with a run \
         of `wakeup` it tells what the file adds.\n\n\
         How late the one who wakes is, is not in the figure, and what is said of it in `wakeup` \
         holds here too: it is an ordinary program, its slow calls are counted, and a period in \
         which the sleeper has not answered yet is missed.\n\n\
         The one who wakes is another process, which gets the file by pidfd_getfd(2): a kernel \
         before 5.6 has no such call, and some containers do not allow it.\n\n\
         Source: eventfd(2), pidfd_getfd(2); eventfd_write() and eventfd_read() in fs/eventfd.c, \
         ttwu_queue() in kernel/sched/core.c (6.12)."
    }

    fn possible(&self, _host: &Host) -> Result<(), String> {
        let own = i32::try_from(std::process::id()).unwrap_or(i32::MAX);
        let file = EventFile::new().map_err(|error| format!("no eventfd: {error}"))?;
        match EventFile::open(own, file.number()) {
            Ok(_) => Ok(()),
            Err(error) => Err(format!(
                "who wakes cannot get the file of who sleeps, as pidfd_getfd(2) is not there \
                 (Linux 5.6) or not allowed: {error}; `cpushield latency wakeup` needs no such file"
            )),
        }
    }

    fn run(&self, task: &ThreadTask, tally: &LatencyStats) {
        match EventFile::new() {
            Ok(file) => {
                tally.set_wake_file(&file);
                let mut sleeper = WakeupSleeper { tally, ear: tally.listener(), cord: file };
                measure(&mut sleeper, tally, task.terms);
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
                Ok(Some(file)) => return ring(period_ns, begin_ns, tally, &file),
                Ok(None) => std::thread::sleep(PATIENCE),
                // The sleeper, too, has nobody else to say so.
                Err(error) => return tally.fail(&error),
            }
        }
    }

    fn is_driven(&self) -> bool {
        true
    }
}
