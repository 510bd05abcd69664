//! Writing a file atomically. It is written under a temporary name in the same directory and then
//! renamed. So a reader, now or after a crash, finds the old bytes or the new ones and never a
//! part. Every file of this project that must survive a crash is written here.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The temporary name of a file while it is written. It is always the same, so that the next write
/// replaces what a killed writer left. It starts with a dot, so that programs which run or read
/// every file matching `*` in a directory (grub-mkconfig, run-parts) do not see it.
pub(crate) fn temporary_path(path: &Path) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(".cpushield-new");
    path.with_file_name(name)
}

/// Writes `path` by way of `temporary`, which must be in the same directory. `fill` writes the
/// bytes; it must call `sync_all` if they have to be on the disk before the name is.
///
/// # Errors
/// The file system's error, or that of `fill`. The old file is unchanged, and no partial file is
/// left.
pub(crate) fn put(
    path: &Path,
    temporary: &Path,
    mode: u32,
    fill: &mut dyn FnMut(&mut File) -> io::Result<()>,
) -> io::Result<()> {
    let written = create(temporary, mode).and_then(|mut file| {
        fill(&mut file)?;
        fs::rename(temporary, path)
    });
    // A partial file is of no use, and may be what fills the disk. The first error counts.
    written.inspect_err(|_| drop(fs::remove_file(temporary)))
}

/// Creates a file. A file that a killed writer left is removed, so that its permissions are not
/// kept. A link is never followed.
///
/// # Errors
/// The file system's error.
pub(crate) fn create(path: &Path, mode: u32) -> io::Result<File> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    OpenOptions::new().write(true).create_new(true).mode(mode).open(path)
}

/// Syncs the directory of a file: a rename is on the disk only after that (fsync(2), notes).
///
/// # Errors
/// The file system's error.
pub(crate) fn sync_dir_of(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(dir) if dir.as_os_str().is_empty() => File::open(".")?.sync_all(),
        Some(dir) => File::open(dir)?.sync_all(),
        None => Ok(()),
    }
}
