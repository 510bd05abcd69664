//! [`ProcessHandle`]: a process by a descriptor of it. The number of a process that ends may belong
//! to another one at once; the descriptor stays that of the first.

use crate::sys::input_poll::wait_for_input;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::io;
use std::time::Duration;

/// A process, whatever becomes of its number.
#[derive(Debug)]
pub struct ProcessHandle {
    pid: i32,
    pidfd: OwnedFd,
}

impl ProcessHandle {
    /// Opens the process that has this number now.
    ///
    /// # Errors
    /// There is none (ESRCH), or the number is that of a thread (EINVAL or ENOENT).
    pub fn open(pid: i32) -> io::Result<ProcessHandle> {
        let number = Some(pid).filter(|pid| *pid > 0).and_then(Pid::from_raw);
        let pidfd = pidfd_open(number.ok_or(Errno::SRCH)?, PidfdFlags::empty())?;
        Ok(ProcessHandle { pid, pidfd })
    }

    /// The process of a descriptor that the kernel made for this number.
    pub(super) fn of_descriptor(pid: i32, pidfd: OwnedFd) -> ProcessHandle {
        ProcessHandle { pid, pidfd }
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
        Ok(!wait_for_input(&self.pidfd, Duration::ZERO)?.is_empty())
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
