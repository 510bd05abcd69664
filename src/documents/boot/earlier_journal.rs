//! What an apply or a trial is written over: the journal of an earlier apply.

use super::{BootJournal, SavedFile};
use serde::{Deserialize, Serialize};

/// The journal of an earlier apply, until the later one is complete.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EarlierJournal {
    /// Its files that were undone, each with the text that it left; empty while its words are in
    /// the boot files, under those of a trial.
    pub removed: Vec<SavedFile>,
    /// The journal, as it is again when the later apply fails.
    pub journal: Box<BootJournal>,
}

impl BootJournal {
    /// Whether this is a trial over the words of an earlier apply, which are still there.
    #[must_use]
    pub fn is_layer(&self) -> bool {
        self.earlier.is_some() && self.removed().is_empty()
    }

    /// The files of the earlier apply that were undone.
    #[must_use]
    pub fn removed(&self) -> &[SavedFile] {
        self.earlier.as_ref().map_or(&[], |earlier| &earlier.removed)
    }
}
