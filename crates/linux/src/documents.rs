//! Files that a person names: policies, plans, reports. They lie where the person says, never
//! inside a recorded machine.

use crate::atomic_file;
use crate::error::{Error, Operation, Result};
use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

/// A plan of a machine with thousands of CPUs has a few MiB.
const BYTES_MAX: u64 = 64 << 20;

/// Reads a document whole.
///
/// # Errors
/// The kernel's error; EFBIG for what cannot be a document; text that is not UTF-8.
pub fn read_document(path: &Path) -> Result<String> {
    let name = path.display().to_string();
    let fail = |e| Error::io(Operation::Read, &name, e);
    let mut bytes = Vec::new();
    let file = fs::File::open(path).map_err(fail)?;
    file.take(BYTES_MAX + 1).read_to_end(&mut bytes).map_err(fail)?;
    if bytes.len() as u64 > BYTES_MAX {
        return Err(Error::os(Operation::Read, &name, libc::EFBIG));
    }
    String::from_utf8(bytes).map_err(|e| {
        let at = e.utf8_error().valid_up_to();
        let (before, rest) = e.as_bytes().split_at(at);
        let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
        let byte = rest.first().copied().unwrap_or_default();
        Error::malformed(&name, line, "UTF-8 text", &format!("byte {byte:#04x} at offset {at}"))
    })
}

/// Writes a document whole: it is there complete or not at all.
///
/// # Errors
/// The kernel's error.
pub fn write_document(path: &Path, text: &str) -> Result<()> {
    write_stream(path, &mut |out| out.write_all(text.as_bytes()))
}

/// Whether a document can be written there, asked before the work that it is to hold.
///
/// # Errors
/// The kernel's error to the same steps as those of [`write_stream`].
pub fn can_write(path: &Path) -> Result<()> {
    if is_no_file(path) {
        return Ok(());
    }
    let name = path.display().to_string();
    let beside = beside(path);
    fs::File::create(&beside)
        .and_then(|_| fs::remove_file(&beside))
        .map_err(|e| Error::io(Operation::Write, &name, e))
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
/// The kernel's error, or that of `fill`.
pub fn write_stream(
    path: &Path,
    fill: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>,
) -> Result<()> {
    if is_no_file(path) {
        return straight(path, fill);
    }
    atomic_file::put(path, &beside(path), 0o666, &mut |file| buffered(file, fill))
        .map_err(|e| Error::io(Operation::Write, &path.display().to_string(), e))
}

/// Writes a document whole, on the disk when this returns: what was there before stays until then,
/// whatever ends this program or the machine.
///
/// # Errors
/// The kernel's error.
pub fn keep_document(path: &Path, text: &str) -> Result<()> {
    if is_no_file(path) {
        return straight(path, &mut |out| out.write_all(text.as_bytes()));
    }
    let mut fill = |file: &mut File| {
        file.write_all(text.as_bytes())?;
        file.sync_all()
    };
    // Always the same name, so that what a killed writer left is gone with the next one.
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    atomic_file::put(path, Path::new(&beside), 0o666, &mut fill)
        .and_then(|()| atomic_file::sync_dir_of(path))
        .map_err(|e| Error::io(Operation::Write, &path.display().to_string(), e))
}

/// Whether it is a device or a pipe, which renaming would replace.
fn is_no_file(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| !found.is_file())
}

/// Writes to a device or a pipe.
fn straight(path: &Path, fill: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>) -> Result<()> {
    File::create(path)
        .and_then(|mut file| buffered(&mut file, fill))
        .map_err(|e| Error::io(Operation::Write, &path.display().to_string(), e))
}

fn buffered(
    file: &mut File,
    fill: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    let mut out = BufWriter::new(file);
    fill(&mut out)?;
    out.flush()
}
