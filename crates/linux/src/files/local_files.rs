//! [`MachineFiles`]: where the files of a machine are. They are those of the running system or of a
//! recorded directory ([`LocalFiles`]); tests also have a recording with changes in memory over it.

use crate::files::atomic_file;
use crate::files::fast_read::{CHUNK, CHUNK_BYTES, is_whole_at_first_read, open};
use crate::files::regular::{OpenError, open_regular};
use crate::recording::root_dir::{self, Listed, RootDir};
use rustix::fs::OFlags;
use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, fchown};
use std::path::PathBuf;

/// The maximum size of a file that is read: the largest kernel texts (without kallsyms) are a few
/// MiB.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// Owner and permissions of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileAttributes {
    /// Permission bits, `0o755`.
    pub mode: u32,
    /// User and group; `None` for those of the writing process.
    pub owner: Option<(u32, u32)>,
}

/// The files of a machine. Paths are absolute. A link at the end of a path is followed by what
/// reads, by `write` and for attributes. Errors are those of the file system.
pub trait MachineFiles: std::fmt::Debug + Send + Sync {
    /// Reads a whole file of any kind.
    fn read(&self, path: &str) -> io::Result<Vec<u8>>;
    /// Reads a file that must be regular.
    fn read_regular(&self, path: &str) -> Result<Vec<u8>, OpenError>;
    /// The names in a directory, in any order.
    fn list(&self, path: &str, listed: Listed) -> io::Result<Vec<String>>;
    /// Whether a path is a directory; `None` if there is nothing.
    fn is_dir(&self, path: &str) -> Option<bool>;
    /// The target of a symbolic link.
    fn read_link(&self, path: &str) -> io::Result<String>;
    /// The path without symbolic links; `None` if there is nothing.
    fn resolve(&self, path: &str) -> Option<String>;
    /// Sets the content of a file, and creates it if there is none.
    fn write(&self, path: &str, bytes: &[u8]) -> io::Result<()>;
    /// Replaces a file as a whole, with these attributes, on the disk.
    fn replace(&self, path: &str, bytes: &[u8], access: FileAttributes) -> io::Result<()>;
    /// Creates a directory in an existing one.
    fn make_dir(&self, path: &str) -> io::Result<()>;
    /// Removes an empty directory.
    fn remove_dir(&self, path: &str) -> io::Result<()>;
    /// Removes a file or a link.
    fn remove_file(&self, path: &str) -> io::Result<()>;
    /// Syncs the directory of a file to the disk.
    fn sync_dir_of(&self, path: &str) -> io::Result<()>;
    /// Owner and permissions.
    fn access(&self, path: &str) -> io::Result<FileAttributes>;
    /// Sets owner and permissions.
    fn set_access(&self, path: &str, access: FileAttributes) -> io::Result<()>;
}

/// The files below a directory: `/` of the running system, or a recorded machine.
#[derive(Debug)]
pub struct LocalFiles {
    root: PathBuf,
    /// The root of a recorded machine, which no link leads out of; `None` for the running system.
    recorded: Option<RootDir>,
}

impl LocalFiles {
    /// The running system.
    pub(crate) fn live() -> LocalFiles {
        LocalFiles { root: PathBuf::from("/"), recorded: None }
    }

    /// A recorded machine; `root` must have no links.
    ///
    /// # Errors
    /// The directory cannot be opened.
    pub fn recorded(root: PathBuf) -> io::Result<LocalFiles> {
        Ok(LocalFiles { recorded: Some(RootDir::open(&root)?), root })
    }

    /// The path of a file for this process.
    fn path(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    fn open(&self, path: &str) -> io::Result<fs::File> {
        match &self.recorded {
            Some(dir) => dir.read(path),
            None => open(&self.path(path), OFlags::RDONLY),
        }
    }
}

impl MachineFiles for LocalFiles {
    fn read(&self, path: &str) -> io::Result<Vec<u8>> {
        let mut file = self.open(path)?;
        // A recording has plain files, which end at a short read.
        let one_read = self.recorded.is_some() || is_whole_at_first_read(path);
        CHUNK.with_borrow_mut(|chunk| {
            chunk.resize(CHUNK_BYTES, 0);
            let mut bytes = Vec::new();
            loop {
                match file.read(chunk) {
                    Ok(0) => return Ok(bytes),
                    Ok(n) => {
                        bytes.extend_from_slice(&chunk[..n]);
                        if one_read && n < chunk.len() {
                            return Ok(bytes);
                        }
                    }
                    Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                    Err(e) => return Err(e),
                }
                check_size(&bytes)?;
            }
        })
    }

