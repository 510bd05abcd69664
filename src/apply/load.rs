//! Loads the journal of the active shield.

use super::journal::{ApplyJournal, INVALID_JOURNAL, JOURNAL, JournalError, JournalOrigin};
use cpushield_linux::{Error, Host, Store};
use cpushield_sentence::Sentence;

/// Why a journal cannot be loaded.
#[derive(Debug, Sentence)]
#[kind(Machine)]
pub enum JournalLoadError {
    /// It cannot be read.
    #[delegate(from)]
    Access(Error),
    /// {path}: {error}.
    #[hint(INVALID_JOURNAL)]
    Journal {
        /// Its path.
        path: String,
        /// What is wrong.
        error: JournalError,
    },
}

impl JournalLoadError {
    /// Whether this user may not read it.
    #[must_use]
    pub fn is_denied(&self) -> bool {
        matches!(self, JournalLoadError::Access(error) if error.is_denied())
    }
}

/// The journal that was found.
pub(super) enum FoundJournal {
    Nothing,
    /// A journal of another boot: the kernel forgot all changes. The rest of the file is not
    /// parsed.
    OtherBoot(Box<JournalOrigin>),
    Here(Box<ApplyJournal>),
}

impl FoundJournal {
    /// The journal of this boot.
    pub(super) fn here(self) -> Option<ApplyJournal> {
        match self {
            FoundJournal::Here(journal) => Some(*journal),
            FoundJournal::Nothing | FoundJournal::OtherBoot(_) => None,
        }
    }
}

/// Loads the journal of the active shield. The boot in its first line is checked first: a damaged
/// journal does not matter after a reboot.
pub(super) fn load(host: &Host, store: &Store) -> Result<FoundJournal, JournalLoadError> {
    let Some(bytes) = store.read(JOURNAL)? else {
        return Ok(FoundJournal::Nothing);
    };
    let boot = boot_id(host)?;
    match JournalOrigin::of_other_boot(&bytes, boot.as_deref()) {
        Some(origin) => Ok(FoundJournal::OtherBoot(Box::new(origin))),
        None => match ApplyJournal::parse(&bytes) {
            Ok(journal) => Ok(FoundJournal::Here(Box::new(journal))),
            Err(error) => Err(JournalLoadError::Journal { path: store.path(JOURNAL), error }),
        },
    }
}

/// Reads the boot ID; `None` on a recorded machine without one.
pub(super) fn boot_id(host: &Host) -> Result<Option<String>, Error> {
    match host.read_line("/proc/sys/kernel/random/boot_id") {
        Ok(id) => Ok(Some(id)),
        Err(error) if error.is_absent() && !host.is_live() => Ok(None),
        Err(error) => Err(error),
    }
}
