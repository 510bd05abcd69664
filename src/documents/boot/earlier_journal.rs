//! What a trial is written over: the journal of an earlier apply whose words stay during the trial.

use super::BootJournal;
use serde::{Deserialize, Serialize};

/// The journal of an earlier apply, while a trial of other words is under way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EarlierJournal {
    /// Whether its words are still in the boot files.
    pub state: EarlierState,
    /// The journal, as it is again when the trial fails.
    pub journal: Box<BootJournal>,
}

/// What happened to the words of an earlier apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EarlierState {
    /// They stay, and the trial has entries of its own. The originals of the trial's journal have
    /// them.
    Kept,
    /// The trial passed, and its words are replacing them. The originals of the trial's journal are
    /// the texts before the first change.
    Replaced,
}
