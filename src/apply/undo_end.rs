//! What becomes of the journal at the end of an undo: it is archived, or replaced with one of the
//! shields that stay, or kept for another undo.

use super::affinities;
use super::error::UndoError;
use super::journal::{self, ApplyJournal, JOURNAL, UndoDecision};
use super::task_masks::TaskMasks;
use super::undo_log::{FORGOTTEN, archive_or_remove, forget};
use super::undo_scope::UndoScope;
use crate::documents::applied::{ShieldNote, StepDone, UndoneShield, UnrestoredChanges};
use cpushield_linux::{CpuSet, Error, Host, Store, TaskId};

/// An undo that has reverted what it could.
pub(super) struct UndoEnd<'a> {
    pub(super) host: &'a Host,
    pub(super) store: &'a Store,
    pub(super) journal: Box<ApplyJournal>,
    pub(super) scope: &'a UndoScope,
    pub(super) undoing: &'a UndoDecision,
    /// The affinities at the start of undo.
    pub(super) before: &'a TaskMasks,
}

impl UndoEnd<'_> {
    /// Archives, replaces or keeps the journal. A failure is a note of `undone`: what was restored
    /// must be reported. `replaced` are the steps of other shields that were changed.
    ///
    /// # Errors
    /// Only when a test stopped the host.
    pub(super) fn settle_journal(
        mut self,
        unrestored: UnrestoredChanges,
        replaced: Vec<StepDone>,
        undone: &mut UndoneShield,
    ) -> Result<(), UndoError> {
        let store = self.store;
        match (undone.is_complete(), unrestored, self.scope.others.is_empty()) {
            (false, UnrestoredChanges::Keep, _) => undone.journal = Some(store.path(JOURNAL)),
            (false, UnrestoredChanges::Forget, true) => match forget(store) {
                Ok(kept) => undone.journal = kept,
                Err(error) => note_journal_stays(error, store, undone)?,
            },
            (true, _, true) => {
                archive_or_remove(store, self.journal.header.boot_id.as_deref(), undone);
            }
            (is_complete, _, false) => {
                if !is_complete {
                    // Without the copy, nothing would name what was not restored.
                    match store.archive_copy(JOURNAL, FORGOTTEN, "jsonl") {
                        Ok(copy) => undone.journal = Some(copy),
                        Err(error) => return note_journal_stays(error, store, undone),
                    }
                }
                self.journal.outcomes.extend(replaced.into_iter().map(|done| (done.step, done)));
                if let Err(error) = self.keep_others() {
                    note_journal_stays(error, store, undone)?;
                }
            }
        }
        Ok(())
    }

    /// Replaces the journal with one of the shields that stay. A mask that undo decided is ours,
    /// even if a killed undo had set it.
    fn keep_others(&self) -> Result<(), Error> {
        let UndoEnd { host, store, journal, scope, undoing, before } = self;
        let now = affinities::current_masks(host, journal)?;
        let decided = |id: &TaskId, mask: &CpuSet| undoing.masks.0.get(id) == Some(mask);
        let ours = now.0.clone().into_iter().filter(|(id, mask)| decided(id, mask));
        let mut masks = affinities::masks_after_amendment(journal, before, now.clone());
        masks.0.extend(ours);
        let bytes = journal.without_shield(&scope.shield.name, &masks)?;
        store.replace_and_reserve(JOURNAL, &bytes, journal::room_for(bytes.len()))
    }
}

/// Notes that the journal could not be archived or rewritten. Until another undo does, it names the
/// shield, without a change of it.
fn note_journal_stays(
    error: Error,
    store: &Store,
    undone: &mut UndoneShield,
) -> Result<(), UndoError> {
    if error.is_stop() {
        return Err(error.into());
    }
    undone.notes.push(ShieldNote::JournalStays { answer: error.reason() });
    undone.journal = Some(store.path(JOURNAL));
    Ok(())
}
