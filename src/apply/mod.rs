//! Apply and undo: `Plan` → journal + [`Applied`]; journal → [`Undone`]. The one executor, the
//! journal, the one undo.
//!
//! The promise is that nothing is lost: every original is on the disk before the first write, and
//! undo puts back what was there, after a crash too, wherever it is still ours. It decides nothing
//! about what is good for a shield; that is the plan's.

mod affinities;
mod cycle;
mod document;
mod executor;
mod hogs;
mod irqbalance;
pub mod journal;
mod make;
mod moves;
mod original;
mod restore;
mod slice;
mod undo;

pub use document::*;
pub use executor::apply;
pub use hogs::InTheWay;
pub use journal::{Done, Fate, JournalError, Moved};
pub use undo::undo;

use crate::change::Change;
use crate::plan::Plan;
use cpushield_linux::{Error, Host, Store, TaskId};
use journal::{Intent, Journal, Original};
use std::collections::BTreeSet;

/// The journal of the active shield.
pub const JOURNAL: &str = "journal.jsonl";

/// Why there is no journal to be had.
#[derive(Debug)]
pub enum LoadError {
    /// It cannot be read.
    Access(Error),
    /// It is not a journal.
    Journal(JournalError),
}

/// The journal of the active shield; `None` when there is none.
fn load(store: &Store) -> Result<Option<Journal>, LoadError> {
    match store.read(JOURNAL).map_err(LoadError::Access)? {
        Some(bytes) => Journal::parse(&bytes).map(Some).map_err(LoadError::Journal),
        None => Ok(None),
    }
}

/// The plan of the active shield, with the boot it was applied in; `None` when no shield is up.
/// Nothing is in force when that boot is not the present one.
///
/// # Errors
/// The journal cannot be read, or is none.
pub fn active(store: &Store) -> Result<Option<Plan>, LoadError> {
    Ok(load(store)?.map(|journal| {
        let boot_id = journal.header.boot_id;
        Plan { boot_id, ..journal.header.plan }
    }))
}

/// The tasks that lived before the active shield; `None` where that is not on record.
///
/// # Errors
/// The journal cannot be read, or is none.
pub fn lived_before(store: &Store) -> Result<Option<BTreeSet<TaskId>>, LoadError> {
    let journal = load(store)?;
    let mut intents = journal.iter().flat_map(|journal| &journal.intents);
    Ok(intents.find_map(|intent| match &intent.original {
        Original::Affinities { masks } => Some(masks.0.keys().copied().collect()),
        _ => None,
    }))
}

/// Puts the journal of the active shield away as it is and returns where; `None` without a journal.
///
/// # Errors
/// Another process is at work, or the journal cannot be renamed.
pub fn forget(store: &Store) -> Result<Option<String>, Error> {
    let _lock = store.lock()?;
    match store.read(JOURNAL)? {
        Some(_) => store.archive(JOURNAL, "journal-forgotten", "jsonl").map(Some),
        None => Ok(None),
    }
}

/// Which boot this is; `None` on a recorded machine that does not say.
fn boot_id(host: &Host) -> Result<Option<String>, Error> {
    match host.read_line("/proc/sys/kernel/random/boot_id") {
        Ok(id) => Ok(Some(id)),
        Err(error) if error.is_absent() && !host.is_live() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether a step made a directory that `path` lies in.
fn makes(plan: &Plan, intent: &Intent, path: &str) -> bool {
    let dir = match plan.steps.get(intent.step).map(|step| &step.change) {
        Some(Change::MakeDir { path }) if intent.original == Original::Missing => path.clone(),
        Some(Change::Slice { unit, .. }) if intent.original != Original::Present => {
            slice::dir(unit)
        }
        _ => return false,
    };
    path.strip_prefix(dir.as_str()).is_some_and(|rest| rest.starts_with('/'))
}
