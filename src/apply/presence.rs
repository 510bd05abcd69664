//! [`find_shield`]: finds out whether a shield is active, from the journal and the lock. It never
//! reports a partial shield as an active one. `status` shows the state of the machine.

use super::journal::ApplyJournal;
use super::load::{JournalLoadError, load};
use crate::documents::shield_status::{ShieldWork, UnfinishedWork};
use cpushield_linux::{Host, Store};
use std::time::Duration;

/// How long a reader waits for a writer that is about to end before it reports the writer.
const WRITER_WAIT: Duration = Duration::from_millis(300);

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
    let writer = store.holder()?;
    let journal = match load(host, store) {
        Ok(found) => found.here().map(Box::new),
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
