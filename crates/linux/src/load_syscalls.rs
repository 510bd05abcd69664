//! System calls that only create work for the kernel, from which loads are made.
//!
//! Elsewhere: how often, and on which CPUs.

use std::io;

/// membarrier(2), include/uapi/linux/membarrier.h.
const PRIVATE_EXPEDITED: libc::c_int = 1 << 3;
const REGISTER_PRIVATE_EXPEDITED: libc::c_int = 1 << 4;

fn check(answer: libc::c_long) -> io::Result<()> {
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Forks a child that ends at once, and waits for it.
///
/// # Errors
/// The kernel's error: EAGAIN if there may be no more processes.
pub fn fork_and_wait() -> io::Result<()> {
    // SAFETY: the child only ends, which is allowed after a fork of a process with several threads
    // (signal-safety(7)).
    let pid = unsafe { libc::fork() };
    match pid {
        // SAFETY: ends the child; nothing of its parent is flushed or freed.
        0 => unsafe { libc::_exit(0) },
        1.. => {}
        _ => return Err(io::Error::last_os_error()),
    }
    loop {
        // SAFETY: a null pointer asks for no status.
        match unsafe { libc::waitpid(pid, std::ptr::null_mut(), 0) } {
            -1 if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => {}
            -1 => return Err(io::Error::last_os_error()),
            _ => return Ok(()),
        }
    }
}

/// Registers this process for [`barrier`]. Call it while the process has one thread: later the
/// kernel waits for every CPU.
///
/// # Errors
/// The kernel's error: EINVAL before 4.14.
pub fn register_barriers() -> io::Result<()> {
    // SAFETY: the call takes no pointers.
    check(unsafe { libc::syscall(libc::SYS_membarrier, REGISTER_PRIVATE_EXPEDITED, 0, 0) })
}

/// Interrupts every other CPU on which a thread of this process runs now.
///
/// # Errors
/// The kernel's error.
#[inline]
pub fn barrier() -> io::Result<()> {
    // SAFETY: the call takes no pointers.
    check(unsafe { libc::syscall(libc::SYS_membarrier, PRIVATE_EXPEDITED, 0, 0) })
}

/// Sets the smallest timer slack for this thread and the threads that it starts: each sleep gets a
/// separate timer interrupt, which is not delayed to coincide with others.
///
/// # Errors
/// The kernel's error.
pub fn minimize_timer_slack() -> io::Result<()> {
    let slack_ns: libc::c_ulong = 1;
    // SAFETY: this operation takes a number and no pointers.
    check(unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, slack_ns) }.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of forks of this machine: `processes` of /proc/stat.
    fn forks() -> u64 {
        let text = std::fs::read_to_string("/proc/stat").unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("processes ")).unwrap();
        line.parse().unwrap()
    }

    #[test]
    fn a_child_is_forked_and_reaped() {
        let before = forks();
        for _ in 0..20 {
            fork_and_wait().unwrap();
        }
        assert!(forks() >= before + 20);
    }

    #[test]
    fn a_registered_process_can_call_barriers() {
        // Registering twice is allowed, and another test of this process may have registered.
        register_barriers().unwrap();
        barrier().unwrap();
        minimize_timer_slack().unwrap();
    }
}
