//! What is risky about a program of a shield. Plain data with its sentences.

use crate::documents::count_text::{joined, many};
use cpushield_linux::{CpuSet, SchedPolicy};
use serde::{Deserialize, Serialize};
use std::fmt;

/// What is risky about a program of a shield.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "risk", rename_all = "kebab-case")]
pub enum ProgramRisk {
    /// It is above kernel threads of its CPUs: if it does not sleep, the kernel stalls.
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
    /// Several of its threads are busy on one CPU.
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

impl fmt::Display for ProgramRisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProgramRisk::AboveKernel { pid, comm, policy, cpus, below } => {
                let (below, priority) = (joined(below, ", "), policy.rt_priority());
                write!(
                    f,
                    "{comm} ({pid}) has {policy}, above {below} on CPU {cpus}: if it does not \
                     sleep, the kernel stalls; start it with `cpushield run --own-priority \
                     {priority}`, or now: cpushield add {pid}"
                )
            }
            ProgramRisk::Crowded { pid, comm, cpu, threads } => {
                let threads = many(*threads, "busy thread");
                write!(
                    f,
                    "{threads} of {comm} ({pid}) compete for CPU {cpu}; start it with `cpushield \
                     run --spread`, or now: cpushield remove {pid} && cpushield add --spread {pid}"
                )
            }
        }
    }
}
