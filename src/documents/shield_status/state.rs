//! [`ShieldState`]: whether a shield is in force, as a tag and as a sentence.

use super::{ShieldWork, UnfinishedWork};
use cpushield_linux::CpuSet;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The state of a shield, by the journal and by the machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "tag", rename_all = "kebab-case")]
pub enum ShieldState {
    /// No shield was made in this boot.
    NoShield,
    /// Nothing changed since apply, and no foreign task is on its CPUs.
    InForce,
    /// It is in force, as far as a user other than root can check. Changes of settings are unknown.
    InForceAsSeen,
    /// It is in force, but something changed since apply.
    Drifted {
        /// Settings that changed since apply.
        settings: usize,
        /// Foreign tasks on its CPUs.
        foreign: usize,
    },
    /// Some of its CPUs are offline, although the shield has not taken them offline. The list of
    /// changed settings says what else has changed.
    Offline {
        /// These CPUs.
        cpus: CpuSet,
    },
    /// Its cgroup, which keeps other programs out, is gone.
    GroupGone {
        /// The directory.
        path: String,
    },
    /// It is incomplete.
    Part(UnfinishedWork),
    /// The journal cannot be read.
    Unknown {
        /// Why.
        reason: String,
    },
}

impl ShieldState {
    /// Whether the shield is in force and nothing speaks against it.
    #[must_use]
    pub fn is_active(&self) -> bool {
        matches!(self, ShieldState::InForce | ShieldState::InForceAsSeen)
    }
}

impl fmt::Display for ShieldState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ShieldState::NoShield => f.write_str("no shield is active"),
            ShieldState::InForce => f.write_str("active, unchanged"),
            ShieldState::InForceAsSeen => f.write_str("active, as far as this user can check"),
            ShieldState::Drifted { settings, foreign } => {
                f.write_str("active, but ")?;
                match settings {
                    0 => {}
                    1 => f.write_str("1 setting has changed since the shield was applied")?,
                    n => write!(f, "{n} settings have changed since the shield was applied")?,
                }
                if *settings > 0 && *foreign > 0 {
                    f.write_str(", and ")?;
                }
                match foreign {
                    0 => Ok(()),
                    1 => f.write_str("1 foreign task is on its CPUs"),
                    n => write!(f, "{n} foreign tasks are on its CPUs"),
                }
            }
            ShieldState::Offline { cpus } => write!(f, "active, but CPU {cpus} is offline"),
            ShieldState::GroupGone { path } => {
                write!(f, "not active: its cgroup {path} is gone")
            }
            ShieldState::Part(UnfinishedWork::UnderWay { work, pid }) => {
                let word = match work {
                    ShieldWork::Apply => "applied",
                    ShieldWork::Undo => "undone",
                    ShieldWork::Change => "changed",
                };
                match pid {
                    Some(pid) => write!(f, "being {word} by process {pid}"),
                    None => write!(f, "being {word} by another process"),
                }
            }
            ShieldState::Part(unfinished) => {
                write!(f, "not active: {unfinished}; {}", unfinished.advice())
            }
            ShieldState::Unknown { reason } => write!(f, "unknown: {reason}"),
        }
    }
}

/// A state with its description.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StateReport {
    /// The state.
    #[serde(flatten)]
    pub state: ShieldState,
    /// The state as a sentence.
    pub sentence: String,
}

impl From<ShieldState> for StateReport {
    fn from(state: ShieldState) -> StateReport {
        StateReport { sentence: state.to_string(), state }
    }
}
