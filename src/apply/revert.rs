//! Reverts one change, if it may have changed something, and checks it again at the end of undo.

use super::journal::ApplyJournal;
use super::kind::{NOTHING, RestoringUndo, RevertedChange, ShieldChanges};
use super::kinds::kind_of;
use super::original::OriginalState;
use crate::change::{Change, Outcome};
use crate::documents::applied::{ChangeFate, StepDone};
use crate::documents::plan::{Step, StepReason};
use cpushield_linux::{Host, Result};

/// Returns what the kinds of changes may know about a journal.
#[must_use]
pub fn shield_changes(journal: &ApplyJournal) -> ShieldChanges<'_> {
    let undone_before = journal.undoing.is_some();
    let mut shield = ShieldChanges { undone_before, ..ShieldChanges::default() };
    for intent in &journal.intents {
        let change = journal.step(intent).map(|step| &step.change);
        if !journal.outcomes.contains_key(&intent.step) {
            shield.first_unfinished = shield.first_unfinished.or(change);
        }
        shield.changes.extend(change);
        shield
            .new_dirs
            .extend(change.and_then(|change| kind_of(change).made_dir(&intent.original)));
    }
    shield
}

/// Reverts one change.
///
/// # Errors
/// Only when a test stopped the host.
pub fn revert(
    host: &Host,
    shield: &ShieldChanges<'_>,
    step: &Step,
    was: &OriginalState,
    done: Option<&StepDone>,
) -> Result<RevertedChange> {
    if let Some(StepDone { outcome: Outcome::Refused { .. } | Outcome::Absent, .. }) = done {
        return Ok(NOTHING);
    }
    if is_of_other_interrupt(host, step) {
        return Ok(if done.is_some() { ChangeFate::Gone.into() } else { NOTHING });
    }
    match kind_of(&step.change).revert(host, shield, was, done) {
        Err(error) if error.is_stop() => Err(error),
        Err(error) if error.is_absent() => Ok(ChangeFate::Gone.into()),
        Err(error) => Ok(ChangeFate::Failed { reason: error.reason() }.into()),
        // A step that was not reached and has nothing to restore is not reported.
        Ok(RevertedChange { fate: Some(ChangeFate::Gone), .. }) if done.is_none() => Ok(NOTHING),
        back => back,
    }
}

/// Whether the number of an interrupt belongs to other devices now: the kernel reuses numbers. It
/// makes a directory for each name with which an interrupt is requested (`register_handler_proc()`,
/// kernel/irq/proc.c, 6.12). An interrupt that is not requested has none, and may be the same one.
fn is_of_other_interrupt(host: &Host, step: &Step) -> bool {
    let StepReason::Irq { irq, actions } = &step.reason else { return false };
    let names = host.list_directories(&format!("/proc/irq/{irq}")).unwrap_or_default();
    let known = |name: &String| actions.split(", ").any(|action| action.ends_with(name.as_str()));
    !actions.is_empty() && !names.is_empty() && !names.iter().any(known)
}

/// Checks that a restored file still has its original value, and writes it again when it does not.
///
/// # Errors
/// Only when a test stopped the host.
pub fn check_again(
    host: &Host,
    change: &Change,
    was: &OriginalState,
    done: Option<&StepDone>,
    by: RestoringUndo,
) -> Result<Option<String>> {
    match kind_of(change).restore_again(host, was, done, by) {
        Err(error) if error.is_stop() => Err(error),
        Err(error) if error.is_absent() => Ok(None),
        Err(error) => Ok(Some(error.reason())),
        wrong => wrong,
    }
}
