//! The files of boot parameters in the state directory: the journal of boot files, and the result
//! of the last trial. The journal survives reboots.

use super::error::BootError;
use crate::documents::boot::{BootJournal, SCHEMA, TrialEnd};
use cpushield_linux::Store;

/// The journal of boot files in the state directory.
pub const JOURNAL: &str = "boot.json";

/// The result of the last trial, in the state directory.
const LAST_TRIAL: &str = "boot-trial.json";

/// Reads the journal; `None` when nothing is written.
///
/// # Errors
/// It cannot be read, or is not a journal of this form.
pub fn read_journal(store: &Store) -> Result<Option<BootJournal>, BootError> {
    let Some(bytes) = store.read(JOURNAL)? else { return Ok(None) };
    let journal: BootJournal = serde_json::from_slice(&bytes)
        .map_err(|error| invalid_journal(store, error.to_string()))?;
    if journal.journal != "cpushield-boot" || journal.schema != SCHEMA {
        let form = format!("{} {}", journal.journal, journal.schema);
        return Err(invalid_journal(store, format!("a journal of schema {form}")));
    }
    Ok(Some(journal))
}

pub(super) fn invalid_journal(store: &Store, why: String) -> BootError {
    BootError::Journal { path: store.path(JOURNAL), why }
}

pub(super) fn save_journal(store: &Store, journal: &BootJournal) -> Result<(), BootError> {
    Ok(store.replace_json(JOURNAL, journal)?)
}

pub(super) fn remove_journal(store: &Store) -> Result<(), BootError> {
    Ok(store.remove(JOURNAL)?)
}

/// Reads the result of the last trial; `None` when there is none that can be parsed.
pub(super) fn read_last_trial(store: &Store) -> Result<Option<TrialEnd>, BootError> {
    Ok(store.read(LAST_TRIAL)?.and_then(|text| serde_json::from_slice(&text).ok()))
}

pub(super) fn save_last_trial(store: &Store, end: &TrialEnd) -> Result<(), BootError> {
    Ok(store.replace_json(LAST_TRIAL, end)?)
}
