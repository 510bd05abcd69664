//! The instance that was prepared for later runs: who uses it holds a lock on its directory, so
//! that what a killed run left recording can be told from a run that goes on. The kernel gives the
//! lock back with the process (flock(2)), however that ends.

use super::{INSTANCE, usual_place};
use crate::cpuset::CpuSet;
use crate::error::{Error, Result, Verb};
use crate::host::Host;
use std::fs::{File, TryLockError};

/// The right to use the prepared instance; given back when it is dropped.
#[derive(Debug)]
pub(super) struct Hold {
    _dir: File,
}

/// What was found of the prepared instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leftover {
    /// It records, and its user is there.
    InUse,
    /// It recorded although nobody used it; it does not any more.
    Reset,
}

/// Takes the prepared instance below `root`; `None` when there is none or somebody uses it. What a
/// killed run left in it is put back first.
pub(super) fn take(host: &Host, root: &str) -> Result<Option<Hold>> {
    let dir = format!("{root}/instances/{INSTANCE}");
    let Some(hold) = lock(host, &dir)? else { return Ok(None) };
    if is_dirty(host, &dir) {
        reset(host, &dir)?;
    }
    Ok(Some(hold))
}

/// Looks whether a killed run left the prepared instance recording, and ends that; `None` when it
/// is quiet, not there, or may not be seen.
///
/// # Errors
/// It records, nobody uses it, and the kernel does not let it be stopped.
pub fn reset_leftover(host: &Host) -> Result<Option<Leftover>> {
    let Some(root) = usual_place(host) else { return Ok(None) };
    let dir = format!("{root}/instances/{INSTANCE}");
    if !is_dirty(host, &dir) {
        return Ok(None);
    }
    let Some(_hold) = lock(host, &dir)? else { return Ok(Some(Leftover::InUse)) };
    // Its user may have been about to leave it.
    if !is_dirty(host, &dir) {
        return Ok(None);
    }
    reset(host, &dir)?;
    Ok(Some(Leftover::Reset))
}

/// `None` when it is not there or somebody has it.
fn lock(host: &Host, dir: &str) -> Result<Option<Hold>> {
    let file = match File::open(host.place(dir)) {
        Ok(file) => file,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(Error::io(Verb::Read, dir, e)),
    };
    match file.try_lock() {
        Ok(()) => Ok(Some(Hold { _dir: file })),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(e)) => Err(Error::io(Verb::Call, dir, e)),
    }
}

/// It records, or events are still enabled.
fn is_dirty(host: &Host, dir: &str) -> bool {
    let line = |file: &str| host.read_line(&format!("{dir}/{file}")).ok();
    line("tracing_on").is_some_and(|on| on != "0")
        || line("events/enable").is_some_and(|on| on != "0")
}

/// As `apply` left it: off, nothing enabled, every CPU, the first clock, nothing in its buffers.
fn reset(host: &Host, dir: &str) -> Result<()> {
    let mut answer = Ok(());
    let mut write = |file: &str, value: &str| {
        let path = format!("{dir}/{file}");
        if host.exists(&path) {
            let wrote = host.write(&path, value);
            answer = std::mem::replace(&mut answer, Ok(())).and(wrote);
        }
    };
    write("tracing_on", "0");
    write("events/enable", "0");
    let possible = host.read_line("/sys/devices/system/cpu/possible");
    if let Ok(all) = possible.unwrap_or_default().parse::<CpuSet>() {
        write("tracing_cpumask", &all.to_mask());
    }
    // Also empties the buffers (`tracing_set_clock()`, kernel/trace/trace.c, 4.17 to 6.18).
    write("trace_clock", "local");
    answer
}
