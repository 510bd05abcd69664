//! Takes shields down, with everything that cpushield left in them.

use super::WorkContext;
use super::shield_options::policy_shields;
use crate::apply::{self, UndoError, UndoneShield, undo};
use crate::failure::Failure;
use crate::{latency, run};
use cpushield_linux::{sched, tracefs};

/// What happens to the record of changes that cannot be undone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnrestoredChanges {
    /// The journal keeps them for another undo.
    Keep,
    /// The journal is archived, even if it cannot be read.
    Forget,
}

/// Takes all shields down, the last one first. Stops at one that cannot be restored completely.
///
/// # Errors
/// The journal cannot be used.
pub fn take_all_down(
    work: &WorkContext<'_>,
    unrestored: UnrestoredChanges,
) -> Result<Vec<UndoneShield>, Failure> {
    let mut undone = Vec::new();
    while let Some(name) = apply::next_to_undo(&work.host, &work.store)? {
        undone.push(take_down_named(work, Some(&name), unrestored)?);
        if undone.last().is_some_and(|undone| !undone.is_complete()) {
            break;
        }
    }
    if undone.is_empty() {
        // There may be a journal of another boot.
        undone.push(take_down_named(work, None, unrestored)?);
    }
    Ok(undone)
}

/// Takes the active shields of a policy file down, the last one first. Stops at one that cannot be
/// restored completely. Returns nothing when none of them is active.
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
        if undone.last().is_some_and(|undone| !undone.is_complete()) {
            break;
        }
    }
    Ok(undone)
}

/// Takes the shield down that the command is about, releases the programs in it, and removes
/// leftover traces.
///
/// # Errors
/// The journal cannot be used.
pub fn take_down(
    work: &WorkContext<'_>,
    unrestored: UnrestoredChanges,
) -> Result<UndoneShield, Failure> {
    take_down_named(work, work.shield.as_deref(), unrestored)
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
    let tracer_note = latency::restore_tracer_settings(host, store);
    let swept = tracefs::remove_stale_instances(host);
    let programs = run::programs_in_shield(host, store, name);
    let released = run::release(host, store, name);
    let mut undone = match undo(host, store, name) {
        Err(UndoError::Journal { .. }) if unrestored == UnrestoredChanges::Forget => {
            UndoneShield { journal: apply::forget(store)?, ..UndoneShield::nothing() }
        }
        result => result?,
    };
    undone.left = run::still_running(host, &programs);
    undone.notes.extend(tracer_note);
    match released {
        Ok(released) => {
            // The notes name those.
            let is_back = |pid: i32| released.back.iter().any(|moved| moved.tid == pid);
            undone.left.retain(|program| !is_back(program.pid));
            undone.notes.extend(released.back.iter().map(|moved| {
                format!("{} ({}) is back in its previous place", moved.comm, moved.tid)
            }));
            undone.notes.extend(
                released
                    .disarmed
                    .iter()
                    .map(|program| format!("{program} continues as an ordinary program")),
            );
            undone.notes.extend(released.notes);
        }
        Err(error) => undone.notes.push(format!("programs in the shield: {error}")),
    }
    if swept > 0 {
        undone.notes.push(format!("removed the traces of killed watches: {swept}"));
    }
    if unrestored == UnrestoredChanges::Forget && !undone.is_complete() {
        undone.journal = apply::forget(store)?;
    }
    Ok(undone)
}
