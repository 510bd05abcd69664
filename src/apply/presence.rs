//! [`find_shield`]: finds out whether a shield is active, from the journal and the lock. It never
//! reports a partial shield as an active one. `status` shows the state of the machine.

use super::journal::ApplyJournal;
use super::load::{FoundJournal, JournalLoadError, load};
use cpushield_linux::{Host, Store};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// How long a reader waits for a writer that is about to end before it reports the writer.
const WRITER_WAIT: Duration = Duration::from_millis(300);

/// A kind of work on a shield.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ShieldWork {
    /// It is applied.
    Apply,
    /// It is undone.
    Undo,
    /// It is changed: `verify --fix`, `add`, `remove`.
    Change,
}

impl fmt::Display for ShieldWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ShieldWork::Apply => "an apply",
            ShieldWork::Undo => "an undo",
            ShieldWork::Change => "a change to the shield",
        })
    }
}

/// Why a shield is neither in force nor gone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "unfinished", rename_all = "kebab-case")]
pub enum UnfinishedWork {
    /// A process is working on it.
    UnderWay {
        /// The work of the process.
        work: ShieldWork,
        /// The process; `None` where its number is not known.
        pid: Option<i32>,
    },
    /// The process that worked on it ended before it was done.
    Interrupted {
        /// The work of the process.
        work: ShieldWork,
    },
}

impl UnfinishedWork {
    /// What to do next.
    #[must_use]
    pub fn advice(&self) -> &'static str {
        match self {
            UnfinishedWork::UnderWay { .. } => "wait until it has ended",
            UnfinishedWork::Interrupted { work: ShieldWork::Undo } => {
                "`cpushield undo` completes it"
            }
            UnfinishedWork::Interrupted { .. } => "`cpushield undo` reverts its changes",
        }
    }
}

impl fmt::Display for UnfinishedWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UnfinishedWork::UnderWay { work, pid: Some(pid) } => {
                write!(f, "{work} by process {pid} is under way")
            }
            UnfinishedWork::UnderWay { work, pid: None } => {
                write!(f, "{work} by another process is under way")
            }
            UnfinishedWork::Interrupted { work } => write!(f, "{work} was interrupted"),
        }
    }
}

/// The shield of this boot.
#[derive(Debug)]
pub enum ShieldPresence {
    /// No shield.
    Absent,
    /// A complete shield.
    Whole(Box<ApplyJournal>),
    /// A partial shield, with its journal if it has one already.
    Part(Option<Box<ApplyJournal>>, UnfinishedWork),
}

/// Finds the shield of this boot. Waits a moment for a process that is changing it.
///
/// # Errors
/// The journal cannot be read, or cannot be parsed and no process is writing it.
pub fn find_shield(host: &Host, store: &Store) -> Result<ShieldPresence, JournalLoadError> {
    let first = find_once(host, store);
    match first {
        Ok(ShieldPresence::Part(_, UnfinishedWork::UnderWay { .. })) => {
            std::thread::sleep(WRITER_WAIT);
        }
        // A writer may have started between the check of the lock and that of the journal.
        Ok(ShieldPresence::Part(..)) | Err(JournalLoadError::Journal { .. }) => {}
        found => return found,
    }
    find_once(host, store)
}

/// Checks the lock first, then the journal.
fn find_once(host: &Host, store: &Store) -> Result<ShieldPresence, JournalLoadError> {
    let writer = store.holder().map_err(JournalLoadError::Access)?;
    let journal = match load(host, store) {
        Ok(FoundJournal::Here(journal)) => Some(journal),
        Ok(FoundJournal::Nothing | FoundJournal::OtherBoot(_)) => None,
        Err(JournalLoadError::Journal { .. }) if writer.is_some() => None,
        Err(error) => return Err(error),
    };
    if let Some(holder) = writer {
        let work = journal.as_ref().map_or(ShieldWork::Apply, |journal| work_on(journal));
        let unfinished = UnfinishedWork::UnderWay { work, pid: holder.pid };
        return Ok(ShieldPresence::Part(journal, unfinished));
    }
    let Some(journal) = journal else { return Ok(ShieldPresence::Absent) };
    if journal.is_whole() {
        return Ok(ShieldPresence::Whole(journal));
    }
    let unfinished = UnfinishedWork::Interrupted { work: work_on(&journal) };
    Ok(ShieldPresence::Part(Some(journal), unfinished))
}

/// The current work on a shield, or the interrupted one.
fn work_on(journal: &ApplyJournal) -> ShieldWork {
    if journal.is_replacing() {
        ShieldWork::Change
    } else if journal.undoing.is_some() {
        ShieldWork::Undo
    } else if journal.applied.is_none() || journal.joining.is_some() {
        ShieldWork::Apply
    } else {
        ShieldWork::Change
    }
}
