//! Why cells are missing, what the ranking of rows is based on, and the notes of an experiment.
//! Pure.

use crate::documents::comparison::ALPHA;
use cpushield_sentence::Sentence;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Why a repetition, or a row, was not measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Sentence)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "reason", rename_all = "kebab-case")]
pub enum UnmeasuredReason {
    /// not run: it needs a reboot, but --reboot was not given.
    RebootNotPermitted,
    /// the machine did not boot as requested: {mismatch}.
    DidNotComeUp {
        /// How the boot differs from the requested one.
        mismatch: BootMismatch,
    },
    /// the machine was booted {times} times for this row, but went down each time.
    WentDownAfterBoot {
        /// How often it was booted.
        times: u32,
    },
    /// the machine went down {times} times during the measurement.
    WentDownWhileMeasuring {
        /// How often.
        times: u32,
    },
    /// the measurement was killed {times} times.
    MeasurementKilled {
        /// How often.
        times: u32,
    },
    /// {why}.
    NotPossible {
        /// Why.
        why: String,
    },
    /// {why}.
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

/// How a boot differs from the requested one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Sentence)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "mismatch", rename_all = "kebab-case")]
pub enum BootMismatch {
    /// this boot lacks {parameters}.
    #[with(parameters = parameters.join(" "))]
    Absent {
        /// Which.
        parameters: Vec<String>,
    },
    /// this boot also has {parameters}.
    #[with(parameters = parameters.join(" "))]
    Added {
        /// Which.
        parameters: Vec<String>,
    },
    /// this boot has kernel {release}.
    OtherKernel {
        /// Its release.
        release: String,
    },
    /// {parameter} is not in force: the kernel shows {shows}.
    NotInForce {
        /// Which.
        parameter: String,
        /// What the kernel shows instead.
        shows: String,
    },
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Sentence)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "evidence", rename_all = "kebab-case")]
pub enum EffectEvidence {
    /// p {p:.3}.
    Tested {
        /// The probability that chance alone shows as much.
        p: f64,
    },
    /// chance may explain the difference.
    MayBeChance,
    /// {needed} {what} of each row are needed to distinguish an effect from chance.
    #[with(what = match unit {
                    ComparedUnit::Repetition => "repetitions",
                    ComparedUnit::Boot => "boots",
                })]
    TooFew {
        /// How many of each row a test needs.
        needed: usize,
        /// Of what.
        unit: ComparedUnit,
    },
    /// a measurement of {row:?} is doubtful.
    RowDoubtful {
        /// The name of its row.
        row: String,
    },
    /// repetitions of {row:?} failed, so the remaining ones may be biased.
    RowFailed {
        /// The name of the row.
        row: String,
    },
    /// the kernel refused a change to {tunable}.
    OptionRefused {
        /// The tunable.
        tunable: String,
    },
    /// the rows measure different numbers of CPUs; more CPUs have a longer worst case.
    CpuCountsDiffer,
    /// not measured.
    NotMeasured,
    /// the figures cannot be tested.
    NotTestable,
}

/// Why a row is best, or why no row is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Sentence)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "evidence", rename_all = "kebab-case")]
pub enum BestEvidence {
    /// every other row is significantly worse (p at most {p:.3}).
    OthersLonger {
        /// The largest probability that chance alone shows as much.
        p: f64,
    },
    /// no other row was measured.
    NoOtherRow,
    /// Another row may be as good.
    #[print(write_undecided(f, reasons))]
    Undecided {
        /// Why, each reason once.
        reasons: Vec<EffectEvidence>,
    },
}

fn write_undecided(f: &mut fmt::Formatter<'_>, reasons: &[EffectEvidence]) -> fmt::Result {
    let reasons: Vec<String> = reasons.iter().map(ToString::to_string).collect();
    f.write_str(&reasons.join("; "))
}

/// A remark on an experiment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Sentence)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "note", rename_all = "kebab-case")]
pub enum ExperimentNote {
    /// idle=poll keeps every CPU at full power; the LinuxCNC wiki reports longer latencies than
    /// with isolcpus= (200 µs vs 10.5 µs in LinuxCNC's latency test).
    IdlePoll,
    /// {effects} effects were tested, without a correction for multiple tests: one in {in_all:.0}
    /// looks significant by chance alone.
    #[with(in_all = 1.0 / ALPHA)]
    ManyTests {
        /// How many.
        effects: usize,
    },
}
