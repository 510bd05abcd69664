//! The doubts and notes about a comparison: about one run, two groups, or one figure. Pure.

use crate::documents::evidence::{CpuDoubt, JudgeReason};
use crate::documents::latency::LatencyDoubt;
use cpushield_sentence::Sentence;
use serde::{Deserialize, Serialize};

/// A reason to doubt the figures of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Sentence)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "about", rename_all = "kebab-case")]
pub enum RunDoubt {
    /// The measurement of `latency` is doubtful.
    #[delegate]
    Measurement {
        /// Why.
        doubt: LatencyDoubt,
    },
    /// CPU {cpu}: {doubt}.
    CpuFigures {
        /// The CPU.
        cpu: usize,
        /// Why.
        doubt: CpuDoubt,
    },
    /// CPU {cpu}: {reason}.
    CpuVerdict {
        /// The CPU.
        cpu: usize,
        /// Why.
        reason: JudgeReason,
    },
    /// the run was stopped early.
    StoppedEarly,
}

/// A reason to doubt the comparison of two groups.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Sentence)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "doubt", rename_all = "kebab-case")]
pub enum PairDoubt {
    /// all runs of one group come before those of the other: a drift over time cannot be
    /// distinguished from a difference between {base} and {other}; interleave the runs.
    NotInterleaved {
        /// The base.
        base: String,
        /// The other group.
        other: String,
    },
    /// a document does not say when its run started, so a drift over time cannot be distinguished
    /// from a difference between the groups.
    NoStartTime,
    /// {count} runs overlap in time: {runs}.
    #[with(count = runs.len(), runs = runs.join(", "))]
    RunsOverlapped {
        /// Their names. Each of them overlapped with another one.
        runs: Vec<String>,
    },
    /// the runs of {group} differ in {what}: {values}.
    #[with(values = values.join(" and "))]
    RunsDiffer {
        /// The group.
        group: String,
        /// The condition: `kernel`, `shield`.
        what: String,
        /// Its values.
        values: Vec<String>,
    },
}

/// A remark on the comparison of two groups.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Sentence)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "note", rename_all = "kebab-case")]
pub enum PairNote {
    /// only {group} has {role}, so they are not compared.
    OnlyInOneGroup {
        /// The group.
        group: String,
        /// The role of the threads: `1 ms threads`.
        role: String,
    },
    /// the worst of {base} runs is compared with the worst of {other}: the maximum grows with the
    /// number of runs.
    RunCountsDiffer {
        /// The number of runs of the base.
        base: usize,
        /// The number of runs of the other group.
        other: usize,
    },
}

/// Why it is unknown whether a difference is significant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Sentence)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "reason", rename_all = "kebab-case")]
pub enum FindingReason {
    /// doubtful: {runs}.
    #[with(runs = runs.join(", "))]
    DoubtfulRuns {
        /// Their names.
        runs: Vec<String>,
    },
    /// the runs differ in length, and the worst case grows with the length.
    LengthsDiffer,
    /// the runs differ in CPU count, and the worst case grows with that count.
    CpusDiffer,
    /// these runs are too few to show a difference; {needed} of each group are enough if the groups
    /// do not overlap.
    TooFewRuns {
        /// How many runs of each group are enough if the groups do not overlap.
        needed: usize,
    },
    /// the runs of the groups do not overlap, but one of {figures} figures may look like that by
    /// chance; {needed} runs of each group would exclude that.
    OneOfMany {
        /// The number of figures.
        figures: usize,
        /// How many runs of each group are enough if the groups do not overlap.
        needed: usize,
    },
}
