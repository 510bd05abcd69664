//! [`UnfinishedWork`]: why a shield is neither in force nor gone. Plain data.

use cpushield_sentence::Sentence;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A kind of work on a shield.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Sentence)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ShieldWork {
    /// an apply.
    Apply,
    /// an undo.
    Undo,
    /// a change to the shield.
    Change,
}

/// Why a shield is neither in force nor gone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Sentence)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "unfinished", rename_all = "kebab-case")]
pub enum UnfinishedWork {
    /// A process is working on it.
    #[print(write_under_way(f, work, pid))]
    UnderWay {
        /// The work of the process.
        work: ShieldWork,
        /// The process; `None` where its number is not known.
        pid: Option<i32>,
    },
    /// {work} was interrupted.
    Interrupted {
        /// The work of the process.
        work: ShieldWork,
    },
}

impl UnfinishedWork {
    /// What to do next.
    #[must_use]
    pub fn advice(&self) -> &'static str {
        match self {
            UnfinishedWork::UnderWay { .. } => "wait until it has ended",
            UnfinishedWork::Interrupted { work: ShieldWork::Undo } => {
                "`cpushield undo` completes it"
            }
            UnfinishedWork::Interrupted { .. } => "`cpushield undo` reverts its changes",
        }
    }
}

fn write_under_way(
    f: &mut fmt::Formatter<'_>,
    work: &ShieldWork,
    pid: &Option<i32>,
) -> fmt::Result {
    match pid {
        Some(pid) => {
            write!(f, "{work} by process {pid} is under way")
        }
        None => {
            write!(f, "{work} by another process is under way")
        }
    }
}
