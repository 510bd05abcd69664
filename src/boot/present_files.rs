//! Boot files before the first write: their original bytes, the room for the new ones, and whether
//! another process has changed them since they were planned. Only reads.

use super::error::BootError;
use super::loaders::{BootFilePlan, BootLoader};
use super::restore::without_entries;
use crate::documents::boot::{BootJournal, FileBytes, SavedFile};
use cpushield_linux::{FileAttributes, Host};
use std::collections::BTreeMap;

/// Bytes that must be free in addition to what is written: a file system that is full to the last
/// block fails in unpredictable ways.
const SPARE: u64 = 256 << 10;

/// Reads every file that will be written, and checks that all of them can be, and that every file
/// that will be removed is one of cpushield.
pub(super) fn read_originals(
    host: &Host,
    loader: &dyn BootLoader,
    (journal, file_plan): (&BootJournal, &BootFilePlan),
) -> Result<Vec<SavedFile>, BootError> {
    for path in &file_plan.removed {
        let present = host.read_bytes_if_present(path)?;
        if present.is_some_and(|bytes| !loader.is_ours(path, &bytes)) {
            return Err(BootError::Foreign { path: path.clone() });
        }
    }
    let mut files = Vec::new();
    let edits = file_plan.edits.iter().map(|edit| (&edit.path, Some(edit)));
    for (path, edit) in edits.chain(file_plan.generated.iter().map(|path| (path, None))) {
        let original = host.read_bytes_if_present(path)?;
        let access = match original {
            Some(_) => host.access(path)?,
            None => FileAttributes { mode: edit.map_or(0o644, |edit| edit.mode), owner: None },
        };
        // The leftover of an apply whose journal is lost is no original.
        let original = match (original, edit) {
            (Some(bytes), Some(_)) if loader.is_ours(path, &bytes) => None,
            (Some(_), Some(edit)) if loader.creates(path) => {
                return Err(BootError::Foreign { path: edit.path.clone() });
            }
            (Some(bytes), None) => without_entries(loader, journal, (path, &bytes)).or(Some(bytes)),
            (original, _) => original,
        };
        let size = original.as_ref().map_or(0, Vec::len).max(edit.map_or(0, |e| e.bytes.len()));
        check_space(host, path, size as u64)?;
        files.push(SavedFile {
            path: path.clone(),
            original: original.as_deref().map(FileBytes::new),
            mode: access.mode,
            owner: access.owner,
            left: edit.map(|edit| FileBytes::new(&edit.bytes)),
        });
    }
    Ok(files)
}

/// The new file exists next to the old one for a moment, and may be twice as long.
pub(super) fn check_space(host: &Host, path: &str, size: u64) -> Result<(), BootError> {
    let dir = path.rsplit_once('/').map_or("/", |(dir, _)| dir).to_owned();
    let space = host.free_space(&dir)?;
    let needed = 2 * size + SPARE;
    let why = match space.free {
        _ if space.read_only => "it is mounted read-only".to_owned(),
        Some(free) if free < needed => {
            format!("{} KiB are free, but {} KiB are needed", free >> 10, needed >> 10)
        }
        _ => return Ok(()),
    };
    Err(BootError::NoRoom { path: dir, why })
}

pub(super) fn changed_since_plan(what: &str) -> BootError {
    let why = format!("another process changed {what} after the parameters were planned");
    BootError::wrong(why, Some("check the change, then try again"))
}

/// The files that are written or removed, as they are before.
pub(super) struct PresentTexts(BTreeMap<String, Option<Vec<u8>>>);

impl PresentTexts {
    pub(super) fn read(host: &Host, file_plan: &BootFilePlan) -> Result<PresentTexts, BootError> {
        let mut texts = BTreeMap::new();
        for path in file_plan.paths() {
            texts.insert(path.clone(), host.read_bytes_if_present(path)?);
        }
        Ok(PresentTexts(texts))
    }

    /// Checks that no other process has changed the file since.
    pub(super) fn check(&self, host: &Host, path: &str) -> Result<(), BootError> {
        match self.0.get(path) {
            Some(text) if *text != host.read_bytes_if_present(path)? => {
                Err(changed_since_plan(path))
            }
            _ => Ok(()),
        }
    }
}
