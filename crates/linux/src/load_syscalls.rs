//! System calls that give the kernel work and nothing else: what loads are made of.
//!
//! Elsewhere: how often, and on which CPUs.

use std::io;

/// membarrier(2), include/uapi/linux/membarrier.h.
const PRIVATE_EXPEDITED: libc::c_int = 1 << 3;
const REGISTER_PRIVATE_EXPEDITED: libc::c_int = 1 << 4;

fn answer(answer: libc::c_long) -> io::Result<()> {
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Starts a child that ends at once, and waits for its end.
///
/// # Errors
/// The kernel's error: EAGAIN where there may be no more processes.
pub fn child_that_ends() -> io::Result<()> {
    // SAFETY: the child does nothing but end, which is allowed after a fork of a process with
    // several threads too (signal-safety(7)).
    let pid = unsafe { libc::fork() };
    match pid {
        // SAFETY: ends the child; nothing of its parent's is flushed or given back.
        0 => unsafe { libc::_exit(0) },
        1.. => {}
        _ => return Err(io::Error::last_os_error()),
    }
    loop {
        // SAFETY: no status is asked for.
        match unsafe { libc::waitpid(pid, std::ptr::null_mut(), 0) } {
            -1 if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => {}
            -1 => return Err(io::Error::last_os_error()),
            _ => return Ok(()),
        }
    }
}

/// Lets this process call [`barrier`]. To be done while it has one thread: later the kernel waits
/// for every CPU.
///
/// # Errors
/// The kernel's error: EINVAL before 4.14.
pub fn allow_barriers() -> io::Result<()> {
    // SAFETY: the call takes no pointers.
    answer(unsafe { libc::syscall(libc::SYS_membarrier, REGISTER_PRIVATE_EXPEDITED, 0, 0) })
}

/// Interrupts every other CPU on which a thread of this process runs now, and no other.
///
/// # Errors
/// The kernel's error.
#[inline]
pub fn barrier() -> io::Result<()> {
    // SAFETY: the call takes no pointers.
    answer(unsafe { libc::syscall(libc::SYS_membarrier, PRIVATE_EXPEDITED, 0, 0) })
}

/// From now on the sleeps of this thread, and of those it starts, end as soon as they can: each has
/// a timer interrupt of its own, which is not put off for others.
///
/// # Errors
/// The kernel's error.
pub fn sleep_exactly() -> io::Result<()> {
    let least: libc::c_ulong = 1;
    // SAFETY: this operation takes a number and no pointers.
    answer(unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, least) }.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Processes that were begun on this machine: `processes` of /proc/stat.
    fn forks() -> u64 {
        let text = std::fs::read_to_string("/proc/stat").unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("processes ")).unwrap();
        line.parse().unwrap()
    }

    #[test]
    fn a_child_is_begun_and_none_is_left() {
        let before = forks();
        for _ in 0..20 {
            child_that_ends().unwrap();
        }
        assert!(forks() >= before + 20);
    }

    #[test]
    fn a_barrier_needs_leave() {
        // Another test of this process may have asked for it.
        allow_barriers().unwrap();
        barrier().unwrap();
        sleep_exactly().unwrap();
    }
}
