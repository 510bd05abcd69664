//! Why `verify --fix` leaves an interruption or a missing change. Pure data.

use crate::documents::evidence::RemedyObstacle;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Why an interruption remains.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "remains", rename_all = "kebab-case")]
pub enum RemainReason {
    /// No known tunable removes it.
    NoTunable,
    /// It cannot be removed on this machine.
    Obstacle {
        /// Why.
        #[serde(with = "crate::with_text::WithText::<RemedyObstacle>")]
        obstacle: RemedyObstacle,
    },
    /// Only a boot parameter removes it.
    OnlyAtBoot {
        /// The parameter.
        parameter: String,
    },
    /// A change of its tunable is missing.
    ChangeMissing {
        /// The tunable.
        tunable: String,
        /// The object of the change.
        subject: String,
        /// Why the change was not made.
        #[serde(with = "crate::with_text::WithText::<MissingChangeReason>")]
        why: MissingChangeReason,
    },
    /// The change was made and did not remove it.
    NotRemoved {
        /// The tunable.
        tunable: String,
    },
    /// The tunable is used only on request.
    OffByDefault {
        /// The tunable.
        tunable: String,
        /// The command or the change.
        how: String,
    },
}

impl fmt::Display for RemainReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RemainReason::NoTunable => f.write_str("no known tunable removes it"),
            RemainReason::Obstacle { obstacle } => obstacle.fmt(f),
            RemainReason::OnlyAtBoot { parameter } => {
                write!(f, "only a boot parameter removes it: {parameter}")
            }
            RemainReason::ChangeMissing { tunable, subject, why } => {
                write!(f, "{tunable}: {subject}: {why}")
            }
            RemainReason::NotRemoved { tunable } => {
                write!(f, "{tunable} was applied, but the interruption is still there")
            }
            RemainReason::OffByDefault { tunable, how } => {
                write!(f, "{tunable} is off by default: {how}")
            }
        }
    }
}

/// Why a change is missing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "missing", rename_all = "kebab-case")]
pub enum MissingChangeReason {
    /// The kernel refuses it.
    Refused {
        /// The kernel's error; `None` without one.
        answer: Option<String>,
    },
    /// Its object does not exist.
    Absent,
    /// Another process changed the setting afterwards.
    ChangedSince,
    /// It would move a program that is in the shield.
    MovesProgram {
        /// The name of the program.
        comm: String,
        /// Its thread ID.
        tid: i32,
    },
}

impl fmt::Display for MissingChangeReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MissingChangeReason::Refused { answer } => {
                write!(f, "the kernel refuses: {}", answer.as_deref().unwrap_or("no reason given"))
            }
            MissingChangeReason::Absent => f.write_str("it does not exist"),
            MissingChangeReason::ChangedSince => {
                f.write_str("cpushield changed it, but another process has changed it since")
            }
            MissingChangeReason::MovesProgram { comm, tid } => write!(
                f,
                "the change would move {comm} ({tid}), which is in the shield; end that program, \
                 then run `verify --fix` again"
            ),
        }
    }
}
