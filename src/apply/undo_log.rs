//! The journal while undo runs, and its archive afterwards. Undo must also work on a machine with a
//! full disk.

use super::journal::JOURNAL;
use crate::documents::applied::{ShieldNote, UndoneShield};
use cpushield_linux::files::store::Appender;
use cpushield_linux::{Error, Store};

/// The journal while undo runs. Undo must also work on a machine with a full disk: a step that
/// cannot be recorded is still done, because the next undo decides by the current state.
///
/// Nothing is synced: a written line outlives this process, and after a crash of the machine there
/// is nothing to undo.
pub(super) struct UndoLog {
    file: Option<Appender>,
    failure: Option<Error>,
}

impl UndoLog {
    pub(super) fn open(store: &Store, len: u64) -> UndoLog {
        match store.append(JOURNAL, len) {
            Ok(file) => UndoLog { file: Some(file), failure: None },
            Err(error) => UndoLog { file: None, failure: Some(error) },
        }
    }

    /// Adds a line. After a failure it adds nothing more: a part of a line may be at the end.
    pub(super) fn add(&mut self, line: Result<Vec<u8>, Error>) {
        let added = self.file.as_mut().map(|file| line.and_then(|bytes| file.add(&bytes)));
        if let Some(Err(error)) = added {
            *self = UndoLog { file: None, failure: Some(error) };
        }
    }

    pub(super) fn note(&self) -> Option<ShieldNote> {
        let answer = self.failure.as_ref()?.reason();
        Some(ShieldNote::JournalNotWritten { answer })
    }
}

/// Archives the journal of a removed shield, or removes it, so that the next apply can start.
pub(super) fn archive_or_remove(store: &Store, boot: Option<&str>, undone: &mut UndoneShield) {
    let answer = match archive(store, boot) {
        Ok(kept) => return undone.journal = Some(kept),
        Err(error) => error.reason(),
    };
    undone.notes.push(match store.remove(JOURNAL) {
        Ok(()) => ShieldNote::JournalRemoved { answer },
        Err(_) => {
            undone.journal = Some(store.path(JOURNAL));
            ShieldNote::JournalStays { answer }
        }
    });
}

/// How the name of a journal begins whose changes were never all restored. It is not removed with
/// old journals.
pub(super) const FORGOTTEN: &str = "forgotten-journal";

/// Archives the journal of changes that cannot be restored. Returns its path; `None` without a
/// journal.
pub(super) fn forget(store: &Store) -> Result<Option<String>, Error> {
    match store.read(JOURNAL)? {
        Some(_) => store.archive(JOURNAL, FORGOTTEN, "jsonl").map(Some),
        None => Ok(None),
    }
}

/// How many old journals are kept.
const ARCHIVES_MAX: usize = 10;

/// Archives the journal.
pub(super) fn archive(store: &Store, boot: Option<&str>) -> Result<String, Error> {
    let short: String =
        boot.unwrap_or("unknown").chars().filter(char::is_ascii_alphanumeric).take(8).collect();
    let kept = store.archive(JOURNAL, &format!("journal-{short}"), "jsonl")?;
    // Failing to remove old ones is not an error.
    let _ = store.prune("journal-", ARCHIVES_MAX);
    Ok(kept)
}
