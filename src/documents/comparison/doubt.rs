//! The doubts and notes about a comparison: about one run, two groups, or one figure. Pure.

use crate::documents::evidence::{CpuDoubt, JudgeReason};
use crate::documents::latency::LatencyDoubt;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A reason to doubt the figures of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "about", rename_all = "kebab-case")]
pub enum RunDoubt {
    /// The measurement of `latency` is doubtful.
    Measurement {
        /// Why.
        doubt: LatencyDoubt,
    },
    /// The figures of a CPU are doubtful.
    CpuFigures {
        /// The CPU.
        cpu: usize,
        /// Why.
        doubt: CpuDoubt,
    },
    /// The verdict on a CPU is unknown.
    CpuVerdict {
        /// The CPU.
        cpu: usize,
        /// Why.
        reason: JudgeReason,
    },
    /// The run was stopped early.
    StoppedEarly,
}

impl RunDoubt {
    /// How to avoid the doubt; `None` when there is no advice.
    #[must_use]
    pub fn advice(&self) -> Option<&'static str> {
        match self {
            RunDoubt::Measurement { doubt } => doubt.advice(),
            RunDoubt::CpuVerdict { reason, .. } => reason.advice(),
            RunDoubt::CpuFigures { .. } | RunDoubt::StoppedEarly => None,
        }
    }
}

impl fmt::Display for RunDoubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunDoubt::Measurement { doubt } => doubt.fmt(f),
            RunDoubt::CpuFigures { cpu, doubt } => write!(f, "CPU {cpu}: {doubt}"),
            RunDoubt::CpuVerdict { cpu, reason } => write!(f, "CPU {cpu}: {reason}"),
            RunDoubt::StoppedEarly => f.write_str("the run was stopped early"),
        }
    }
}

/// A reason to doubt the comparison of two groups.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "doubt", rename_all = "kebab-case")]
pub enum PairDoubt {
    /// All runs of one group come before those of the other.
    NotInterleaved {
        /// The base.
        base: String,
        /// The other group.
        other: String,
    },
    /// A document does not record when its run began.
    NoStartTime,
    /// Runs overlapped in time on the same machine.
    RunsOverlapped {
        /// Their names. Each of them overlapped with another one.
        runs: Vec<String>,
    },
    /// The runs of one group differ in a condition.
    RunsDiffer {
        /// The group.
        group: String,
        /// The condition: `kernel`, `shield`.
        what: String,
        /// Its values.
        values: Vec<String>,
    },
}

impl PairDoubt {
    /// How to avoid the doubt; `None` when there is no advice.
    #[must_use]
    pub fn advice(&self) -> Option<&'static str> {
        matches!(self, PairDoubt::NotInterleaved { .. }).then_some("interleave the runs")
    }
}

impl fmt::Display for PairDoubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PairDoubt::NotInterleaved { base, other } => write!(
                f,
                "all runs of one group come before those of the other: a drift over time cannot \
                 be distinguished from a difference between {base} and {other}; {}",
                self.advice().unwrap_or_default()
            ),
            PairDoubt::NoStartTime => f.write_str(
                "a document does not say when its run started, so a drift over time cannot be \
                 distinguished from a difference between the groups",
            ),
            PairDoubt::RunsOverlapped { runs } => {
                write!(f, "{} runs overlap in time: {}", runs.len(), runs.join(", "))
            }
            PairDoubt::RunsDiffer { group, what, values } => {
                write!(f, "the runs of {group} differ in {what}: {}", values.join(" and "))
            }
        }
    }
}

/// A remark on the comparison of two groups.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "note", rename_all = "kebab-case")]
pub enum PairNote {
    /// Only one group has these threads, so they are not compared.
    OnlyInOneGroup {
        /// The group.
        group: String,
        /// The role of the threads: `1 ms threads`.
        role: String,
    },
    /// The groups have different numbers of runs.
    RunCountsDiffer {
        /// The number of runs of the base.
        base: usize,
        /// The number of runs of the other group.
        other: usize,
    },
}

impl fmt::Display for PairNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PairNote::OnlyInOneGroup { group, role } => {
                write!(f, "only {group} has {role}, so they are not compared")
            }
            PairNote::RunCountsDiffer { base, other } => write!(
                f,
                "the worst of {base} runs is compared with the worst of {other}: the maximum \
                 grows with the number of runs"
            ),
        }
    }
}

/// Why it is unknown whether a difference is significant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "reason", rename_all = "kebab-case")]
pub enum FindingReason {
    /// Runs are doubtful.
    DoubtfulRuns {
        /// Their names.
        runs: Vec<String>,
    },
    /// The runs differ in length.
    LengthsDiffer,
    /// The runs differ in the number of CPUs.
    CpusDiffer,
    /// There are too few runs: not even groups that do not overlap would differ significantly.
    TooFewRuns {
        /// How many runs of each group are enough if the groups do not overlap.
        needed: usize,
    },
    /// The groups do not overlap, but one of many figures may look so by chance.
    OneOfMany {
        /// The number of figures.
        figures: usize,
        /// How many runs of each group are enough if the groups do not overlap.
        needed: usize,
    },
}

impl fmt::Display for FindingReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FindingReason::DoubtfulRuns { runs } => write!(f, "doubtful: {}", runs.join(", ")),
            FindingReason::LengthsDiffer => {
                f.write_str("the runs differ in length, and the worst case grows with the length")
            }
            FindingReason::CpusDiffer => f.write_str(
                "the runs differ in CPU count, and the worst case grows with that count",
            ),
            FindingReason::TooFewRuns { needed } => {
                write!(
                    f,
                    "these runs are too few to show a difference; {needed} of each group are \
                     enough if the groups do not overlap"
                )
            }
            FindingReason::OneOfMany { figures, needed } => write!(
                f,
                "the runs of the groups do not overlap, but one of {figures} figures may look like \
                 that by chance; {needed} runs of each group would exclude that"
            ),
        }
    }
}
