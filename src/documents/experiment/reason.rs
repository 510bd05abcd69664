//! Why cells are missing, what the ranking of rows is based on, and the notes of an experiment.
//! Pure.

use crate::documents::comparison::ALPHA;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Why a repetition, or a row, was not measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "reason", rename_all = "kebab-case")]
pub enum UnmeasuredReason {
    /// The row needs a reboot, which was not permitted.
    RebootNotPermitted,
    /// The boot with its kernel parameters did not come up.
    DidNotComeUp {
        /// How the boot differs from the requested one.
        mismatch: BootMismatch,
    },
    /// The machine went down again after it had booted for this row.
    WentDownAfterBoot {
        /// How often it was booted.
        times: u32,
    },
    /// The machine went down during the measurement.
    WentDownWhileMeasuring {
        /// How often.
        times: u32,
    },
    /// The measurement was killed.
    MeasurementKilled {
        /// How often.
        times: u32,
    },
    /// It is not possible on this machine.
    NotPossible {
        /// Why.
        why: String,
    },
    /// The saved measurement cannot be read.
    MeasurementUnreadable {
        /// Why, with the file.
        why: String,
    },
}

impl UnmeasuredReason {
    /// Whether the row was tried and failed, so that the row itself may be the reason.
    #[must_use]
    pub fn is_failure(&self) -> bool {
        match self {
            UnmeasuredReason::DidNotComeUp { .. }
            | UnmeasuredReason::WentDownAfterBoot { .. }
            | UnmeasuredReason::WentDownWhileMeasuring { .. }
            | UnmeasuredReason::MeasurementKilled { .. } => true,
            UnmeasuredReason::RebootNotPermitted
            | UnmeasuredReason::NotPossible { .. }
            | UnmeasuredReason::MeasurementUnreadable { .. } => false,
        }
    }
}

impl fmt::Display for UnmeasuredReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UnmeasuredReason::RebootNotPermitted => {
                f.write_str("not run: it needs a reboot, but --reboot was not given")
            }
            UnmeasuredReason::DidNotComeUp { mismatch } => {
                write!(f, "the machine did not boot as requested: {mismatch}")
            }
            UnmeasuredReason::WentDownAfterBoot { times } => {
                write!(
                    f,
                    "the machine was booted {times} times for this row, but went down each time"
                )
            }
            UnmeasuredReason::WentDownWhileMeasuring { times } => {
                write!(f, "the machine went down {times} times during the measurement")
            }
            UnmeasuredReason::MeasurementKilled { times } => {
                write!(f, "the measurement was killed {times} times")
            }
            UnmeasuredReason::NotPossible { why }
            | UnmeasuredReason::MeasurementUnreadable { why } => f.write_str(why),
        }
    }
}

/// How a boot differs from the requested one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "mismatch", rename_all = "kebab-case")]
pub enum BootMismatch {
    /// Kernel parameters are absent.
    Absent {
        /// Which.
        parameters: Vec<String>,
    },
    /// There are other kernel parameters.
    Added {
        /// Which.
        parameters: Vec<String>,
    },
    /// It is another kernel.
    OtherKernel {
        /// Its release.
        release: String,
    },
    /// The kernel does not use a parameter.
    NotInForce {
        /// Which.
        parameter: String,
        /// What the kernel shows instead.
        shows: String,
    },
}

impl fmt::Display for BootMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BootMismatch::Absent { parameters } => {
                write!(f, "this boot lacks {}", parameters.join(" "))
            }
            BootMismatch::Added { parameters } => {
                write!(f, "this boot also has {}", parameters.join(" "))
            }
            BootMismatch::OtherKernel { release } => {
                write!(f, "this boot has kernel {release}")
            }
            BootMismatch::NotInForce { parameter, shows } => {
                write!(f, "{parameter} is not in force: the kernel shows {shows}")
            }
        }
    }
}

/// What is compared: single repetitions, or the worst of each boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ComparedUnit {
    /// Each repetition.
    Repetition,
    /// The worst repetition of each boot.
    Boot,
}

