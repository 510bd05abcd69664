//! Confines a thread to CPUs, even while its cpuset changes.

use cpushield_linux::{CpuSet, Host};
use std::time::Duration;

/// How often to retry while the cpuset changes, and the pause between tries.
const ATTEMPTS_MAX: usize = 50;
const PAUSE: Duration = Duration::from_millis(20);

/// Sets the affinity of a thread. While its cpuset changes (CPU hotplug, a write by systemd), the
/// kernel answers EINVAL, and a retry succeeds
/// (`__sched_setaffinity()`, kernel/sched/syscalls.c, 6.2 to 6.18).
///
/// # Errors
/// The kernel's answer, after the last retry.
pub fn confine(host: &Host, tid: i32, cpus: &CpuSet) -> cpushield_linux::Result<()> {
    let mut answer = host.set_affinity(tid, cpus);
    for _ in 0..ATTEMPTS_MAX {
        if !answer.as_ref().is_err_and(cpushield_linux::Error::is_invalid) {
            break;
        }
        std::thread::sleep(PAUSE);
        answer = host.set_affinity(tid, cpus);
    }
    answer
}
