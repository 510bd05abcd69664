//! The reasons against a trial, and why a trial ended as it did. Pure.

use super::TrialGoal;
use crate::with_text;
use cpushield_linux::CpuSet;
use cpushield_sentence::Sentence;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A reason against making the parameters of a trial permanent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Sentence)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "doubt", rename_all = "kebab-case")]
pub enum TrialDoubt {
    /// the kernel was not booted with {word}.
    NotBooted {
        /// The parameter.
        word: String,
    },
    /// {word} is not in force: the kernel shows {shows}.
    NotInForce {
        /// The parameter.
        word: String,
        /// What the kernel shows.
        shows: String,
    },
    /// the kernel reported about {parameter}: {message}.
    Refused {
        /// The parameter's name.
        parameter: String,
        /// The kernel's message.
        message: String,
    },
    /// {unit} failed, but did not fail before the trial.
    UnitFailed {
        /// The unit.
        unit: String,
    },
    /// {goal} did not become available within {within_s} s.
    NotReached {
        /// What did not come up.
        goal: TrialGoal,
        /// Seconds after the start of the kernel.
        within_s: u64,
    },
    /// the active shield has CPU {shielded} but not CPU {missing}, so no shield on CPU {proves} was
    /// verified (before the next trial, run `cpushield disable`, or `cpushield enable` with these
    /// CPUs).
    #[with(missing = proves.difference(shielded))]
    OtherShield {
        /// CPUs that the trial shields.
        proves: CpuSet,
        /// CPUs that are shielded.
        shielded: CpuSet,
    },
    /// the active shield is incomplete: {unfinished}.
    ShieldIncomplete {
        /// What was not finished.
        unfinished: String,
    },
    /// the shield could not be watched: {why}.
    NotWatched {
        /// The error.
        why: String,
    },
    /// shield {shield} does not hold; `cpushield verify --shield {shield}` reports why.
    VerifyFails {
        /// The name of the shield.
        shield: String,
    },
    /// {verdict}.
    ShieldLeaks {
        /// The summary of the verdict, and its leaks.
        verdict: String,
    },
    /// the parameters cannot be made permanent: {why}.
    CannotStay {
        /// The error.
        why: String,
    },
}

/// Why a trial ended as it did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "reason", rename_all = "kebab-case")]
pub enum TrialReason {
    /// The parameters are in force, and the shield holds.
    Holds {
        /// CPUs that were shielded and watched; empty when none were.
        proves: CpuSet,
    },
    /// It booted and passed, but the parameters cannot be made permanent.
    CannotStay {
        /// Why.
        #[serde(with = "with_text::TextList::<TrialDoubt>")]
        doubts: Vec<TrialDoubt>,
    },
    /// It booted, and the shield does not hold.
    Failed {
        /// What speaks against it.
        #[serde(with = "with_text::TextList::<TrialDoubt>")]
        doubts: Vec<TrialDoubt>,
    },
    /// It did not boot, its parameters are not in force, or units failed.
    NotAsWanted {
        /// What speaks against it.
        #[serde(with = "with_text::TextList::<TrialDoubt>")]
        doubts: Vec<TrialDoubt>,
    },
}

impl fmt::Display for TrialReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, doubts) = match self {
            TrialReason::Holds { proves } if proves.is_empty() => {
                return f.write_str("the parameters are in force");
            }
            TrialReason::Holds { proves } => {
                return write!(
                    f,
                    "the parameters are in force, and a shield on CPU {proves} holds"
                );
            }
            TrialReason::CannotStay { doubts } => {
                ("the trial booted and passed, but was not kept", doubts)
            }
            TrialReason::Failed { doubts } => ("the trial booted, but failed", doubts),
            TrialReason::NotAsWanted { doubts } => ("the trial failed", doubts),
        };
        let doubts: Vec<String> = doubts.iter().map(ToString::to_string).collect();
        write!(f, "{what}: {}", doubts.join("; "))
    }
}
