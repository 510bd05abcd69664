//! Files that a person names: policies, plans, reports. They lie where the person says, never
//! inside a recorded machine.

use crate::error::{Error, Result, Verb};
use std::fs;
use std::io::Read;
use std::path::Path;

/// A plan of a machine with thousands of CPUs has a few MiB.
const BYTES_MAX: u64 = 64 << 20;

/// Reads a document whole.
///
/// # Errors
/// The kernel's answer; EFBIG for what cannot be a document; text that is not UTF-8.
pub fn read_document(path: &Path) -> Result<String> {
    let name = path.display().to_string();
    let fail = |e| Error::io(Verb::Read, &name, e);
    let mut bytes = Vec::new();
    let file = fs::File::open(path).map_err(fail)?;
    file.take(BYTES_MAX + 1).read_to_end(&mut bytes).map_err(fail)?;
    if bytes.len() as u64 > BYTES_MAX {
        return Err(Error::os(Verb::Read, &name, libc::EFBIG));
    }
    String::from_utf8(bytes).map_err(|e| {
        let line = 1 + e.as_bytes()[..e.utf8_error().valid_up_to()]
            .iter()
            .filter(|byte| **byte == b'\n')
            .count();
        Error::malformed(&name, line, "UTF-8 text", "other bytes")
    })
}

/// Writes a document whole: it is there complete or not at all.
///
/// # Errors
/// The kernel's answer.
pub fn write_document(path: &Path, text: &str) -> Result<()> {
    let name = path.display().to_string();
    let fail = |e| Error::io(Verb::Write, &name, e);
    // Renaming over a device or a pipe would replace it.
    if fs::metadata(path).is_ok_and(|found| !found.is_file()) {
        return fs::write(path, text).map_err(fail);
    }
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".{}.new", std::process::id()));
    fs::write(&beside, text).map_err(fail)?;
    fs::rename(&beside, path).map_err(|e| {
        // The error that counts is that of the rename.
        let _ = fs::remove_file(&beside);
        fail(e)
    })
}
