//! Apply and undo: `Plan` → journal + [`Applied`]; journal → [`Undone`]. The one executor, the
//! journal, the one undo.
//!
//! The promise is that nothing is lost: every original is on the disk before the first write, and
//! undo puts back what was there, after a crash too, wherever it is still ours. It decides nothing
//! about what is good for a shield; that is the plan's.

mod affinities;
mod amend;
mod cycle;
mod document;
mod executor;
mod fair_server;
mod hogs;
mod hotplug_side_effects;
mod irqbalance;
pub mod journal;
mod moves;
mod original;
mod perform;
mod presence;
mod revert;
mod slice;
mod unbound;
mod undo;

pub use amend::{AmendError, AmendedShield, amend};
pub use document::*;
pub use executor::{apply, check};
pub use hogs::BlockedBy;
pub use journal::{ChangeFate, JournalError, MovedTasks, StepDone};
pub use presence::{ShieldPresence, ShieldWork, UnfinishedWork, find_shield};
pub use slice::dir as slice_dir;
pub use undo::undo;

use crate::change::{Change, Outcome};
use crate::plan::{Plan, Step};
use cpushield_linux::{CpuSet, Error, Host, Store, Task, TaskId};
use journal::{ApplyJournal, JournalOrigin, OriginalState, StepOriginal};
use std::collections::{BTreeMap, BTreeSet};

/// The journal of the active shield.
pub const JOURNAL: &str = "journal.jsonl";

/// Why there is no journal to be had.
#[derive(Debug)]
pub enum JournalLoadError {
    /// It cannot be read.
    Access(Error),
    /// It is not a journal.
    Journal {
        /// Where it lies.
        path: String,
        /// Why not.
        error: JournalError,
    },
}

/// What journal there is.
enum FoundJournal {
    Nothing,
    /// One of another boot: the kernel forgot all of it. The rest of it is not asked.
    OtherBoot(Box<JournalOrigin>),
    Here(Box<ApplyJournal>),
}

/// The journal of the active shield. Its first line decides first: what a crash left of the rest
/// stands in nobody's way when the machine was booted since.
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

/// The plan of the journal of this boot, with the boot it was applied in, whether or not it was
/// applied to its end ([`find_shield`] tells); `None` when no shield was made in this boot.
///
/// # Errors
/// The journal cannot be read, or is none.
pub fn active(host: &Host, store: &Store) -> Result<Option<Plan>, JournalLoadError> {
    Ok(match load(host, store)? {
        FoundJournal::Here(journal) => Some(journal.plan()),
        FoundJournal::Nothing | FoundJournal::OtherBoot(_) => None,
    })
}

/// What came of each step of the active shield that was dealt with; empty without a shield.
///
/// # Errors
/// The journal cannot be read, or is none.
pub fn outcomes(host: &Host, store: &Store) -> Result<Vec<(Step, Outcome)>, JournalLoadError> {
    let FoundJournal::Here(journal) = load(host, store)? else { return Ok(Vec::new()) };
    let step = |done: &StepDone| journal.header.plan.steps.get(done.step).cloned();
    let with = |done: &StepDone| Some((step(done)?, done.outcome.clone()));
    Ok(journal.outcomes.values().filter_map(with).collect())
}

/// The tasks that lived before the active shield; `None` where that is not on record.
///
/// # Errors
/// The journal cannot be read, or is none.
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

/// What tasks of the shield, each with the mask that it has outside, ask for to have their CPUs
/// again when the shield is gone; nothing of a task whose mask is its own. A mask that is set is
/// one that the kernel keeps for good (6.2 and later), so that of the cpusets must not be set.
///
/// # Errors
/// The journal cannot be read, or is none; or `/proc` cannot be read.
pub fn unlimited(
    host: &Host,
    store: &Store,
    tasks: &[(Task, CpuSet)],
) -> Result<BTreeMap<TaskId, CpuSet>, JournalLoadError> {
    let FoundJournal::Here(journal) = load(host, store)? else { return Ok(BTreeMap::new()) };
    let masks = affinities::unlimited(host, &journal, tasks).map_err(JournalLoadError::Access)?;
    Ok(masks.0)
}

/// Puts the journal of the active shield away as it is and returns where; `None` without a journal.
/// It holds originals that were never put back, so it is not among those that are removed in time.
///
/// # Errors
/// Another process is at work, or the journal cannot be renamed.
pub fn forget(store: &Store) -> Result<Option<String>, Error> {
    let _lock = store.lock()?;
    match store.read(JOURNAL)? {
        Some(_) => store.archive(JOURNAL, "forgotten-journal", "jsonl").map(Some),
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
fn makes(plan: &Plan, intent: &StepOriginal, path: &str) -> bool {
    let dir = match plan.steps.get(intent.step).map(|step| &step.change) {
        Some(Change::MakeDir { path }) if intent.original == OriginalState::Missing => path.clone(),
        Some(Change::Slice { unit, .. }) if intent.original != OriginalState::Present => {
            slice::dir(unit)
        }
        _ => return false,
    };
    path.strip_prefix(dir.as_str()).is_some_and(|rest| rest.starts_with('/'))
}
