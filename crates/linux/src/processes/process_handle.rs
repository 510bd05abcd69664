//! [`ProcessHandle`]: a process by a descriptor of it. The number of a process that ends may belong
//! to another one at once; the descriptor stays that of the first.

use crate::host::Host;
use crate::processes::task::TaskId;
use crate::sys::input_poll::wait_for_input;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::io;
use std::time::{Duration, Instant};

/// The pause between two looks at a process without a descriptor.
const PAUSE: Duration = Duration::from_millis(100);

/// A process, whatever becomes of its number.
#[derive(Debug)]
pub struct ProcessHandle {
    pid: i32,
    held: Held,
}

/// How a process is distinguished from a later one with its number.
#[derive(Debug)]
enum Held {
    Descriptor(OwnedFd),
    /// By its start time, on kernels before 5.3 without `pidfd_open(2)`.
    Started(u64),
}

impl ProcessHandle {
    /// Opens the process that has this number now.
    ///
    /// # Errors
    /// There is none (ESRCH), or the number is that of a thread (EINVAL or ENOENT).
    pub fn open(pid: i32) -> io::Result<ProcessHandle> {
        let number = Some(pid).filter(|pid| *pid > 0).and_then(Pid::from_raw);
        let pidfd = pidfd_open(number.ok_or(Errno::SRCH)?, PidfdFlags::empty())?;
        Ok(ProcessHandle { pid, held: Held::Descriptor(pidfd) })
    }

    /// Opens a process to wait for its end; `None` if it has ended.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn watch(id: TaskId) -> io::Result<Option<ProcessHandle>> {
        let handle = match ProcessHandle::open(id.tid) {
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => return Ok(None),
            Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => {
                ProcessHandle { pid: id.tid, held: Held::Started(id.started) }
            }
            answer => answer?,
        };
        // After it was opened: the number could have belonged to another process by then.
        Ok(Host::live().is_same_task(id).then_some(handle))
    }

    /// The process of a descriptor that the kernel made for this number.
    pub(super) fn of_descriptor(pid: i32, pidfd: OwnedFd) -> ProcessHandle {
        ProcessHandle { pid, held: Held::Descriptor(pidfd) }
    }

    /// The number that it had when it was opened.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Whether the process has ended. Its number may belong to another one then.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn has_ended(&self) -> io::Result<bool> {
        self.wait_for_end(Duration::ZERO)
    }

    /// Waits until the process has ended. Returns true if it has, false after `timeout` or when a
    /// signal has ended the wait.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn wait_for_end(&self, timeout: Duration) -> io::Result<bool> {
        match &self.held {
            Held::Descriptor(pidfd) => match wait_for_input(pidfd, timeout) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(false),
                answer => Ok(!answer?.is_empty()),
            },
            Held::Started(started) => Ok(self.poll_for_end(*started, timeout)),
        }
    }

    fn poll_for_end(&self, started: u64, timeout: Duration) -> bool {
        let (host, until) = (Host::live(), Instant::now() + timeout);
        loop {
            let task = host.task(self.pid, self.pid);
            if task.map_or(true, |task| task.id.started != started || task.has_ended()) {
                return true;
            }
            if Instant::now() >= until {
                return false;
            }
            std::thread::sleep(PAUSE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn a_process_that_has_ended_is_known_before_its_parent_waits_for_it() {
        let child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn();
        let mut child = child.unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        let handle = ProcessHandle::open(pid).unwrap();
        assert_eq!(handle.pid(), pid);
        assert!(!handle.has_ended().unwrap());
        drop(child.stdin.take());
        while !handle.has_ended().unwrap() {
            std::thread::yield_now();
        }
        child.wait().unwrap();
        assert!(handle.has_ended().unwrap());
        let error = ProcessHandle::open(pid).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ESRCH));
    }

    #[test]
    fn another_process_with_the_same_number_is_not_watched() {
        let child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn();
        let mut child = child.unwrap();
        let tid = i32::try_from(child.id()).unwrap();
        let started = Host::live().start_time(tid).unwrap();
        let earlier = TaskId { tid, started: started - 1 };
        assert!(ProcessHandle::watch(earlier).unwrap().is_none());
        let handle = ProcessHandle::watch(TaskId { tid, started }).unwrap().unwrap();
        // As before 5.3.
        let polled = ProcessHandle { pid: tid, held: Held::Started(started) };
        let other = ProcessHandle { pid: tid, held: Held::Started(started - 1) };
        for (handle, ended) in [(&handle, false), (&polled, false), (&other, true)] {
            assert_eq!(handle.wait_for_end(Duration::from_millis(1)).unwrap(), ended);
        }
        drop(child.stdin.take());
        for handle in [&handle, &polled] {
            assert!(handle.wait_for_end(Duration::from_secs(60)).unwrap());
        }
        child.wait().unwrap();
        assert!(ProcessHandle::watch(TaskId { tid, started }).unwrap().is_none());
    }

    #[test]
    fn only_the_number_of_a_process_is_opened() {
        for pid in [0, -1, i32::MIN, i32::MAX] {
            let error = ProcessHandle::open(pid).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::ESRCH), "{pid}");
        }
        let of_thread = std::thread::spawn(|| {
            let own = rustix::thread::gettid().as_raw_nonzero().get();
            ProcessHandle::open(own).is_err()
        });
        assert!(of_thread.join().unwrap());
    }
}
