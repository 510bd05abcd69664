//! Boot: kernel parameters for the chosen kernels, written into the boot loader's files and taken
//! back to the byte. `Machine` + `Wish` + the loader's menu → [`BootPlan`] → files and a
//! [`BootJournal`] → [`BootStatus`].
//!
//! `line`, `grub` and `parameters` are pure; `loaders` read; `write` alone writes, and knows no
//! loader. The journal of the runtime shield ends with the boot; this one outlives it.

mod by_hand;
mod document;
pub mod early;
pub mod error;
pub mod grub;
mod kernel_file;
pub mod kexec;
pub mod line;
pub mod loaders;
pub mod parameters;
pub mod plan;
mod refusals;
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
/// It cannot be read, or is none.
pub fn journal(store: &Store) -> Result<Option<BootJournal>, BootError> {
    let Some(bytes) = store.read(JOURNAL)? else { return Ok(None) };
    let wrong = |why: String| BootError::Journal { path: store.path(JOURNAL), why };
    let journal: BootJournal =
        serde_json::from_slice(&bytes).map_err(|error| wrong(error.to_string()))?;
    if journal.journal != "cpushield-boot" || journal.schema != SCHEMA {
        return Err(wrong(format!("a journal of form {} {}", journal.journal, journal.schema)));
    }
    Ok(Some(journal))
}
