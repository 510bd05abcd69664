//! [`ThreadInTheWay`]: a thread that the new version of its shield has no place for, and why.

use cpushield_linux::CpuSet;
use cpushield_sentence::Sentence;

/// {comm} ({tid}) {reason}.
///
/// A thread that the new version of its shield has no place for.
#[derive(Debug, Clone, PartialEq, Eq, Sentence)]
pub struct ThreadInTheWay {
    /// Its number.
    pub tid: i32,
    /// Its name.
    pub comm: String,
    /// Why.
    pub reason: NoPlaceReason,
}

/// Why a thread has no place in the new version of its shield.
#[derive(Debug, Clone, PartialEq, Eq, Sentence)]
pub enum NoPlaceReason {
    /// may only run on CPU {affinity}, which leaves the shield.
    NoCpuLeft {
        /// Its CPUs.
        affinity: CpuSet,
    },
    /// runs under SCHED_DEADLINE, and the kernel admitted it for its current CPUs only.
    Deadline,
    /// would leave the shield, because a shield without cpuset has no group for programs.
    NoGroup,
    /// has priority {priority}, and no kernel thread can have a higher one.
    NoPriorityAbove {
        /// Its priority.
        priority: u32,
    },
    /// would starve the kernel on its new CPU: {why}.
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
