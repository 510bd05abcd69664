//! The [`Evidence`] and [`Verdict`] documents.

use crate::causes::Cause;
pub use crate::tunables::Remedy;
use serde::{Deserialize, Serialize};

/// The version of both documents' form.
pub const SCHEMA: u32 = 1;

/// What was observed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    /// [`SCHEMA`].
    pub schema: u32,
    /// How long was watched, in nanoseconds.
    pub span_ns: u64,
    /// It was stopped before its time; what it saw until then is here.
    pub stopped: bool,
    /// What ran on the watched CPUs.
    pub workload: Watched,
    /// One entry for each watched CPU.
    pub cpus: Vec<CpuEvidence>,
    /// Every witness, those that could not see too.
    pub witnesses: Vec<Witness>,
    /// The provoked interruption that proves the instrument sees.
    pub control: Control,
}

/// What ran on the watched CPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Watched {
    /// The gap sampler, which never enters the kernel by itself.
    Sampler,
    /// Something else: a given command, or whatever runs there.
    Given,
}

/// What was observed on one CPU.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CpuEvidence {
    /// The CPU.
    pub cpu: usize,
    /// Entries into the kernel (trace), or the sum of the counters where there is no trace; `None`
    /// when nothing could count.
    pub entries: Option<u64>,
    /// Interruptions by cause and culprit, most frequent first.
    pub interruptions: Vec<Interruptions>,
    /// Longest uninterrupted stretch in nanoseconds, by the best witness there was.
    pub longest_ns: Option<u64>,
    /// Gaps seen from user space; `None` when a workload was given.
    pub gaps: Option<Gaps>,
    /// Events lost by the trace; `None` without a trace.
    pub lost: Option<u64>,
    /// Time the hypervisor took, by `/proc/stat`; `None` when that could not be read.
    pub steal_ns: Option<u64>,
    /// What makes the figures of this CPU doubtful: it went offline, a counter went back.
    pub doubts: Vec<String>,
}

/// Interruptions of one kind by one culprit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Interruptions {
    /// The kind.
    pub cause: Cause,
    /// Who: `IRQ 24 nvme0q3`, `vmstat_update`, `irqbalance (812)`; empty when nobody can say.
    pub culprit: String,
    /// How many interruptions began with it.
    pub count: u64,
    /// How often it ran inside an interruption that something else had begun (a softirq inside a
    /// tick, a kernel thread that the tick woke). A tunable may still remove it.
    #[serde(default)]
    pub nested: u64,
    /// Time it took itself in nanoseconds, without what ran inside it, where the witness can say.
    pub time_ns: Option<u64>,
    /// The longest interruption that began with it, from start to end, in nanoseconds.
    pub max_ns: Option<u64>,
    /// Which witness saw it.
    pub witness: WitnessKind,
}

/// Time lost as the workload sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Gaps {
    /// Mean time of one look at the clock in nanoseconds, gaps left out: what the sampler resolves.
    pub resolution_ns: f64,
    /// Gaps longer than this many nanoseconds are counted.
    pub threshold_ns: u64,
    /// How many.
    pub count: u64,
    /// The longest in nanoseconds.
    pub max_ns: u64,
    /// Sum in nanoseconds.
    pub sum_ns: u64,
    /// Longest stretch without a gap, in nanoseconds.
    pub longest_ns: u64,
    /// Gaps that did not fit into the buffer (counted, but not kept one by one).
    pub overflow: u64,
}

/// A source of evidence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WitnessKind {
    /// The kernel's trace of the CPU.
    Trace,
    /// `/proc/interrupts`, `/proc/softirqs`, `/proc/stat`, schedstat.
    Counters,
    /// The gap sampler in user space.
    Sampler,
}

/// What became of a witness.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Witness {
    /// Which.
    pub kind: WitnessKind,
    /// `None` when it watched; else why not.
    pub absent: Option<String>,
    /// What it cannot see here, for people.
    pub blind: Vec<String>,
}

/// The positive control.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "control", rename_all = "kebab-case")]
pub enum Control {
    /// So many interruptions were provoked, and so many seen (at least one on every CPU).
    Seen {
        /// What was done: `3 reschedule IPIs by sched_setaffinity`.
        what: String,
    },
    /// Provoked but not seen on these CPUs: the instrument is blind.
    Missed {
        /// What was done and where it was not seen.
        what: String,
    },
    /// Not provoked, and why.
    NotDone {
        /// Why.
        why: String,
    },
}

/// What the evidence says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// [`SCHEMA`].
    pub schema: u32,
    /// One entry for each CPU.
    pub cpus: Vec<CpuVerdict>,
    /// Limits asked for by the user, with what was found.
    pub gates: Vec<Gate>,
}

/// The verdict on one CPU.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CpuVerdict {
    /// The CPU.
    pub cpu: usize,
    /// The word.
    pub state: State,
    /// What leaks, with the remedy.
    pub leaks: Vec<Leak>,
    /// Why the verdict is unknown, when it is.
    pub unknown: Vec<String>,
}

/// The word of a verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// Nothing interrupted it, and the instruments prove that they see.
    Holds,
    /// It was interrupted.
    Leaks,
    /// The evidence does not carry a claim.
    Unknown,
}

/// One leak.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Leak {
    /// What was seen.
    pub interruptions: Interruptions,
    /// How to remove it; `None` when the catalogue knows no tunable that could here.
    pub remedy: Option<Remedy>,
    /// Why there is no remedy, where that is known.
    pub why_none: Option<String>,
}

/// A limit asked for by the user.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Gate {
    /// `--max-entries 0`.
    pub limit: String,
    /// What was found.
    pub found: String,
    /// Whether it held; `None` when the evidence cannot say.
    pub held: Option<bool>,
}
