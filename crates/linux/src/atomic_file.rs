//! A file put in place whole: it grows under another name beside its own and gets its own by a
//! rename, so that whoever looks, now or after a crash, finds the old bytes or the new ones and
//! never a part. Every file of ours that must survive is written here.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Writes `place` by way of `beside`, which must be in the same directory. `fill` writes the bytes,
/// and calls `sync_all` when they are to be on the disk before the name is.
///
/// # Errors
/// The file system's error, or that of `fill`. The old file is as it was, and no part is
/// left.
pub(crate) fn put(
    place: &Path,
    beside: &Path,
    mode: u32,
    fill: &mut dyn FnMut(&mut File) -> io::Result<()>,
) -> io::Result<()> {
    let written = new(beside, mode).and_then(|mut file| {
        fill(&mut file)?;
        fs::rename(beside, place)
    });
    // A part of it is of no use, and may be what fills the disk. The first error is the one that
    // counts.
    written.inspect_err(|_| drop(fs::remove_file(beside)))
}

/// A new file. What a killed writer left must not give its permissions to it.
fn new(path: &Path, mode: u32) -> io::Result<File> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    OpenOptions::new().write(true).create_new(true).mode(mode).open(path)
}

/// A rename is on the disk only when its directory is (fsync(2), notes).
///
/// # Errors
/// The file system's error.
pub(crate) fn sync_dir_of(place: &Path) -> io::Result<()> {
    match place.parent() {
        Some(dir) if dir.as_os_str().is_empty() => File::open(".")?.sync_all(),
        Some(dir) => File::open(dir)?.sync_all(),
        None => Ok(()),
    }
}
