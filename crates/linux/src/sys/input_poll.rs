//! Waiting until a file has input, and reading it.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::time::Duration;

/// Waits for input, at most `timeout`. Returns what poll(2) reports; nothing after the timeout.
///
/// # Errors
/// The kernel's error: EINTR if a signal ends the wait.
pub(crate) fn wait_for_input(file: &impl AsFd, timeout: Duration) -> io::Result<PollFlags> {
    // The longest time that the kernel takes is longer than it runs.
    let longest = Timespec { tv_sec: i64::MAX, tv_nsec: 0 };
    let timeout = Timespec::try_from(timeout).unwrap_or(longest);
    let mut files = [PollFd::new(file, PollFlags::IN)];
    poll(&mut files, Some(&timeout))?;
    Ok(files[0].revents())
}

/// Reads exactly this many bytes, which a device or a counter answers at once as a number.
#[inline]
pub(crate) fn read_array<const N: usize>(mut file: &File) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    file.read_exact(&mut bytes)?;
    Ok(bytes)
}
