//! [`ThreadInTheWay`]: a thread that the new version of its shield has no place for, and why.

use cpushield_linux::CpuSet;
use std::fmt;

/// A thread that the new version of its shield has no place for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadInTheWay {
    /// Its number.
    pub tid: i32,
    /// Its name.
    pub comm: String,
    /// Why.
    pub reason: NoPlaceReason,
}

/// Why a thread has no place in the new version of its shield.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoPlaceReason {
    /// It may only run on CPUs that leave the shield.
    NoCpuLeft {
        /// Its CPUs.
        affinity: CpuSet,
    },
    /// The kernel has admitted it to the CPUs of the shield (`SCHED_DEADLINE`).
    Deadline,
    /// The new version does not keep programs apart.
    NoGroup,
    /// No kernel thread can be above it on its new CPUs.
    NoPriorityAbove {
        /// Its priority.
        priority: u32,
    },
    /// The kernel's threads could not be raised above it on its new CPUs.
    KernelThreads {
        /// Why.
        why: String,
    },
}

impl NoPlaceReason {
    /// Whether the thread would starve the kernel there, so that it must not be moved.
    #[must_use]
    pub fn is_unsafe(&self) -> bool {
        matches!(self, Self::NoPriorityAbove { .. } | Self::KernelThreads { .. })
    }
}

impl fmt::Display for ThreadInTheWay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}) ", self.comm, self.tid)?;
        match &self.reason {
            NoPlaceReason::NoCpuLeft { affinity } => {
                write!(f, "may only run on CPU {affinity}, which leaves the shield")
            }
            NoPlaceReason::Deadline => f.write_str(
                "runs under SCHED_DEADLINE, and the kernel admitted it for its current CPUs only",
            ),
            NoPlaceReason::NoGroup => f.write_str(
                "would leave the shield, because a shield without cpuset has no group for programs",
            ),
            NoPlaceReason::NoPriorityAbove { priority } => {
                write!(f, "has priority {priority}, and no kernel thread can have a higher one")
            }
            NoPlaceReason::KernelThreads { why } => {
                write!(f, "would starve the kernel on its new CPU: {why}")
            }
        }
    }
}
