//! What a user should know about a process that was moved, or whose priority was changed. Pure.

use crate::documents::plan::{NamedShield, list_shields};
use cpushield_linux::{CpuSet, SchedPolicy};
use serde::{Deserialize, Serialize};
use std::fmt;

/// What a user should know about a process that was moved, or whose priority was changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "note", rename_all = "kebab-case")]
pub enum ProcessNote {
    /// It gets a lower priority than it asked for, because the kernel's threads need a higher one.
    PriorityLowered {
        /// What it asked for.
        asked: SchedPolicy,
        /// What it gets.
        given: SchedPolicy,
    },
    /// Kernel threads are above it until it ends.
    KernelThreadsRaised {
        /// Their names.
        threads: Vec<String>,
        /// Their policy.
        policy: SchedPolicy,
    },
    /// Interrupt threads wait while it does not sleep.
    InterruptThreadsWait {
        /// Their names.
        threads: Vec<String>,
    },
    /// It is an ordinary program outside of the shield.
    MadeOrdinary {
        /// The thread.
        tid: i32,
        /// Its policy in the shield.
        policy: SchedPolicy,
    },
    /// It could not be made an ordinary program.
    KeepsPolicy {
        /// Its name.
        comm: String,
        /// Its number.
        tid: i32,
        /// Its policy.
        policy: SchedPolicy,
        /// The answer of the kernel.
        answer: String,
    },
    /// The kernel refused its former limit on locked memory.
    KeepsLockLimit {
        /// Its name.
        comm: String,
        /// Its number.
        tid: i32,
        /// The error.
        error: String,
    },
    /// Another process moved it to a cgroup, where it stays.
    GroupChanged {
        /// The cgroup.
        group: String,
    },
    /// Its memory moves to the nodes of the shield, which interrupts other active shields.
    MemoryMoves {
        /// These shields.
        others: Vec<NamedShield>,
    },
    /// Its former cgroup is gone, so it is in the root group.
    GroupGone {
        /// The cgroup.
        group: String,
    },
    /// Another process changed its affinity, which stays.
    AffinityChanged {
        /// Its name.
        comm: String,
        /// Its number.
        tid: i32,
        /// Its CPUs.
        cpus: CpuSet,
    },
    /// Another process changed its policy, which stays.
    PolicyChanged {
        /// Its name.
        comm: String,
        /// Its number.
        tid: i32,
    },
    /// The kernel refused its CPUs.
    AffinityRefused {
        /// Its name.
        comm: String,
        /// Its number.
        tid: i32,
        /// The answer of the kernel.
        answer: String,
    },
    /// It could not be moved back.
    NotMovedBack {
        /// Its name.
        comm: String,
        /// Its number.
        tid: i32,
        /// The error.
        error: String,
    },
    /// A kernel thread stays raised for a program.
    StaysRaised {
        /// The name of the thread.
        comm: String,
        /// The program.
        tid: i32,
        /// The priority of the program.
        priority: u32,
    },
    /// A kernel thread could not be lowered.
    NotLowered {
        /// The name of the thread.
        comm: String,
        /// The answer of the kernel.
        answer: String,
    },
    /// Another process changed the policy of a raised kernel thread, which stays.
    RaisedThreadChanged {
        /// The name of the thread.
        comm: String,
        /// Its policy.
        policy: SchedPolicy,
    },
}

impl fmt::Display for ProcessNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProcessNote::PriorityLowered { asked, given } => write!(
                f,
                "{asked} is lowered to {given}: the kernel hangs when a program that never sleeps \
                 has a higher priority than the kernel's threads"
            ),
            ProcessNote::KernelThreadsRaised { threads, policy } => {
                write!(
                    f,
                    "kernel threads raised to {policy} until the program ends: {}",
                    threads.join(", ")
                )
            }
            ProcessNote::InterruptThreadsWait { threads } => {
                write!(
                    f,
                    "interrupt threads that must wait while the program does not sleep: {}",
                    threads.join(", ")
                )
            }
            ProcessNote::MadeOrdinary { tid, policy } => {
                write!(f, "the policy of {tid} changes from {policy} to SCHED_OTHER")
            }
            ProcessNote::KeepsPolicy { comm, tid, policy, answer } => {
                write!(f, "{comm} ({tid}) keeps {policy}: {answer}")
            }
            ProcessNote::KeepsLockLimit { comm, tid, error } => {
                write!(f, "{comm} ({tid}) keeps its raised limit on locked memory: {error}")
            }
            ProcessNote::GroupChanged { group } => {
                write!(f, "another process moved it to {group}, so it stays there")
            }
            ProcessNote::MemoryMoves { others } => write!(
                f,
                "its memory moves to the nodes of the shield: this queues kernel work on every \
                 CPU, which interrupts {}",
                list_shields(others)
            ),
            ProcessNote::GroupGone { group } => {
                write!(f, "{group} no longer exists, so it is in the root cgroup")
            }
            ProcessNote::AffinityChanged { comm, tid, cpus } => {
                write!(f, "another process moved {comm} ({tid}) to CPU {cpus}, so it stays there")
            }
            ProcessNote::PolicyChanged { comm, tid } => {
                write!(f, "another process changed the policy of {comm} ({tid})")
            }
            ProcessNote::AffinityRefused { comm, tid, answer } => {
                write!(f, "the kernel refused the CPUs of {comm} ({tid}): {answer}")
            }
            ProcessNote::NotMovedBack { comm, tid, error } => {
                write!(f, "cannot move {comm} ({tid}) out of the shield: {error}")
            }
            ProcessNote::StaysRaised { comm, tid, priority } => {
                write!(f, "{comm} keeps its raised priority for task {tid} (priority {priority})")
            }
            ProcessNote::NotLowered { comm, answer } => {
                write!(f, "{comm} keeps its raised priority: {answer}")
            }
            ProcessNote::RaisedThreadChanged { comm, policy } => {
                write!(
                    f,
                    "another process changed the policy of {comm} to {policy}, so cpushield does \
                     not change it"
                )
            }
        }
    }
}
