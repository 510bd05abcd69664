//! What is risky about a program of a shield. Plain data with its sentences.

use crate::documents::count_text::{joined, many};
use cpushield_linux::{CpuSet, SchedPolicy};
use cpushield_sentence::Sentence;
use serde::{Deserialize, Serialize};

/// What is risky about a program of a shield.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Sentence)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "risk", rename_all = "kebab-case")]
pub enum ProgramRisk {
    /// {comm} ({pid}) has {policy}, above {below} on CPU {cpus}: if it does not sleep, the kernel
    /// stalls; start it with `cpushield run --own-priority {priority}`, or now: cpushield add
    /// {pid}.
    #[with(below = joined(below, ", "), priority = policy.rt_priority())]
    AboveKernel {
        /// The process.
        pid: i32,
        /// The name of the thread.
        comm: String,
        /// The policy of the thread.
        policy: SchedPolicy,
        /// Its CPUs.
        #[cfg_attr(feature = "schema", schemars(with = "String"))]
        cpus: CpuSet,
        /// The kernel threads.
        below: Vec<String>,
    },
    /// {threads} of {comm} ({pid}) compete for CPU {cpu}; start it with `cpushield run --spread`,
    /// or now: cpushield remove {pid} && cpushield add --spread {pid}.
    #[with(threads = many(*threads, "busy thread"))]
    Crowded {
        /// The process.
        pid: i32,
        /// The name of one of them.
        comm: String,
        /// The CPU.
        cpu: usize,
        /// How many.
        threads: usize,
    },
}

impl ProgramRisk {
    /// The process.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.key().0
    }

    /// What tells one risk from another: the process, and the CPU of a crowd.
    #[must_use]
    pub fn key(&self) -> (i32, Option<usize>) {
        match self {
            ProgramRisk::AboveKernel { pid, .. } => (*pid, None),
            ProgramRisk::Crowded { pid, cpu, .. } => (*pid, Some(*cpu)),
        }
    }
}
