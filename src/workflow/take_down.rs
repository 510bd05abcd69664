//! Takes shields down, with everything that cpushield left in them.

use super::WorkContext;
use super::shield_options::policy_shields;
use crate::apply::{self, UndoError};
use crate::documents::applied::{ChangeFate, ShieldNote, UndoneShield, UnrestoredChanges};
use crate::documents::count_text::many;
use crate::documents::plan::{Disturbance, MachineWideEffect, Shield};
use crate::failure::{Failure, FailureKind};
use crate::latency::TracerRecovery;
use crate::run::ReleasedPrograms;
use crate::{latency, run, tunables};
use cpushield_linux::{sys::sched, trace::tracefs};
use std::collections::BTreeSet;

/// Takes all shields down, the last one first. Stops at one that cannot be restored completely,
/// unless such changes are forgotten.
///
/// # Errors
/// The journal cannot be used.
pub fn take_all_down(
    work: &WorkContext<'_>,
    unrestored: UnrestoredChanges,
) -> Result<Vec<UndoneShield>, Failure> {
    let mut undone = Vec::new();
    let mut last = None;
    while let Some(name) = apply::next_to_undo(&work.host, &work.store)? {
        // The journal still names one that could not be restored.
        if last.as_ref() == Some(&name) {
            break;
        }
        undone.push(take_down_named(work, Some(&name), unrestored)?);
        last = Some(name);
    }
    if undone.is_empty() {
        // There may be a journal of another boot.
        undone.push(take_down_named(work, None, unrestored)?);
    }
    note_interruptions(work, &mut undone);
    Ok(undone)
}

/// Adds notes about the shields that the restored settings interrupted: those that are active after
/// all of this.
fn note_interruptions(work: &WorkContext<'_>, undone: &mut [UndoneShield]) {
    // The undo is over, so what cannot be read does not make it fail.
    let plans = apply::active_plans(&work.host, &work.store).unwrap_or_default();
    for undone in undone {
        let name = undone.shield.as_ref().map(|shield| shield.name.as_str());
        let others = plans.iter().map(|plan| &plan.shield);
        let others: Vec<Shield> =
            others.filter(|shield| Some(shield.name.as_str()) != name).cloned().collect();
        if others.is_empty() {
            continue;
        }
        let restored = undone.steps.iter().filter(|step| step.fate == ChangeFate::Restored);
        let restored: BTreeSet<&str> = restored.map(|step| step.tunable.as_str()).collect();
        let notes = restored.into_iter().filter_map(|tunable| {
            let effect = tunables::named(tunable)?.disturbs_when_undone?;
            let is_mask = effect == MachineWideEffect::QueuesWorkWhereWatched;
            let has_it = |shield: &&Shield| {
                let plan = plans.iter().find(|plan| plan.shield.name == shield.name);
                is_mask && plan.is_some_and(|plan| plan.has(tunable))
            };
            let disturbed: Vec<Shield> =
                others.iter().filter(|shield| !has_it(shield)).cloned().collect();
            let disturbance = Disturbance::new(effect, &disturbed);
            (!disturbed.is_empty())
                .then(|| ShieldNote::Interrupted { tunable: tunable.to_owned(), disturbance })
        });
        let notes: Vec<ShieldNote> = notes.collect();
        undone.notes.extend(notes);
    }
}

/// Takes the active shields of a policy file down, the last one first. Stops at one that cannot be
/// restored completely, unless such changes are forgotten. Returns nothing when none of them is
/// active.
///
/// # Errors
/// The policy cannot be read, or the journal cannot be used.
pub fn take_policy_down(
    work: &WorkContext<'_>,
    policy: &str,
    unrestored: UnrestoredChanges,
) -> Result<Vec<UndoneShield>, Failure> {
    let names = policy_shields(policy, &work.host)?;
    let mut active = apply::active_plans(&work.host, &work.store)?;
    active.retain(|plan| names.contains(&plan.shield.name));
    let mut undone = Vec::new();
    for plan in active.iter().rev() {
        undone.push(take_down_named(work, Some(&plan.shield.name), unrestored)?);
        let stays = undone.last().is_some_and(|undone| !undone.is_removed());
        if stays && unrestored == UnrestoredChanges::Keep {
            break;
        }
    }
    note_interruptions(work, &mut undone);
    Ok(undone)
}

