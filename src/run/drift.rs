//! Finds differences between what a shield left and the current state of the journal's files and
//! tasks.

use crate::apply;
use crate::apply::journal::ApplyJournal;
use crate::change::Outcome;
use crate::documents::applied::DriftedValue;
use crate::documents::shield_status::Drift;
use cpushield_linux::Host;
use std::collections::BTreeSet;

/// Finds the files, directories and tasks of an active shield that changed since apply.
pub(super) fn find_drift(host: &Host, journal: &ApplyJournal, name: &str) -> Vec<Drift> {
    let mut drift = Vec::new();
    let mut seen: BTreeSet<usize> = BTreeSet::new();
    for intent in journal.intents_of(name) {
        // Of several steps about the same thing, the last one counts that was not refused, of any
        // shield.
        let last = journal.step(intent).and_then(|step| journal.last_made_about(&step.change));
        let Some(intent) = last.filter(|last| seen.insert(last.step)) else { continue };
        let (Some(step), Some(done)) = (journal.step(intent), journal.outcomes.get(&intent.step))
        else {
            continue;
        };
        if !matches!(done.outcome, Outcome::Changed | Outcome::AlreadySo) {
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
