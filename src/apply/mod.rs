//! Apply and undo: `Plan` → journal + [`AppliedPlan`]; journal → [`UndoneShield`]. The only
//! executor, the journal, and the only undo.
//!
//! Every original is on the disk before the first write. Undo restores it, even after a crash,
//! unless another process changed the value since. The plan decides what is good for a shield.

mod affinities;
mod amend;
mod blocking_writes;
mod document;
mod executor;
mod fair_server;
mod groups;
mod hogs;
mod hotplug_side_effects;
pub mod journal;
mod kind;
mod kinds;
mod moves;
mod original;
mod perform;
mod presence;
mod read_originals;
mod restore_affinities;
mod revert;
mod step_result;
mod task_masks;
mod unbound;
mod undo;

pub use amend::{AmendError, AmendedShield, amend};
pub use document::*;
pub use executor::{apply, check};
pub use hogs::BlockedBy;
pub use journal::JournalError;
pub use kind::DriftedValue;
pub use kinds::slice_dir;
pub use original::OriginalState;
pub use presence::{ShieldPresence, ShieldWork, UnfinishedWork, find_shield};
pub use step_result::{ChangeFate, MovedTasks, StayedTasks, StepDone};
pub use undo::undo;

use crate::change::{Change, Outcome};
use crate::plan::{Plan, Step};
use cpushield_linux::{CpuSet, Error, Host, Store, Task, TaskId};
use journal::{ApplyJournal, JournalOrigin};
use std::collections::{BTreeMap, BTreeSet};

/// The journal of the active shield.
pub const JOURNAL: &str = "journal.jsonl";

/// Why a journal cannot be loaded.
#[derive(Debug)]
pub enum JournalLoadError {
    /// It cannot be read.
    Access(Error),
    /// It is not a journal.
    Journal {
        /// Its path.
        path: String,
        /// What is wrong.
        error: JournalError,
    },
}

/// The journal that was found.
enum FoundJournal {
    Nothing,
    /// A journal of another boot: the kernel forgot all changes. The rest of the file is not
    /// parsed.
    OtherBoot(Box<JournalOrigin>),
    Here(Box<ApplyJournal>),
}

/// Loads the journal of the active shield. The boot in its first line is checked first: a damaged
/// journal does not matter after a reboot.
fn load(host: &Host, store: &Store) -> Result<FoundJournal, JournalLoadError> {
    let Some(bytes) = store.read(JOURNAL).map_err(JournalLoadError::Access)? else {
        return Ok(FoundJournal::Nothing);
    };
    let boot = boot_id(host).map_err(JournalLoadError::Access)?;
    match JournalOrigin::parse(&bytes) {
        Some(origin) if origin.boot_id != boot => Ok(FoundJournal::OtherBoot(Box::new(origin))),
        _ => match ApplyJournal::parse(&bytes) {
            Ok(journal) => Ok(FoundJournal::Here(Box::new(journal))),
            Err(error) => Err(JournalLoadError::Journal { path: store.path(JOURNAL), error }),
        },
    }
}

/// Returns the plan of this boot's journal, with its boot, even if it was not fully applied
/// ([`find_shield`] checks that); `None` when no shield was made in this boot.
///
/// # Errors
/// The journal cannot be read or parsed.
pub fn active(host: &Host, store: &Store) -> Result<Option<Plan>, JournalLoadError> {
    Ok(match load(host, store)? {
        FoundJournal::Here(journal) => Some(journal.plan()),
        FoundJournal::Nothing | FoundJournal::OtherBoot(_) => None,
    })
}

/// Returns the outcomes of the active shield's steps; empty without a shield.
///
/// # Errors
/// The journal cannot be read or parsed.
pub fn outcomes(host: &Host, store: &Store) -> Result<Vec<(Step, Outcome)>, JournalLoadError> {
    let FoundJournal::Here(journal) = load(host, store)? else { return Ok(Vec::new()) };
    let steps = &journal.header.plan.steps;
    let outcomes = journal.outcomes.values();
    let outcomes =
        outcomes.filter_map(|done| Some((steps.get(done.step)?.clone(), done.outcome.clone())));
    Ok(outcomes.collect())
}

/// Returns the tasks that are older than the active shield; `None` where that was not recorded.
///
/// # Errors
/// The journal cannot be read or parsed.
pub fn lived_before(
    host: &Host,
    store: &Store,
) -> Result<Option<BTreeSet<TaskId>>, JournalLoadError> {
    let FoundJournal::Here(journal) = load(host, store)? else { return Ok(None) };
    let mut intents = journal.intents.iter();
    Ok(intents.find_map(|intent| match &intent.original {
        OriginalState::Affinities { masks } => Some(masks.0.keys().copied().collect()),
        _ => None,
    }))
}

/// Returns the masks that tasks of the shield must request to get their CPUs back when the shield
/// is gone, given the mask of each outside of the shield. Tasks with a mask of their own are left
/// out. The kernel keeps a mask that is set forever (6.2 and later), so that of the cpusets must
/// not be set.
///
/// # Errors
/// The journal cannot be read or parsed, or `/proc` cannot be read.
pub fn masks_without_cpusets(
    host: &Host,
    store: &Store,
    tasks: &[(Task, CpuSet)],
) -> Result<BTreeMap<TaskId, CpuSet>, JournalLoadError> {
    let FoundJournal::Here(journal) = load(host, store)? else { return Ok(BTreeMap::new()) };
    let masks = affinities::masks_without_cpusets(host, &journal, tasks)
        .map_err(JournalLoadError::Access)?;
    Ok(masks.0)
}

/// Archives the journal of the active shield and returns its path; `None` without a journal. It has
/// originals that were never restored, so it is not removed with old journals.
///
/// # Errors
/// Another process has the lock, or the journal cannot be renamed.
pub fn forget(store: &Store) -> Result<Option<String>, Error> {
    let _lock = store.lock()?;
    match store.read(JOURNAL)? {
        Some(_) => store.archive(JOURNAL, "forgotten-journal", "jsonl").map(Some),
        None => Ok(None),
    }
}

/// Reads the boot ID; `None` on a recorded machine without one.
fn boot_id(host: &Host) -> Result<Option<String>, Error> {
    match host.read_line("/proc/sys/kernel/random/boot_id") {
        Ok(id) => Ok(Some(id)),
        Err(error) if error.is_absent() && !host.is_live() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns the difference between what a change left and the current value, where the machine
/// shows one.
#[must_use]
pub fn find_drift(host: &Host, change: &Change, left: Option<&str>) -> Option<DriftedValue> {
    kinds::kind_of(change).find_drift(host, left)
}