    fn read_regular(&self, path: &str) -> Result<Vec<u8>, OpenError> {
        let local = self.path(&self.resolve(path).unwrap_or_else(|| path.to_owned()));
        let file = open_regular(&local, OpenOptions::new().read(true))?;
        let mut bytes = Vec::new();
        file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
        check_size(&bytes)?;
        Ok(bytes)
    }

    fn list(&self, path: &str, listed: Listed) -> io::Result<Vec<String>> {
        match &self.recorded {
            Some(dir) => dir.list(path, listed),
            None => open(&self.path(path), OFlags::RDONLY | OFlags::DIRECTORY)
                .and_then(|dir| root_dir::names(dir.into(), listed)),
        }
    }

    fn is_dir(&self, path: &str) -> Option<bool> {
        match &self.recorded {
            Some(dir) => dir.has(path).then(|| self.path(path).is_dir()),
            None => Some(self.path(path).metadata().ok()?.is_dir()),
        }
    }

    fn read_link(&self, path: &str) -> io::Result<String> {
        Ok(fs::read_link(self.path(path))?.to_string_lossy().into_owned())
    }

    fn resolve(&self, path: &str) -> Option<String> {
        let real = self.path(path).canonicalize().ok()?;
        Some(format!("/{}", real.strip_prefix(&self.root).ok()?.display()))
    }

    fn write(&self, path: &str, bytes: &[u8]) -> io::Result<()> {
        fs::write(self.path(path), bytes)
    }

    fn replace(&self, path: &str, bytes: &[u8], access: FileAttributes) -> io::Result<()> {
        let local = self.path(path);
        atomic_file::put(&local, &atomic_file::temporary_path(&local), 0o600, &mut |file| {
            file.write_all(bytes)?;
            if let Some((uid, gid)) = access.owner.filter(|_| self.recorded.is_none()) {
                // File systems without owners (FAT) refuse this; that is not an error.
                match fchown(&*file, Some(uid), Some(gid)) {
                    Err(e) if e.raw_os_error() != Some(libc::EPERM) => return Err(e),
                    _ => {}
                }
            }
            file.set_permissions(fs::Permissions::from_mode(access.mode))?;
            file.sync_all()
        })?;
        self.sync_dir_of(path)
    }

    fn make_dir(&self, path: &str) -> io::Result<()> {
        fs::create_dir(self.path(path))
    }

    fn remove_dir(&self, path: &str) -> io::Result<()> {
        fs::remove_dir(self.path(path))
    }

    fn remove_file(&self, path: &str) -> io::Result<()> {
        fs::remove_file(self.path(path))
    }

    fn sync_dir_of(&self, path: &str) -> io::Result<()> {
        atomic_file::sync_dir_of(&self.path(path))
    }

    fn access(&self, path: &str) -> io::Result<FileAttributes> {
        let metadata = fs::metadata(self.path(path))?;
        let owner = Some((metadata.uid(), metadata.gid()));
        Ok(FileAttributes { mode: metadata.permissions().mode() & 0o7777, owner })
    }

    fn set_access(&self, path: &str, access: FileAttributes) -> io::Result<()> {
        let local = self.path(path);
        let owned = match access.owner {
            Some((uid, gid)) => chown(&local, Some(uid), Some(gid)),
            None => Ok(()),
        };
        match owned {
            // A recorded machine keeps only what this user may set.
            Err(error) if error.raw_os_error() != Some(libc::EPERM) || self.recorded.is_none() => {
                Err(error)
            }
            _ => fs::set_permissions(&local, fs::Permissions::from_mode(access.mode)),
        }
    }
}

fn check_size(bytes: &[u8]) -> io::Result<()> {
    if bytes.len() as u64 > FILE_BYTES_MAX {
        Err(io::Error::from_raw_os_error(libc::EFBIG))
    } else {
        Ok(())
    }
}
