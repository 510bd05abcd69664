//! [`Drift`]: differences between what a shield left and the current state of the journal's files
//! and tasks.

use crate::apply::journal::ApplyJournal;
use crate::apply::{self, DriftedValue};
use crate::change::Outcome;
use cpushield_linux::Host;
use serde::{Deserialize, Serialize};

/// A setting that changed since apply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drift {
    /// The file or the task.
    pub what: String,
    /// The value that apply left.
    pub left: String,
    /// The current value; `None` when it is gone.
    pub now: Option<String>,
    /// The tunable that wanted it.
    pub tunable: String,
}

/// Finds the files, directories and tasks of the journal that changed since apply.
pub(super) fn find_drift(host: &Host, journal: &ApplyJournal) -> Vec<Drift> {
    let mut drift = Vec::new();
    for intent in &journal.intents {
        let (Some(step), Some(done)) = (journal.step(intent), journal.outcomes.get(&intent.step))
        else {
            continue;
        };
        // Of several steps about the same thing, the last one counts.
        let last = journal.last_about(&step.change).is_none_or(|last| last == intent);
        if !last || !matches!(done.outcome, Outcome::Changed | Outcome::AlreadySo) {
            continue;
        }
        let drifted = apply::find_drift(host, &step.change, done.left.as_deref());
        drift.extend(drifted.map(|DriftedValue { left, now }| Drift {
            what: step.change.subject(),
            left,
            now,
            tunable: step.tunable.clone(),
        }));
    }
    drift
}
