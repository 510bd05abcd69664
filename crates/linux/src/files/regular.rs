//! Opening a file that must be regular. Anything else is refused before it is opened: a FIFO would
//! block forever, opening a device may have side effects, a symbolic link leads elsewhere.

use std::fmt;
use std::fs::{self, File, FileType, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

/// What a file that is not regular is.
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
    /// A symbolic link, whatever its target.
    Link,
}

impl FileKind {
    /// The kind of a file that is not regular; `None` for a regular file.
    fn from_type(kind: FileType) -> Option<FileKind> {
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

/// Why a file was not opened.
#[derive(Debug)]
pub enum OpenError {
    /// The file system's error.
    Io(io::Error),
    /// It is not a regular file.
    Not(FileKind),
    /// Users other than root and this one may write it, or its directory.
    ForeignWriter {
        /// The owner, if that is the other user; `None` if the mode lets others write.
        uid: Option<u32>,
    },
}

impl From<io::Error> for OpenError {
    fn from(error: io::Error) -> OpenError {
        OpenError::Io(error)
    }
}

/// Checks that no user but root and this one may write a file or directory.
///
/// # Errors
/// Others may.
pub(crate) fn check_writers(found: &fs::Metadata) -> Result<(), OpenError> {
    let own = rustix::process::geteuid().as_raw();
    if found.uid() != 0 && found.uid() != own {
        return Err(OpenError::ForeignWriter { uid: Some(found.uid()) });
    }
    // In a sticky directory, users replace only their own files (unlink(2)).
    let is_sticky = found.is_dir() && found.mode() & 0o1000 != 0;
    match found.mode() & 0o022 == 0 || is_sticky {
        true => Ok(()),
        false => Err(OpenError::ForeignWriter { uid: None }),
    }
}

/// Reads a regular file that no user but root and this one may write, or put into its directory: a
/// journal says what undo writes.
///
/// # Errors
/// The file system's error, or what is wrong with the file or its directory.
pub fn read_own(dir: &Path, name: &str) -> Result<Vec<u8>, OpenError> {
    let mut file = open_regular(&dir.join(name), OpenOptions::new().read(true))?;
    check_writers(&fs::metadata(dir)?)?;
    check_writers(&file.metadata()?)?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Opens a file with these options, without following a symbolic link and without blocking. The
/// type is checked before and after the open, because another process may replace the file.
///
/// # Errors
/// The file system's error, or the kind of a file that is not regular.
pub fn open_regular(path: &Path, options: &mut OpenOptions) -> Result<File, OpenError> {
    match fs::symlink_metadata(path) {
        Ok(found) => require_regular(found.file_type())?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error.into()),
    }
    let file = options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)?;
    require_regular(file.metadata()?.file_type())?;
    Ok(file)
}

fn require_regular(kind: FileType) -> Result<(), OpenError> {
    FileKind::from_type(kind).map_or(Ok(()), |kind| Err(OpenError::Not(kind)))
}
