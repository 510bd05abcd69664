//! What a user should know about a process that was moved, or whose priority was changed. Pure.

use crate::documents::plan::{NamedShield, list_shields};
use cpushield_linux::{CpuSet, SchedPolicy};
use cpushield_sentence::Sentence;
use serde::{Deserialize, Serialize};

/// What a user should know about a process that was moved, or whose priority was changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Sentence)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "note", rename_all = "kebab-case")]
pub enum ProcessNote {
    /// {asked} is lowered to {given}: the kernel hangs when a program that never sleeps has a
    /// higher priority than the kernel's threads.
    PriorityLowered {
        /// What it asked for.
        asked: SchedPolicy,
        /// What it gets.
        given: SchedPolicy,
    },
    /// kernel threads raised to {policy} until the program ends: {threads}.
    #[with(threads = threads.join(", "))]
    KernelThreadsRaised {
        /// Their names.
        threads: Vec<String>,
        /// Their policy.
        policy: SchedPolicy,
    },
    /// interrupt threads that must wait while the program does not sleep: {threads}.
    #[with(threads = threads.join(", "))]
    InterruptThreadsWait {
        /// Their names.
        threads: Vec<String>,
    },
    /// the policy of {tid} changes from {policy} to SCHED_OTHER.
    MadeOrdinary {
        /// The thread.
        tid: i32,
        /// Its policy in the shield.
        policy: SchedPolicy,
    },
    /// {comm} ({tid}) keeps {policy}: {answer}.
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
    /// {comm} ({tid}) keeps its raised limit on locked memory: {error}.
    KeepsLockLimit {
        /// Its name.
        comm: String,
        /// Its number.
        tid: i32,
        /// The error.
        error: String,
    },
    /// another process moved it to {group}, so it stays there.
    GroupChanged {
        /// The cgroup.
        group: String,
    },
    /// its memory moves to the nodes of the shield: this queues kernel work on every CPU, which
    /// interrupts {others}.
    #[with(others = list_shields(others))]
    MemoryMoves {
        /// These shields.
        others: Vec<NamedShield>,
    },
    /// {group} no longer exists, so it is in the root cgroup.
    GroupGone {
        /// The cgroup.
        group: String,
    },
    /// another process moved {comm} ({tid}) to CPU {cpus}, so it stays there.
    AffinityChanged {
        /// Its name.
        comm: String,
        /// Its number.
        tid: i32,
        /// Its CPUs.
        cpus: CpuSet,
    },
    /// another process changed the policy of {comm} ({tid}).
    PolicyChanged {
        /// Its name.
        comm: String,
        /// Its number.
        tid: i32,
    },
    /// the kernel refused the CPUs of {comm} ({tid}): {answer}.
    AffinityRefused {
        /// Its name.
        comm: String,
        /// Its number.
        tid: i32,
        /// The answer of the kernel.
        answer: String,
    },
    /// cannot move {comm} ({tid}) out of the shield: {error}.
    NotMovedBack {
        /// Its name.
        comm: String,
        /// Its number.
        tid: i32,
        /// The error.
        error: String,
    },
    /// {comm} keeps its raised priority for task {tid} (priority {priority}).
    StaysRaised {
        /// The name of the thread.
        comm: String,
        /// The program.
        tid: i32,
        /// The priority of the program.
        priority: u32,
    },
    /// {comm} keeps its raised priority: {answer}.
    NotLowered {
        /// The name of the thread.
        comm: String,
        /// The answer of the kernel.
        answer: String,
    },
    /// another process changed the policy of {comm} to {policy}, so cpushield does not change it.
    RaisedThreadChanged {
        /// The name of the thread.
        comm: String,
        /// Its policy.
        policy: SchedPolicy,
    },
}
