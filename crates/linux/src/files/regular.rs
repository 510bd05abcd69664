//! Opening a file that must be regular. Anything else is refused before it is opened: a FIFO would
//! block forever, opening a device may have side effects, a symbolic link leads elsewhere.

use crate::error::{Error, Operation, Result as HostResult};
use crate::host::{FILE_BYTES_MAX, Host};
use std::fmt;
use std::fs::{self, File, FileType, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
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
}

impl From<io::Error> for OpenError {
    fn from(error: io::Error) -> OpenError {
        OpenError::Io(error)
    }
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

impl Host {
    /// Reads a text file of the machine that must be regular, such as the configuration of another
    /// program. Symbolic links to such a file are followed. Bytes that are not UTF-8 are replaced.
    ///
    /// # Errors
    /// The file system's error, or it is not a regular file.
    pub fn read_regular(&self, path: &str) -> HostResult<String> {
        let bytes = self.finish_read(path, self.read_regular_file(path))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn read_regular_file(&self, path: &str) -> HostResult<Vec<u8>> {
        self.recorded_error(Operation::Read, path)?;
        let local = self.local_path(&self.resolve_links(path));
        let file = open_regular(&local, OpenOptions::new().read(true))
            .map_err(|error| Error::open(Operation::Read, path, error))?;
        let mut bytes = Vec::new();
        file.take(FILE_BYTES_MAX + 1)
            .read_to_end(&mut bytes)
            .map_err(Error::on(Operation::Read, path))?;
        match bytes.len() as u64 > FILE_BYTES_MAX {
            true => Err(Error::os(Operation::Read, path, libc::EFBIG)),
            false => Ok(bytes),
        }
    }
}

fn require_regular(kind: FileType) -> Result<(), OpenError> {
    FileKind::from_type(kind).map_or(Ok(()), |kind| Err(OpenError::Not(kind)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, FileType as RawType, Mode, mknodat};
    use std::os::unix::fs::symlink;

    #[test]
    fn a_fifo_is_an_error_and_a_link_to_a_regular_file_is_read() {
        let dir = std::env::temp_dir().join(format!("cpushield-regular-{}", std::process::id()));
        fs::create_dir_all(dir.join("etc")).unwrap();
        fs::write(dir.join("etc/file"), "text\n").unwrap();
        symlink("file", dir.join("etc/link")).unwrap();
        mknodat(CWD, dir.join("etc/fifo"), RawType::Fifo, Mode::RUSR, 0).unwrap();
        symlink("fifo", dir.join("etc/to-fifo")).unwrap();
        let host = Host::recorded(&dir).unwrap();
        let read = |path: &str| host.read_regular(path).map_err(|error| error.reason());
        for path in ["/etc/file", "/etc/link"] {
            assert_eq!(read(path), Ok("text\n".to_owned()), "{path}");
        }
        for (path, kind) in
            [("/etc/fifo", "a FIFO"), ("/etc/to-fifo", "a FIFO"), ("/etc", "a directory")]
        {
            assert_eq!(read(path), Err(format!("it is {kind}, not a regular file")), "{path}");
        }
        assert!(host.read_regular("/etc/none").unwrap_err().is_absent());
        fs::remove_dir_all(dir).unwrap();
        let device = Host::live().read_regular("/dev/zero").unwrap_err().reason();
        assert_eq!(device, "it is a device, not a regular file");
    }
}
