//! What `boot undo --json` and `boot conclude --json` print: the result with the version of its
//! format. Plain data.

use super::{SCHEMA, TrialEnd, UndoNote};
use crate::with_text;
use serde::Serialize;

/// What the removal of kernel parameters did.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RemovedParameters {
    /// The files, each with its fate.
    pub files: Vec<(String, FileFate)>,
    /// What could not be left as it was.
    #[serde(with = "with_text::TextList::<UndoNote>")]
    pub notes: Vec<UndoNote>,
}

/// What undo did with a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum FileFate {
    /// Its original bytes were restored.
    Restored,
    /// It already had its original bytes.
    AlreadySo,
    /// It did not exist before, so it was removed.
    Removed,
    /// Another program changed it since; our parameters were removed from the new text.
    WordsRemoved,
    /// Another program changed it since; the boot loader's program generated it again.
    Regenerated,
    /// Another program changed it since, so it was left alone.
    Drifted,
}

/// What `boot undo --json` prints.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UndoneParameters {
    /// The version of this format: [`SCHEMA`].
    pub schema: u32,
    /// What undo did; its fields are absent when there was nothing to undo.
    #[serde(flatten)]
    pub removed: Option<RemovedParameters>,
}

impl From<Option<RemovedParameters>> for UndoneParameters {
    fn from(removed: Option<RemovedParameters>) -> UndoneParameters {
        UndoneParameters { schema: SCHEMA, removed }
    }
}

/// What `boot conclude --json` prints.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ConcludedTrial {
    /// The version of this format: [`SCHEMA`].
    pub schema: u32,
    /// The result of the trial.
    #[serde(flatten)]
    pub end: TrialEnd,
}

impl From<TrialEnd> for ConcludedTrial {
    fn from(end: TrialEnd) -> ConcludedTrial {
        ConcludedTrial { schema: SCHEMA, end }
    }
}
