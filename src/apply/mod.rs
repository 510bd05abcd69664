//! Apply and undo: `Plan` → journal + [`AppliedPlan`]; journal → [`UndoneShield`]. The only
//! executor, the journal, and the only undo.
//!
//! Every original is on the disk before the first write. Undo restores it, even after a crash,
//! unless another process changed the value since. The plan decides what is good for a shield.
//! `executor.rs` and `undo.rs` have the steps in order.
//!
//! Each kind of change is one file in `src/apply/kinds/`. It implements the trait `ChangeKind`
//! (`src/apply/kind.rs`): read the original, make the change, revert it. Optional methods say more
//! about a kind: the CPUs on which its write waits for a thread, the drift that `status` shows, or
//! a hint about a refusal. `kind_of` (`kinds/mod.rs`) is the only place that selects a kind. A
//! kind does not read or write the journal. The texts of a change and the check of a saved plan
//! need no machine, so they are in `src/change.rs`.
//!
//! Imports in `src/apply/` point one way, from the first line to the last:
//!
//! ```text
//! undo_versions.rs, replace.rs           a shield with two versions
//! amend.rs, executor.rs, undo.rs         run the steps, and write the journal
//! join.rs, leave.rs, undo_scope.rs       what a shield shares with other active shields
//! read_originals.rs, perform.rs,         one step: read, make, revert, turn errors into
//!   revert.rs, hogs.rs                   outcomes; writes that would block forever
//! kinds/                                 one file per kind of change
//! journal_opening.rs, undo_log.rs,       write lines to the journal, archive it
//!   undo_end.rs
//! moves.rs, groups.rs, unbound.rs,       helpers of kinds
//!   affinities.rs, …
//! error.rs, kind.rs                      the errors; the trait and the results of its methods
//! journal.rs                             the lines of the journal
//! original.rs, task_masks.rs             what the journal stores about a step, together with
//!                                        the results in src/documents/applied/
//! ```
//!
//! **Several shields** share one journal and one lock. The first shield begins the journal. A
//! further one joins it (`join.rs`): its plan is made on the machine as it is, and a step about
//! something that an active shield has changed keeps the *first* original, unless another process
//! has changed the value since: then that value is the original of all steps about it. Such a step
//! is planned even if the machine already has the value, so the setting stays as long as one shield
//! needs it.
//! When a shield leaves (`leave.rs`), undo reverts the steps that no other shield has. The others
//! get the value that they would have given to the original. At the end the journal is replaced
//! with one that never had the shield. So after any order of apply and undo, the machine is as if
//! only the live shields had ever been applied (`tests/recorded/roundtrip/many_shields.rs`). An
//! unfinished apply or undo of one shield must be completed before another shield changes.
//!
//! **A change** of an active shield is a join and a leave (`replace.rs`).
//! `src/workflow/machine_without.rs` makes the surveyed machine as it would be without the shield,
//! and the new version is planned on that. The new version joins the journal; until it is
//! complete, the CPUs of both versions are kept free. Then the old version leaves. Both have one
//! cgroup, which gets the new CPUs in one write, so its partition stays valid. If the new
//! version fails, it leaves instead. The next `apply` or `undo` ends a change that was killed.
//! `tests/recorded/roundtrip/changed_shields.rs` compares the machine with one on which only that
//! version was ever applied.

mod affinities;
mod amend;
mod blocking_writes;
mod combined_undo;
mod cpu_power;
mod error;
mod executor;
mod foreign_partitions;
mod groups;
mod hogs;
mod hotplug_kthreads;
mod hotplug_side_effects;
mod join;
pub mod journal;
mod journal_opening;
mod kind;
mod kinds;
mod leave;
mod load;
mod lost_cpus;
mod memory_moves;
mod moves;
mod offline_cpus;
mod original;
mod perform;
mod presence;
mod read_originals;
mod replace;
mod restore_affinities;
mod revert;
mod summary;
mod task_masks;
mod thread_servers;
mod unbound;
mod undo;
mod undo_end;
mod undo_log;
mod undo_scope;
mod undo_versions;

pub use crate::documents::applied::*;
pub use crate::documents::shield_status::{ShieldWork, UnfinishedWork};
pub use amend::{AmendError, amend};
pub use error::{ApplyError, ApplyProgress, UndoError, name_a_shield};
pub use executor::{apply, check};
pub use hogs::{BlockedBy, moves_memory, refuse_move};
pub use join::check_active;
pub use journal::JOURNAL;
pub use journal::JournalError;
pub use kinds::slice_dir;
pub use load::JournalLoadError;
pub use original::OriginalState;
pub use presence::{ShieldPresence, find_shield};
pub use replace::replace;
pub use summary::{PublicShield, PublicState, read_public_state, shield_groups};
pub use thread_servers::ThreadServer;
pub use undo_versions::{EndedChange, end_change, undo, undo_with};

