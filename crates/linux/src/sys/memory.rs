//! Locked memory: how much a process has locked, and how much it may lock.

use crate::error::{Error, Operation, Result};
use crate::host::Host;
use rustix::mm::{MlockAllFlags, mlockall};
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit, setrlimit};
use serde::{Deserialize, Serialize};
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

/// The soft and the hard limit on locked memory, in bytes; `None` is no limit.
type LockLimit = (Option<u64>, Option<u64>);

/// A limit on locked memory, and the higher one that replaces it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RaisedLockLimit {
    before: LockLimit,
    given: LockLimit,
}

impl RaisedLockLimit {
    /// This limit as a further raise of `earlier`: it leads back to the limit before that one.
    #[must_use]
    pub fn after(self, earlier: Option<RaisedLockLimit>) -> RaisedLockLimit {
        match earlier {
            Some(earlier) if earlier.given == self.before => {
                RaisedLockLimit { before: earlier.before, ..self }
            }
            _ => self,
        }
    }
}

/// The name of the limit in `/proc/<pid>/limits` (fs/proc/base.c, 6.12).
pub const LOCKED_MEMORY: &str = "Max locked memory";

impl Host {
    /// The limits with which a process can lock at least this much memory; `None` is any amount.
    /// Higher limits stay. Changes nothing.
    ///
    /// # Errors
    /// The process has ended.
    pub fn raised_lock_limit(&self, pid: i32, bytes: Option<u64>) -> Result<RaisedLockLimit> {
        let path = format!("/proc/{pid}/limits");
        let now = parse_lock_limit(&path, &self.read(&path)?)?;
        let higher = |now: Option<u64>| Some(now?.max(bytes?));
        let before = (now.current, now.maximum);
        Ok(RaisedLockLimit { before, given: (higher(now.current), higher(now.maximum)) })
    }

    /// Gives a process these limits. Returns them with the limits that exactly the process had that
    /// got the new ones.
    ///
    /// # Errors
    /// The process has ended, or the kernel refuses.
    pub fn raise_lock_limit(&self, pid: i32, raised: RaisedLockLimit) -> Result<RaisedLockLimit> {
        let before = self.set_lock_limit(pid, raised.given)?;
        Ok(RaisedLockLimit { before, ..raised })
    }

    /// Restores a raised limit, if the process with the number has it.
    ///
    /// # Errors
    /// The process has ended, or the kernel refuses.
    pub fn restore_lock_limit(&self, pid: i32, raised: RaisedLockLimit) -> Result<()> {
        let path = format!("/proc/{pid}/limits");
        let now = parse_lock_limit(&path, &self.read(&path)?)?;
        match (now.current, now.maximum) == raised.given {
            true => self.set_lock_limit(pid, raised.before).map(drop),
            false => Ok(()),
        }
    }

    /// Sets the soft and the hard limit. Returns those before.
    fn set_lock_limit(&self, pid: i32, limit: LockLimit) -> Result<LockLimit> {
        let path = format!("/proc/{pid}/limits");
        self.before_write(Operation::Call, &path)?;
        if let Some(kernel) = &self.kernel {
            let before = parse_lock_limit(&path, &self.read(&path)?)?;
            kernel.set_lock_limit(self, &path, [limit.0, limit.1])?;
            return Ok((before.current, before.maximum));
        }
        let process = Pid::from_raw(pid).ok_or_else(|| Error::no_task(pid))?;
        let (current, maximum) = limit;
        prlimit(Some(process), Resource::Memlock, Rlimit { current, maximum })
            .map(|before| (before.current, before.maximum))
            .map_err(|errno| Error::io(Operation::Call, &path, errno.into()))
    }

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

/// The limits on locked memory in `/proc/<pid>/limits`.
fn parse_lock_limit(path: &str, text: &str) -> Result<Rlimit> {
    let line = text.lines().find_map(|line| line.strip_prefix(LOCKED_MEMORY));
    let mut words = line.unwrap_or_default().split_whitespace().map(|word| match word {
        "unlimited" => Some(None),
        number => number.parse().ok().map(Some),
    });
    match (words.next().flatten(), words.next().flatten()) {
        (Some(current), Some(maximum)) => Ok(Rlimit { current, maximum }),
        _ => Err(Error::malformed(path, 0, "a line `Max locked memory` with two limits", text)),
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
#[must_use]
pub fn lock_limit() -> Option<u64> {
    getrlimit(Resource::Memlock).current
}

/// Removes the limit on locked memory from this process and the programs that it executes.
///
/// # Errors
/// The kernel's error: EPERM without the privilege.
pub fn lift_lock_limit() -> io::Result<()> {
    Ok(setrlimit(Resource::Memlock, Rlimit { current: None, maximum: None })?)
}

/// Locks all present and future memory of this process.
///
/// # Errors
/// The kernel's error: ENOMEM or EPERM beyond the limit.
pub fn lock_all() -> io::Result<()> {
    Ok(mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `/proc/self/status` of Linux 6.12, shortened.
    const STATUS: &str =
        "Name:\tcat\nVmPeak:\t    3312 kB\nVmLck:\t      64 kB\nVmRSS:\t    1792 kB\n";

    #[test]
    fn limits_on_locked_memory_are_parsed() {
        // Linux 6.12, shortened.
        let text = "Limit                     Soft Limit           Hard Limit           Units     \n\
                    Max locked memory         8388608              unlimited            bytes     \n";
        let limit = parse_lock_limit("f", text).unwrap();
        assert_eq!((limit.current, limit.maximum), (Some(8_388_608), None));
        for torn in ["", "Max locked memory 7\n", "Max locked memory x y bytes\n"] {
            assert!(parse_lock_limit("f", torn).is_err(), "{torn}");
        }
    }

    #[test]
    fn locked_memory_is_parsed_and_a_missing_line_is_an_error() {
        assert_eq!(parse_kib("f", STATUS, "VmLck:").unwrap(), 64);
        assert!(parse_kib("f", STATUS, "VmSwap:").unwrap_err().to_string().contains("VmSwap:"));
        let torn = parse_kib("f", "VmLck:\t kB\n", "VmLck:").unwrap_err();
        assert!(torn.to_string().contains("line 1"), "{torn}");
    }
}
