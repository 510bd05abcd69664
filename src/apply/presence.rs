//! [`find_shield`]: the one answer to "is a shield up?". It looks at the journal and at who holds
//! the lock, and never says that a half-made shield is one. What the machine says is `status`'s.

use super::journal::ApplyJournal;
use super::{FoundJournal, JournalLoadError, load};
use cpushield_linux::{Host, Store};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// How long a reader waits for a writer that is about to end before it reports the writer.
const WRITER_WAIT: Duration = Duration::from_millis(300);

/// What changes a shield.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ShieldWork {
    /// It is made.
    Apply,
    /// It is taken down.
    Undo,
    /// Something of it is changed: `verify --fix`, `add`, `remove`.
    Change,
}

impl fmt::Display for ShieldWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ShieldWork::Apply => "an apply",
            ShieldWork::Undo => "an undo",
            ShieldWork::Change => "a change of the shield",
        })
    }
}

/// Why a shield is neither in force nor gone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "unfinished", rename_all = "kebab-case")]
pub enum UnfinishedWork {
    /// A process is at work on it.
    UnderWay {
        /// What it does.
        work: ShieldWork,
        /// The process; `None` where its number is not known.
        pid: Option<i32>,
    },
    /// The process that was at work on it has ended before it was done.
    Interrupted {
        /// What it did.
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
            UnfinishedWork::Interrupted { .. } => "`cpushield undo` puts back what it changed",
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

/// What there is of a shield in this boot.
#[derive(Debug)]
pub enum ShieldPresence {
    /// No shield.
    Absent,
    /// A shield whose journal is whole.
    Whole(Box<ApplyJournal>),
    /// A part of one. Its journal, where there is one already.
    Part(Option<Box<ApplyJournal>>, UnfinishedWork),
}

/// Finds the shield of this boot. A writer that ends within a moment is waited for.
///
/// # Errors
/// The journal cannot be read, or it is none and nobody is writing it.
pub fn find_shield(host: &Host, store: &Store) -> Result<ShieldPresence, JournalLoadError> {
    let first = look(host, store);
    match first {
        Ok(ShieldPresence::Part(_, UnfinishedWork::UnderWay { .. })) => {
            std::thread::sleep(WRITER_WAIT)
        }
        // A writer may have begun between the look at the lock and the one at the journal.
        Ok(ShieldPresence::Part(..)) | Err(JournalLoadError::Journal { .. }) => {}
        found => return found,
    }
    look(host, store)
}

/// The lock first, then the journal.
fn look(host: &Host, store: &Store) -> Result<ShieldPresence, JournalLoadError> {
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

/// What is being done, or was when it was interrupted.
fn work_on(journal: &ApplyJournal) -> ShieldWork {
    if journal.undoing.is_some() {
        ShieldWork::Undo
    } else if journal.applied.is_none() {
        ShieldWork::Apply
    } else {
        ShieldWork::Change
    }
}

impl fmt::Display for JournalLoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JournalLoadError::Access(error) => error.fmt(f),
            JournalLoadError::Journal { path, error } => write!(f, "{path}: {error}"),
        }
    }
}
