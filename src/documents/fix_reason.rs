//! Why `verify --fix` leaves an interruption or a missing change. Pure data.

use crate::documents::evidence::RemedyObstacle;
use cpushield_sentence::Sentence;
use serde::{Deserialize, Serialize};

/// Why an interruption remains.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Sentence)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "remains", rename_all = "kebab-case")]
pub enum RemainReason {
    /// no known tunable removes it.
    NoTunable,
    /// It cannot be removed on this machine.
    #[delegate]
    Obstacle {
        /// Why.
        #[serde(with = "crate::with_text::WithText::<RemedyObstacle>")]
        obstacle: RemedyObstacle,
    },
    /// only a boot parameter removes it: {parameter}.
    OnlyAtBoot {
        /// The parameter.
        parameter: String,
    },
    /// {tunable}: {subject}: {why}.
    ChangeMissing {
        /// The tunable.
        tunable: String,
        /// The object of the change.
        subject: String,
        /// Why the change was not made.
        #[serde(with = "crate::with_text::WithText::<MissingChangeReason>")]
        why: MissingChangeReason,
    },
    /// {tunable} was applied, but the interruption is still there.
    NotRemoved {
        /// The tunable.
        tunable: String,
    },
    /// {tunable} is off by default: {how}.
    OffByDefault {
        /// The tunable.
        tunable: String,
        /// The command or the change.
        how: String,
    },
}

/// Why a change is missing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Sentence)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "missing", rename_all = "kebab-case")]
pub enum MissingChangeReason {
    /// the kernel refuses: {answer}.
    #[with(answer = answer.as_deref().unwrap_or("no reason given"))]
    Refused {
        /// The kernel's error; `None` without one.
        answer: Option<String>,
    },
    /// it does not exist.
    Absent,
    /// cpushield changed it, but another process has changed it since.
    ChangedSince,
    /// the change would move {comm} ({tid}), which is in the shield; end that program, then run
    /// `verify --fix` again.
    MovesProgram {
        /// The name of the program.
        comm: String,
        /// Its thread ID.
        tid: i32,
    },
}
