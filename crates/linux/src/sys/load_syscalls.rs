//! System calls that only create work for the kernel, from which loads are made.
//!
//! Elsewhere: how often, and on which CPUs.

use crate::processes::process::{fork_child, wait_for_child};
use rustix::thread::set_current_timer_slack;
use std::io;
use std::num::NonZeroU64;

/// Forks a child that ends at once, and waits for it.
///
/// # Errors
/// The kernel's error: EAGAIN if there may be no more processes.
pub fn fork_and_wait() -> io::Result<()> {
    // SAFETY: the child only ends, which is allowed after a fork of a process with several threads
    // (signal-safety(7)).
    let child = unsafe { fork_child(|| 0) }?;
    wait_for_child(child).map(drop)
}

/// Sets the smallest timer slack for this thread and the threads that it starts: each sleep gets a
/// separate timer interrupt, which is not delayed to coincide with others.
///
/// # Errors
/// The kernel's error.
pub fn minimize_timer_slack() -> io::Result<()> {
    Ok(set_current_timer_slack(Some(NonZeroU64::MIN))?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::membarrier;

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
        membarrier::register_barrier().unwrap();
        membarrier::barrier().unwrap();
        minimize_timer_slack().unwrap();
    }
}