use crate::change::{Change, Outcome};
use crate::documents::plan::{Plan, Step};
use cpushield_linux::{CpuSet, Error, Host, Store, Task, TaskId};
use load::load;
use std::collections::{BTreeMap, BTreeSet};

/// The plans of this boot's journal, with their boot, even if they were not fully applied
/// ([`find_shield`] checks that); empty when no shield was made in this boot.
///
/// # Errors
/// The journal cannot be read or parsed.
pub fn active_plans(host: &Host, store: &Store) -> Result<Vec<Plan>, JournalLoadError> {
    let Some(journal) = load(host, store)?.here() else { return Ok(Vec::new()) };
    Ok(journal.plans())
}

/// The shield that an undo of all begins with: one whose apply or undo has not ended, or the last
/// one; `None` when no shield is active in this boot.
///
/// # Errors
/// The journal cannot be read or parsed.
pub fn next_to_undo(host: &Host, store: &Store) -> Result<Option<String>, JournalLoadError> {
    let Some(journal) = load(host, store)?.here() else { return Ok(None) };
    Ok(journal.unfinished_name().or_else(|| journal.shield_names().pop()))
}

/// Returns the outcomes of the steps of all active shields; empty without a shield.
///
/// # Errors
/// The journal cannot be read or parsed.
pub fn outcomes(host: &Host, store: &Store) -> Result<Vec<(Step, Outcome)>, JournalLoadError> {
    let Some(journal) = load(host, store)?.here() else { return Ok(Vec::new()) };
    let steps = &journal.header.plan.steps;
    let outcomes = journal.outcomes.values();
    let outcomes =
        outcomes.filter_map(|done| Some((steps.get(done.step)?.clone(), done.outcome.clone())));
    Ok(outcomes.collect())
}

/// Returns the tasks that are older than the active shields; `None` where that was not recorded.
///
/// # Errors
/// The journal cannot be read or parsed.
pub fn lived_before(
    host: &Host,
    store: &Store,
) -> Result<Option<BTreeSet<TaskId>>, JournalLoadError> {
    let Some(journal) = load(host, store)?.here() else { return Ok(None) };
    let mut intents = journal.intents.iter();
    Ok(intents.find_map(|intent| match &intent.original {
        OriginalState::Affinities { masks } => Some(masks.0.keys().copied().collect()),
        _ => None,
    }))
}

/// Returns the masks that tasks of a shield must request to get their CPUs back when it is gone,
/// given the mask of each outside of the shield. Tasks with a mask of their own are left out. The
/// kernel keeps a mask that is set forever (6.2 and later), so that of the cpusets must not be set.
///
/// # Errors
/// The journal cannot be read or parsed, or `/proc` cannot be read.
pub fn masks_without_cpusets(
    host: &Host,
    store: &Store,
    name: &str,
    tasks: &[(Task, CpuSet)],
) -> Result<BTreeMap<TaskId, CpuSet>, JournalLoadError> {
    let Some(journal) = load(host, store)?.here() else { return Ok(BTreeMap::new()) };
    let Some(scope) = undo_scope::UndoScope::new(host, &journal, name) else {
        return Ok(BTreeMap::new());
    };
    Ok(affinities::masks_without_cpusets(host, &journal, &scope, tasks)?.0)
}

/// Archives a journal that cannot be read and returns its path; `None` without a journal. It has
/// originals that were never restored, so it is not removed with old journals.
///
/// # Errors
/// Another process has the lock, or the journal cannot be renamed.
pub fn forget_journal(store: &Store) -> Result<Option<String>, Error> {
    let _lock = store.lock()?;
    undo_log::forget(store)
}

/// The name of the shield whose apply, change or undo has not ended while others stay; `None`
/// without one.
///
/// # Errors
/// The journal cannot be read or parsed.
pub fn unfinished_shield(host: &Host, store: &Store) -> Result<Option<String>, JournalLoadError> {
    let Some(journal) = load(host, store)?.here() else { return Ok(None) };
    Ok(journal.unfinished_name())
}

/// Returns each change of an active shield together with the state that the machine would have
/// without the shield.
///
/// # Errors
/// The journal cannot be read or parsed.
pub fn states_without(
    host: &Host,
    store: &Store,
    name: &str,
) -> Result<Vec<(Change, OriginalState)>, JournalLoadError> {
    let Some(journal) = load(host, store)?.here() else { return Ok(Vec::new()) };
    let Some(scope) = undo_scope::UndoScope::new(host, &journal, name) else {
        return Ok(Vec::new());
    };
    Ok(leave::states_without(&journal, &scope))
}

/// Returns the difference between what a change left and the current value, where the machine
/// shows one.
#[must_use]
pub fn find_drift(host: &Host, change: &Change, left: Option<&str>) -> Option<DriftedValue> {
    kinds::kind_of(change).find_drift(host, left)
}
