//! Opening a file that must be a regular one. Anything else under its name is refused before it is
//! opened: a FIFO would block forever, a device may act on being opened, a link leads elsewhere.

use std::fmt;
use std::fs::{self, File, FileType, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

/// What lies where a regular file should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// A named pipe.
    Fifo,
    /// A Unix socket.
    Socket,
    /// A block or character device.
    Device,
    /// A directory.
    Directory,
    /// A symbolic link, wherever it leads.
    Link,
}

impl FileKind {
    /// `None` for a regular file.
    fn of(kind: FileType) -> Option<FileKind> {
        if kind.is_file() {
            None
        } else if kind.is_fifo() {
            Some(FileKind::Fifo)
        } else if kind.is_socket() {
            Some(FileKind::Socket)
        } else if kind.is_dir() {
            Some(FileKind::Directory)
        } else if kind.is_symlink() {
            Some(FileKind::Link)
        } else {
            Some(FileKind::Device)
        }
    }
}

impl fmt::Display for FileKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FileKind::Fifo => "a FIFO",
            FileKind::Socket => "a socket",
            FileKind::Device => "a device",
            FileKind::Directory => "a directory",
            FileKind::Link => "a symbolic link",
        })
    }
}

/// Why it was not opened.
#[derive(Debug)]
pub enum OpenError {
    /// The file system's error.
    Io(io::Error),
    /// It is no regular file.
    Not(FileKind),
}

impl From<io::Error> for OpenError {
    fn from(error: io::Error) -> OpenError {
        OpenError::Io(error)
    }
}

/// Opens a file as `options` say, without following a link and without ever waiting. The type is
/// looked at before, and again behind the open, because another process may exchange the file.
///
/// # Errors
/// As [`OpenError`] says.
pub fn open_regular(path: &Path, options: &mut OpenOptions) -> Result<File, OpenError> {
    match fs::symlink_metadata(path) {
        Ok(found) => refuse_others(found.file_type())?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error.into()),
    }
    let file = options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)?;
    refuse_others(file.metadata()?.file_type())?;
    Ok(file)
}

fn refuse_others(kind: FileType) -> Result<(), OpenError> {
    FileKind::of(kind).map_or(Ok(()), |kind| Err(OpenError::Not(kind)))
}