/// Takes the shield down that the command is about, releases the programs in it, and removes
/// leftover traces. A command that names none is about the shield whose apply, change or undo has
/// not ended, or about the only one.
///
/// # Errors
/// The journal cannot be used.
pub fn take_down(
    work: &WorkContext<'_>,
    unrestored: UnrestoredChanges,
) -> Result<UndoneShield, Failure> {
    let WorkContext { host, store, .. } = work;
    let unfinished = || apply::unfinished_shield(host, store).ok().flatten();
    let name = work.shield.clone().or_else(unfinished);
    let mut undone = take_down_named(work, name.as_deref(), unrestored)?;
    note_interruptions(work, std::slice::from_mut(&mut undone));
    Ok(undone)
}

/// As [`take_down`], for the shield of this name; `None` is the only one.
///
/// # Errors
/// As [`take_down`].
pub(super) fn take_down_named(
    work: &WorkContext<'_>,
    name: Option<&str>,
    unrestored: UnrestoredChanges,
) -> Result<UndoneShield, Failure> {
    let WorkContext { host, store, .. } = work;
    let _hurry = sched::boost_priority();
    let tracer_recovery = latency::restore_tracer_settings(host, store);
    let swept = tracefs::remove_stale_instances(host);
    // Without the lock, the programs of a shield that another process changes would stay.
    let store = &match store.read(apply::JOURNAL)? {
        Some(_) => store.clone().holding(store.lock()?),
        None => store.clone(),
    };
    let programs = run::programs_in_shield(host, store, name);
    let released = run::release(host, store, name);
    let mut undone = match apply::undo_with(host, store, name, unrestored) {
        Err(UndoError::Journal { .. }) if unrestored == UnrestoredChanges::Forget => {
            UndoneShield { journal: apply::forget_journal(store)?, ..UndoneShield::nothing() }
        }
        result => result?,
    };
    undone.left = run::still_running(host, &programs);
    undone.notes.extend(tracer_recovery.map(note_of_tracer));
    match released {
        Ok(released) => {
            // The notes name those.
            let is_back = |pid: i32| released.back.iter().any(|moved| moved.tid == pid);
            undone.left.retain(|program| !is_back(program.pid));
            undone.notes.extend(notes_of_programs(released));
        }
        Err(error) => {
            let error = error.to_string();
            undone.notes.push(ShieldNote::ProgramsNotReleased { error });
        }
    }
    if swept > 0 {
        undone.notes.push(ShieldNote::TracesRemoved { traces: swept });
    }
    Ok(undone)
}

/// Succeeds if every change of these shields was undone.
///
/// # Errors
/// A change could not be undone, or the journal stays, so that the shield still counts as active.
pub fn check_restored(shields: &[UndoneShield]) -> Result<(), Failure> {
    if let Some(undone) = shields.iter().find(|undone| !undone.is_complete()) {
        let message = format!("{} could not be restored", many(undone.failed().count(), "change"));
        return Err(Failure::new(FailureKind::NotUndone, message)
            .hint("try again: cpushield undo")
            .hint("or forget the changes that remain: cpushield undo --forget"));
    }
    if shields.iter().any(|undone| !undone.is_removed()) {
        let message = "every change was undone, but the journal could not be removed";
        return Err(Failure::new(FailureKind::NotUndone, message)
            .hint("make the state directory writable, and try again: cpushield undo"));
    }
    Ok(())
}

/// What happened to programs that were in the shield.
fn notes_of_programs(released: ReleasedPrograms) -> impl Iterator<Item = ShieldNote> {
    let back = released.back.into_iter().flat_map(|moved| {
        let note = ShieldNote::ProgramMovedBack { comm: moved.comm, tid: moved.tid };
        std::iter::once(note).chain(moved.notes.into_iter().map(ShieldNote::from))
    });
    let disarmed = released.disarmed.into_iter();
    let disarmed = disarmed.map(|program| ShieldNote::ProgramMadeOrdinary { program });
    back.chain(disarmed).chain(released.notes.into_iter().map(ShieldNote::from))
}

/// What happened to a kernel tracer that a killed measurement had left.
pub(super) fn note_of_tracer(recovery: TracerRecovery) -> ShieldNote {
    match recovery {
        TracerRecovery::Restored => ShieldNote::TracerStopped,
        TracerRecovery::Failed { error } => {
            ShieldNote::TracerNotRestored { error: error.to_string() }
        }
    }
}
