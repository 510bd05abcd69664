//! Boot: kernel parameters for the chosen kernels, written into the boot loader's files and
//! removed again, byte for byte. `Machine` + `ShieldRequest` + the loader's menu → [`BootPlan`] →
//! files and a [`BootJournal`] → [`BootStatus`].
//!
//! `line`, `grub` and `parameters` are pure; `loaders` only read; `write` and `restore` write, and
//! know no particular loader. The journal of the runtime shield ends with the boot; this one
//! survives it.

mod by_hand;
mod document;
pub mod early;
pub mod error;
pub mod grub;
mod kernel_file;
pub mod kernel_glob;
mod kernels;
pub mod kexec;
pub mod line;
pub mod loaders;
pub mod parameters;
pub mod plan;
mod refusals;
mod restore;
pub mod status;
pub mod trial;
mod warnings;
pub mod write;

pub use document::*;
pub use error::BootError;

use cpushield_linux::Store;

/// The journal of boot files in the state directory.
pub const JOURNAL: &str = "boot.json";

/// The journal; `None` when nothing is written.
///
/// # Errors
/// It cannot be read, or is not a journal of this form.
pub fn journal(store: &Store) -> Result<Option<BootJournal>, BootError> {
    let Some(bytes) = store.read(JOURNAL)? else { return Ok(None) };
    let journal: BootJournal = serde_json::from_slice(&bytes)
        .map_err(|error| invalid_journal(store, error.to_string()))?;
    if journal.journal != "cpushield-boot" || journal.schema != SCHEMA {
        let form = format!("{} {}", journal.journal, journal.schema);
        return Err(invalid_journal(store, format!("a journal of form {form}")));
    }
    Ok(Some(journal))
}

fn invalid_journal(store: &Store, why: String) -> BootError {
    BootError::Journal { path: store.path(JOURNAL), why }
}
