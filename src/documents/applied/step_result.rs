//! What apply and undo did with one step, as the journal stores it: [`StepDone`], [`ChangeFate`].

use super::step_note::StepNote;
use crate::change::{Outcome, Refusal};
use serde::{Deserialize, Serialize};

/// The result of one step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct StepDone {
    /// The index of the step in the plan.
    pub step: usize,
    /// Its outcome.
    pub outcome: Outcome,
    /// The value that was read back; `None` where there is none.
    pub left: Option<String>,
    /// A note, for example about a fallback.
    #[serde(with = "crate::with_text::option")]
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Option<crate::with_text::WithText<StepNote>>")
    )]
    pub note: Option<StepNote>,
    /// Tasks that were moved.
    pub moved: Option<MovedTasks>,
    /// Files that the step changed as a side effect and could not restore. Undo tries again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unrestored: Vec<String>,
}

impl StepDone {
    /// Whether an error came after the change was requested, so that it may also be made later.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        matches!(
            self.note,
            Some(
                StepNote::ResultUnknown { .. }
                    | StepNote::OriginalLost { .. }
                    | StepNote::SliceRemains { .. }
            )
        )
    }
}

/// How many tasks were moved, and why some stayed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct MovedTasks {
    /// Tasks moved.
    pub moved: usize,
    /// Tasks that stayed, by the kernel's answer.
    pub stayed: Vec<StayedTasks>,
}

/// Tasks that could not be moved for one reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct StayedTasks {
    /// The kernel's answer.
    pub refusal: Refusal,
    /// Their number.
    pub tasks: usize,
}

/// The fate of a change in an undo.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "fate", rename_all = "kebab-case", deny_unknown_fields)]
pub enum ChangeFate {
    /// The original was restored.
    Restored,
    /// Another process changed the value, so it was left alone.
    Drifted {
        /// The current value.
        now: String,
        /// The value that apply left.
        ours: String,
        /// The original value.
        original: String,
    },
    /// The file, directory or task is gone, or the machine was rebooted.
    Gone,
    /// It could not be restored.
    Failed {
        /// Why.
        reason: String,
    },
}
