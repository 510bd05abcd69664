//! Files that a person names: policies, plans, reports. They lie where the person says, never
//! inside a recorded machine.

use crate::error::{Error, Result, Verb};
use std::fs;
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

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
    write_stream(path, &mut |out| out.write_all(text.as_bytes()))
}

/// Whether a document can be written there, asked before the work that it is to hold.
///
/// # Errors
/// The kernel's answer to the same steps as those of [`write_stream`].
pub fn can_write(path: &Path) -> Result<()> {
    if fs::metadata(path).is_ok_and(|found| !found.is_file()) {
        return Ok(());
    }
    let name = path.display().to_string();
    let beside = beside(path);
    fs::File::create(&beside)
        .and_then(|_| fs::remove_file(&beside))
        .map_err(|e| Error::io(Verb::Write, &name, e))
}

/// Where a document grows before it gets its name.
fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    PathBuf::from(name)
}

/// Writes a document piece by piece: it is there complete or not at all.
///
/// # Errors
/// The kernel's answer, or that of `fill`.
pub fn write_stream(
    path: &Path,
    fill: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>,
) -> Result<()> {
    let name = path.display().to_string();
    let fail = |e| Error::io(Verb::Write, &name, e);
    let mut write = |to: &Path| {
        let mut out = BufWriter::new(fs::File::create(to)?);
        fill(&mut out)?;
        out.flush()
    };
    // Renaming over a device or a pipe would replace it.
    if fs::metadata(path).is_ok_and(|found| !found.is_file()) {
        return write(path).map_err(fail);
    }
    let beside = beside(path);
    write(&beside).and_then(|()| fs::rename(&beside, path)).map_err(|e| {
        // The error that counts is the first one.
        let _ = fs::remove_file(&beside);
        fail(e)
    })
}
