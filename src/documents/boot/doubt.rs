//! The reasons against a trial, and why a trial ended as it did. Pure.

use super::TrialGoal;
use crate::with_text;
use cpushield_linux::CpuSet;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A reason against making the parameters of a trial permanent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "doubt", rename_all = "kebab-case")]
pub enum TrialDoubt {
    /// The boot does not have a parameter.
    NotBooted {
        /// The parameter.
        word: String,
    },
    /// A parameter is not in force.
    NotInForce {
        /// The parameter.
        word: String,
        /// What the kernel shows.
        shows: String,
    },
    /// The kernel reported that it does not accept a parameter as written.
    Refused {
        /// The parameter's name.
        parameter: String,
        /// The kernel's message.
        message: String,
    },
    /// A unit failed that had not failed before the trial.
    UnitFailed {
        /// The unit.
        unit: String,
    },
    /// No user could reach the machine in time, so a unit reboots it into the old entry.
    NotReached {
        /// What did not come up.
        goal: TrialGoal,
        /// Seconds after the start of the kernel.
        within_s: u64,
    },
    /// The active shield has other CPUs than the trial.
    OtherShield {
        /// CPUs that the trial shields.
        proves: CpuSet,
        /// CPUs that are shielded.
        shielded: CpuSet,
    },
    /// The active shield is incomplete.
    ShieldIncomplete {
        /// What was not finished.
        unfinished: String,
    },
    /// The shield could not be watched.
    NotWatched {
        /// The error.
        why: String,
    },
    /// `verify` does not let an active shield pass.
    VerifyFails {
        /// The name of the shield.
        shield: String,
    },
    /// The shield does not hold.
    ShieldLeaks {
        /// The summary of the verdict, and its leaks.
        verdict: String,
    },
    /// The parameters cannot be made permanent.
    CannotStay {
        /// The error.
        why: String,
    },
}

impl TrialDoubt {
    /// How to avoid it in another trial, where that is known.
    #[must_use]
    pub fn advice(&self) -> Option<&'static str> {
        match self {
            TrialDoubt::OtherShield { .. } => Some(
                "before the next trial, run `cpushield disable`, or `cpushield enable` with these \
                 CPUs",
            ),
            _ => None,
        }
    }
}

impl fmt::Display for TrialDoubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let advice = self.advice().unwrap_or_default();
        match self {
            TrialDoubt::NotBooted { word } => {
                write!(f, "the kernel was not booted with {word}")
            }
            TrialDoubt::NotInForce { word, shows } => {
                write!(f, "{word} is not in force: the kernel shows {shows}")
            }
            TrialDoubt::Refused { parameter, message } => {
                write!(f, "the kernel reported about {parameter}: {message}")
            }
            TrialDoubt::UnitFailed { unit } => {
                write!(f, "{unit} failed, but did not fail before the trial")
            }
            TrialDoubt::NotReached { goal, within_s } => {
                write!(f, "{goal} did not become available within {within_s} s")
            }
            TrialDoubt::OtherShield { proves, shielded } => {
                let missing = proves.difference(shielded);
                write!(
                    f,
                    "the active shield has CPU {shielded} but not CPU {missing}, so no shield on \
                     CPU {proves} was verified ({advice})"
                )
            }
            TrialDoubt::ShieldIncomplete { unfinished } => {
                write!(f, "the active shield is incomplete: {unfinished}")
            }
            TrialDoubt::NotWatched { why } => write!(f, "the shield could not be watched: {why}"),
            TrialDoubt::VerifyFails { shield } => write!(
                f,
                "shield {shield} does not hold; `cpushield verify --shield {shield}` reports why"
            ),
            TrialDoubt::ShieldLeaks { verdict } => f.write_str(verdict),
            TrialDoubt::CannotStay { why } => {
                write!(f, "the parameters cannot be made permanent: {why}")
            }
        }
    }
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
