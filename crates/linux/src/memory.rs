//! Locked memory: how much a process has locked, and how much it may lock.

use crate::error::{Error, Result};
use crate::host::Host;
use std::io;

/// The memory of a process, in KiB (`/proc/<pid>/status`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryUse {
    /// `VmLck`: locked.
    pub locked_kib: u64,
    /// `VmRSS`: resident.
    pub resident_kib: u64,
    /// `VmSwap`: swapped out.
    pub swapped_kib: u64,
}

impl Host {
    /// The memory that a process has locked, resident and swapped out.
    ///
    /// # Errors
    /// The process is gone, or is a kernel thread, which has no such lines.
    pub fn memory_use(&self, pid: i32) -> Result<MemoryUse> {
        let path = format!("/proc/{pid}/status");
        let text = self.read(&path)?;
        Ok(MemoryUse {
            locked_kib: parse_kib(&path, &text, "VmLck:")?,
            resident_kib: parse_kib(&path, &text, "VmRSS:")?,
            swapped_kib: parse_kib(&path, &text, "VmSwap:")?,
        })
    }
}

fn parse_kib(path: &str, text: &str, name: &'static str) -> Result<u64> {
    for (i, line) in text.lines().enumerate() {
        if let Some(rest) = line.strip_prefix(name) {
            let number = rest.split_whitespace().next().and_then(|word| word.parse().ok());
            return number.ok_or_else(|| Error::malformed(path, i + 1, "a number of kB", line));
        }
    }
    Err(Error::malformed(path, 0, name, ""))
}

/// How many bytes this process may lock without privilege (`RLIMIT_MEMLOCK`, soft limit); `None` if
/// there is no limit.
///
/// # Errors
/// The kernel's error.
pub fn lock_limit() -> io::Result<Option<u64>> {
    // SAFETY: an all-zero rlimit is a valid value, and the call writes one.
    let (answer, limit) = unsafe {
        let mut limit: libc::rlimit = std::mem::zeroed();
        (libc::getrlimit(libc::RLIMIT_MEMLOCK, &raw mut limit), limit)
    };
    if answer != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok((limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur))
}

/// Removes the limit on locked memory from this process and the programs that it executes.
///
/// # Errors
/// The kernel's error: EPERM without the privilege.
pub fn lift_lock_limit() -> io::Result<()> {
    let limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the pointer is valid for the read of one limit.
    match unsafe { libc::setrlimit(libc::RLIMIT_MEMLOCK, &raw const limit) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Locks all present and future memory of this process.
///
/// # Errors
/// The kernel's error: ENOMEM or EPERM beyond the limit.
pub fn lock_all() -> io::Result<()> {
    // SAFETY: the call takes no pointers.
    match unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `/proc/self/status` of Linux 6.12, shortened.
    const STATUS: &str =
        "Name:\tcat\nVmPeak:\t    3312 kB\nVmLck:\t      64 kB\nVmRSS:\t    1792 kB\n";

    #[test]
    fn locked_memory_is_parsed_and_a_missing_line_is_an_error() {
        assert_eq!(parse_kib("f", STATUS, "VmLck:").unwrap(), 64);
        assert!(parse_kib("f", STATUS, "VmSwap:").unwrap_err().to_string().contains("VmSwap:"));
        let torn = parse_kib("f", "VmLck:\t kB\n", "VmLck:").unwrap_err();
        assert!(torn.to_string().contains("line 1"), "{torn}");
    }
}
