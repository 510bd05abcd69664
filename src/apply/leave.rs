//! A shield leaves while others stay: what the others need instead of the settings that they share
//! with it. The value is the one that they would have given to the original.

use super::hogs::RtHogs;
use super::journal::{ApplyJournal, ReplacedChange, StepOriginal};
use super::kind::{PerformedChange, RemainingShields};
use super::kinds::kind_of;
use super::original::OriginalState;
use super::perform::perform;
use super::undo_scope::UndoScope;
use crate::change::{Change, Outcome, Refusal};
use crate::documents::applied::{ChangeFate, StepDone};
use crate::documents::plan::Shield;
use cpushield_linux::{CpuSet, Host, Result};

/// Finds the steps of other shields that need another change without the leaving one: those about
/// things that it changed too, and those that gave a thread or an interrupt all housekeeping CPUs.
pub(super) fn replaced_changes(journal: &ApplyJournal, scope: &UndoScope) -> Vec<ReplacedChange> {
    let name = &scope.shield.name;
    let Some(leaving) = journal.find_shield(name) else { return Vec::new() };
    let others = journal.intents.iter().filter(|intent| !leaving.steps.contains(&intent.step));
    let mut replaced = Vec::new();
    for intent in others {
        let Some(step) = journal.step(intent) else { continue };
        let is_made = journal
            .outcomes
            .get(&intent.step)
            .is_some_and(|done| !matches!(done.outcome, Outcome::Refused { .. } | Outcome::Absent));
        // Of several steps about the same thing, the last one counts.
        if !is_made || journal.last_of_others(name, &step.change) != Some(intent) {
            continue;
        }
        let about: Vec<&Shield> = journal.shields_about(&step.change).collect();
        let Some(change) = change_without(journal, scope, intent, &about) else { continue };
        let is_shared = about.iter().any(|shield| shield.name == *name);
        let is_known = matches!(
            journal.original(intent),
            OriginalState::Text { .. } | OriginalState::Cpus { .. }
        );
        let is_replaced = is_known || is_about_other_programs(journal, &step.change);
        if !is_shared && (change == step.change || !is_replaced) {
            continue;
        }
        let last = journal.last_made_about(&step.change);
        let last = last.and_then(|last| journal.outcomes.get(&last.step));
        let before = last.and_then(|done| done.left.clone());
        replaced.push(ReplacedChange { step: intent.step, change, before });
    }
    // On v1, the other cpusets can only get CPUs that the shield's own cpuset has not.
    replaced.sort_by_key(|replaced| !scope.is_about_common_group(&replaced.change));
    replaced
}

/// Each change of the leaving shield together with the state without it.
pub(super) fn states_without(
    journal: &ApplyJournal,
    scope: &UndoScope,
) -> Vec<(Change, OriginalState)> {
    let name = &scope.shield.name;
    let own = journal.intents_of(name).filter_map(|intent| {
        let change = &journal.step(intent)?.change;
        let is_shared = journal.last_of_others(name, change).is_some();
        (!is_shared).then(|| (change.clone(), journal.original(intent).clone()))
    });
    let mut states: Vec<(Change, OriginalState)> = own.collect();
    states.extend(replaced_changes(journal, scope).into_iter().filter_map(|replaced| {
        let state = kind_of(&replaced.change).state_for_others()?;
        Some((replaced.change, state))
    }));
    states
}

/// Whether a change is about a group that shields made for the programs outside of them.
fn is_about_other_programs(journal: &ApplyJournal, change: &Change) -> bool {
    !journal.planned_shields().any(|shield| change.is_about_group(&shield.group()))
}

/// The change of a step without the leaving shield; `None` if it stays as it is. `about` are the
/// shields that changed the same thing.
fn change_without(
    journal: &ApplyJournal,
    scope: &UndoScope,
    step: &StepOriginal,
    about: &[&Shield],
) -> Option<Change> {
    let change = &journal.step(step)?.change;
    if scope.is_about_common_group(change) {
        return (!matches!(change, Change::MakeDir { .. })).then(|| change.clone());
    }
    let others = about.iter().filter(|shield| shield.name != scope.shield.name);
    let last = journal.last_made_about(change).and_then(|last| journal.step(last));
    let tickless: CpuSet = others.clone().map(|shield| &shield.tickless).collect();
    let closed: CpuSet = others.clone().map(|shield| &shield.closed).collect();
    let cpus: CpuSet = others.map(|shield| &shield.cpus).collect();
    // Another version of the shield may have these CPUs, without this kind of change.
    let is_shared = about.iter().any(|shield| shield.name == scope.shield.name);
    let freed = match is_shared {
        true => scope.closed.difference(&cpus),
        false => scope.closed.difference(&scope.cpus_of_others()),
    };
    let remaining = RemainingShields {
        cpus,
        freed: &freed,
        free: scope.free_cpus().difference(&closed),
        closed,
        tickless,
        last: last.map(|step| &step.change),
    };
    kind_of(change).for_remaining(journal.original(step), &remaining)
}

/// What became of a replaced change.
pub(super) enum ReplacedResult {
    /// It was made, or the machine had it.
    Made(StepDone),
    /// Another process changed the value, so it was left alone; or it could not be made.
    NotMade(ChangeFate),
    /// The task or the file is gone.
    Gone,
}

/// Makes the changes that a shield needs after another one has left.
///
/// # Errors
/// Only when a test stopped the host.
pub(super) fn make_replaced(
    host: &Host,
    hogs: &mut RtHogs,
    scope: &UndoScope,
    replaced: &ReplacedChange,
    was: &OriginalState,
) -> Result<ReplacedResult> {
    let kind = kind_of(&replaced.change);
    if let Change::Write { value, .. } = &replaced.change
        && let Some(drift) = kind.find_drift(host, replaced.before.as_deref())
        && kind.find_drift(host, Some(value)).is_some()
    {
        return Ok(match drift.now {
            None => ReplacedResult::Gone,
            Some(now) => ReplacedResult::NotMade(ChangeFate::Drifted {
                now,
                ours: drift.left,
                original: value.clone(),
            }),
        });
    }
    let made = match hogs.refuse(host, &replaced.change)? {
        Some(reason) => PerformedChange::refused(reason),
        None => match kind.release(host, was, &scope.closed) {
            Some(released) => PerformedChange::from_answer(released)?,
            None => perform(host, &replaced.change, was, &scope.cpus_of_others())?,
        },
    };
    if let Some(Refusal { reason, .. }) = made.failure {
        return Ok(ReplacedResult::NotMade(ChangeFate::Failed { reason }));
    }
    Ok(match made.outcome {
        Outcome::Refused { reason, .. } => ReplacedResult::NotMade(ChangeFate::Failed { reason }),
        Outcome::Absent => ReplacedResult::Gone,
        // The original is from before all shields, so undo must restore it.
        Outcome::Changed | Outcome::AlreadySo => ReplacedResult::Made(StepDone {
            outcome: Outcome::Changed,
            ..made.of_step(replaced.step)
        }),
    })
}
