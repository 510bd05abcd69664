//! How and when a program ended.

use cpushield_sentence::Sentence;
use serde::{Deserialize, Serialize};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

/// How a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Sentence)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "end", rename_all = "kebab-case")]
pub enum ProgramEnd {
    /// exit status: {status}.
    Exited {
        /// Its exit status.
        status: i32,
    },
    /// signal: {signal}.
    Killed {
        /// The number of the signal.
        signal: i32,
    },
}

impl From<ExitStatus> for ProgramEnd {
    fn from(status: ExitStatus) -> ProgramEnd {
        match (status.code(), status.signal()) {
            (Some(status), _) => ProgramEnd::Exited { status },
            (None, signal) => ProgramEnd::Killed { signal: signal.unwrap_or(0) },
        }
    }
}

/// A program that ended by itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WorkloadEnd {
    /// How it ended.
    #[serde(with = "crate::with_text")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::with_text::WithText<ProgramEnd>"))]
    pub how: ProgramEnd,
    /// When the end was noticed, in nanoseconds since the start of the span; 0 when it ended
    /// before.
    pub after_ns: u64,
}