/// What a statement about two rows is based on, or why there is none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "evidence", rename_all = "kebab-case")]
pub enum EffectEvidence {
    /// A rank test.
    Tested {
        /// The probability that chance alone shows as much.
        p: f64,
    },
    /// The test does not exclude chance.
    MayBeChance,
    /// There are too few for a test.
    TooFew {
        /// How many of each row a test needs.
        needed: usize,
        /// Of what.
        unit: ComparedUnit,
    },
    /// A measurement is doubtful.
    RowDoubtful {
        /// The name of its row.
        row: String,
    },
    /// Repetitions of a row failed.
    RowFailed {
        /// The name of the row.
        row: String,
    },
    /// The kernel refused the changes of the option.
    OptionRefused {
        /// The tunable.
        tunable: String,
    },
    /// The rows measure different numbers of CPUs: more CPUs have a longer worst case.
    CpuCountsDiffer,
    /// A row was not measured.
    NotMeasured,
    /// The figures cannot be tested.
    NotTestable,
}

impl fmt::Display for EffectEvidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EffectEvidence::Tested { p } => write!(f, "p {p:.3}"),
            EffectEvidence::MayBeChance => f.write_str("chance may explain the difference"),
            EffectEvidence::TooFew { needed, unit } => {
                let what = match unit {
                    ComparedUnit::Repetition => "repetitions",
                    ComparedUnit::Boot => "boots",
                };
                write!(
                    f,
                    "{needed} {what} of each row are needed to distinguish an effect from chance"
                )
            }
            EffectEvidence::RowDoubtful { row } => {
                write!(f, "a measurement of {row:?} is doubtful")
            }
            EffectEvidence::RowFailed { row } => {
                write!(f, "repetitions of {row:?} failed, so the remaining ones may be biased")
            }
            EffectEvidence::OptionRefused { tunable } => {
                write!(f, "the kernel refused a change to {tunable}")
            }
            EffectEvidence::CpuCountsDiffer => f.write_str(
                "the rows measure different numbers of CPUs; more CPUs have a longer worst case",
            ),
            EffectEvidence::NotMeasured => f.write_str("not measured"),
            EffectEvidence::NotTestable => f.write_str("the figures cannot be tested"),
        }
    }
}

/// Why a row is best, or why no row is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "evidence", rename_all = "kebab-case")]
pub enum BestEvidence {
    /// Every other row is significantly longer.
    OthersLonger {
        /// The largest probability that chance alone shows as much.
        p: f64,
    },
    /// There is no other row to compare with.
    NoOtherRow,
    /// Another row may be as good.
    Undecided {
        /// Why, each reason once.
        reasons: Vec<EffectEvidence>,
    },
}

impl fmt::Display for BestEvidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BestEvidence::OthersLonger { p } => {
                write!(f, "every other row is significantly worse (p at most {p:.3})")
            }
            BestEvidence::NoOtherRow => f.write_str("no other row was measured"),
            BestEvidence::Undecided { reasons } => {
                let reasons: Vec<String> = reasons.iter().map(ToString::to_string).collect();
                f.write_str(&reasons.join("; "))
            }
        }
    }
}

/// A remark on an experiment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "note", rename_all = "kebab-case")]
pub enum ExperimentNote {
    /// A row boots with `idle=poll`.
    IdlePoll,
    /// Several effects were tested, without an adjustment of `p`.
    ManyTests {
        /// How many.
        effects: usize,
    },
}

impl fmt::Display for ExperimentNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // The LinuxCNC wiki, "The Isolcpus Boot Parameter And GRUB2", section 4.2.
            ExperimentNote::IdlePoll => f.write_str(
                "idle=poll keeps every CPU at full power; the LinuxCNC wiki reports longer \
                 latencies than with isolcpus= (200 µs vs 10.5 µs in LinuxCNC's latency test)",
            ),
            ExperimentNote::ManyTests { effects } => write!(
                f,
                "{effects} effects were tested, without a correction for multiple tests: one in \
                 {:.0} looks significant by chance alone",
                1.0 / ALPHA
            ),
        }
    }
}
