//! Scheduling system calls, by number: musl's `sched_setscheduler` is a stub that answers ENOSYS,
//! and no crate in use provides `sched_setattr`. The CPU sets of rustix end at 1024 CPUs.

use crate::cpuset::{CPUS_MAX, CpuSet};
use crate::sys::sched_policy::SchedPolicy;
use std::io;

const MASK_WORDS: usize = CPUS_MAX / 64;

/// `struct sched_attr` (include/uapi/linux/sched/types.h), the 48 bytes of `SCHED_ATTR_SIZE_VER0`.
#[repr(C)]
#[derive(Debug, Default, Clone, Copy)]
struct SchedAttr {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

const _: () = assert!(size_of::<SchedAttr>() == 48);

fn check(answer: libc::c_long) -> io::Result<libc::c_long> {
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(answer) }
}

/// `sched_setaffinity(2)`; `tid` 0 is the calling thread.
///
/// # Errors
/// The kernel's error.
pub fn set_affinity(tid: i32, cpus: &CpuSet) -> io::Result<()> {
    let mut mask = [0u64; MASK_WORDS];
    for cpu in cpus.iter() {
        mask[cpu / 64] |= 1 << (cpu % 64);
    }
    // SAFETY: the mask is valid for reads of its whole size, which the call is given.
    let answer = unsafe {
        libc::syscall(libc::SYS_sched_setaffinity, tid, size_of_val(&mask), mask.as_ptr())
    };
    check(answer).map(drop)
}

/// The CPU that the calling thread runs on now, by sched_getcpu(3).
#[must_use]
pub fn current_cpu() -> usize {
    rustix::thread::sched_getcpu()
}

/// `sched_getaffinity(2)`; `tid` 0 is the calling thread.
///
/// # Errors
/// The kernel's error.
pub fn affinity(tid: i32) -> io::Result<CpuSet> {
    let mut mask = [0u64; MASK_WORDS];
    // SAFETY: the mask is valid for writes of its whole size, which the call is given.
    let answer = unsafe {
        libc::syscall(libc::SYS_sched_getaffinity, tid, size_of_val(&mask), mask.as_mut_ptr())
    };
    check(answer)?;
    Ok((0..CPUS_MAX).filter(|cpu| mask[cpu / 64] & (1 << (cpu % 64)) != 0).collect())
}

/// `sched_getattr(2)`; `tid` 0 is the calling thread.
///
/// # Errors
/// The kernel's error.
pub fn policy(tid: i32) -> io::Result<SchedPolicy> {
    let mut attr = SchedAttr::default();
    // SAFETY: the kernel writes at most the given size, which is that of `attr`.
    let answer = unsafe {
        libc::syscall(libc::SYS_sched_getattr, tid, &raw mut attr, size_of::<SchedAttr>(), 0)
    };
    check(answer)?;
    Ok(match attr.policy {
        0 => SchedPolicy::Other { nice: attr.nice },
        1 => SchedPolicy::Fifo { priority: attr.priority },
        2 => SchedPolicy::Rr { priority: attr.priority },
        3 => SchedPolicy::Batch { nice: attr.nice },
        5 => SchedPolicy::Idle,
        6 => SchedPolicy::Deadline {
            runtime_ns: attr.runtime,
            deadline_ns: attr.deadline,
            period_ns: attr.period,
        },
        number => SchedPolicy::Unknown { number },
    })
}

/// `sched_setattr(2)`; `tid` 0 is the calling thread.
///
/// # Errors
/// The kernel's error; EINVAL for an unknown policy.
pub fn set_policy(tid: i32, policy: SchedPolicy) -> io::Result<()> {
    let mut attr = SchedAttr { size: 48, ..SchedAttr::default() };
    match policy {
        SchedPolicy::Other { nice } => attr.nice = nice,
        SchedPolicy::Fifo { priority } => (attr.policy, attr.priority) = (1, priority),
        SchedPolicy::Rr { priority } => (attr.policy, attr.priority) = (2, priority),
        SchedPolicy::Batch { nice } => (attr.policy, attr.nice) = (3, nice),
        SchedPolicy::Idle => attr.policy = 5,
        SchedPolicy::Deadline { runtime_ns, deadline_ns, period_ns } => {
            attr.policy = 6;
            // SCHED_FLAG_RESET_ON_FORK: without it such a task cannot create threads or children
            // (EAGAIN from fork, kernel/sched/core.c, 6.12); with it they are SCHED_OTHER.
            attr.flags = 1;
            (attr.runtime, attr.deadline, attr.period) = (runtime_ns, deadline_ns, period_ns);
        }
        SchedPolicy::Unknown { .. } => return Err(io::Error::from_raw_os_error(libc::EINVAL)),
    }
    // SAFETY: `attr` is valid for reads of the size that it states in its first field.
    let answer = unsafe { libc::syscall(libc::SYS_sched_setattr, tid, &raw const attr, 0) };
    check(answer).map(drop)
}

/// A raised priority of the calling thread, restored when it is dropped.
#[derive(Debug)]
pub struct PriorityBoost {
    /// The previous nice value, if it could be changed.
    previous_nice: Option<i32>,
}

/// Raises the priority of the calling thread, and of processes that it starts, above other ordinary
/// tasks. So the machine is between two states only for a short time. Does nothing if that is not
/// allowed, or if the policy is not `SCHED_OTHER`.
#[must_use]
pub fn boost_priority() -> PriorityBoost {
    let previous_nice = match policy(0) {
        Ok(SchedPolicy::Other { nice }) => {
            set_policy(0, SchedPolicy::Other { nice: -20 }).ok().map(|()| nice)
        }
        _ => None,
    };
    PriorityBoost { previous_nice }
}

impl Drop for PriorityBoost {
    fn drop(&mut self) {
        if let Some(nice) = self.previous_nice {
            // A thread that was allowed to lower its nice value may raise it again.
            let _ = set_policy(0, SchedPolicy::Other { nice });
        }
    }
}

/// The ID of the calling thread.
#[must_use]
pub fn thread_id() -> i32 {
    rustix::thread::gettid().as_raw_nonzero().get()
}
