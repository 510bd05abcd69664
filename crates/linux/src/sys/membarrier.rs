//! membarrier(2): interrupts the CPUs on which threads of this process run.

use rustix::thread::{MembarrierCommand, membarrier};
use std::io;

/// Registers this process for [`barrier`]. Call it while the process has one thread: later the
/// kernel waits for every CPU.
///
/// # Errors
/// The kernel's error: ENOSYS without `CONFIG_MEMBARRIER`, EINVAL before 4.14.
pub fn register_barrier() -> io::Result<()> {
    Ok(membarrier(MembarrierCommand::RegisterPrivateExpedited)?)
}

/// Sends one function-call IPI to every other CPU on which this process's memory is in use, and
/// waits until each has run it (kernel/sched/membarrier.c, `membarrier_private_expedited`).
///
/// # Errors
/// The kernel's error: EPERM when not registered.
#[inline]
pub fn barrier() -> io::Result<()> {
    Ok(membarrier(MembarrierCommand::PrivateExpedited)?)
}
