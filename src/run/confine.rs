//! Confines a thread to CPUs, also while its cpuset is on the move.

use cpushield_linux::{CpuSet, Host};
use std::time::Duration;

/// How often a thread is given its CPUs again while its cpuset changes, and how long that may take.
const ATTEMPTS_MAX: usize = 10;
const PAUSE: Duration = Duration::from_millis(20);

/// Gives a thread its CPUs. A cpuset that changes at that moment (a CPU comes or goes, systemd
/// writes) makes the kernel answer EINVAL, and the next time it takes them
/// (`__sched_setaffinity()`, kernel/sched/syscalls.c, 6.2 to 6.18).
///
/// # Errors
/// The kernel's answer, the last one where it was EINVAL.
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
