//! Files of the machine other than kernel files: those of a boot loader and of the distribution.
//! They are replaced atomically, keep their owner and permissions, and are synced to the disk.
//! Paths are those of the machine that a [`Host`] shows.

use crate::error::{Error, Operation, Result};
use crate::files::local_files::FileAttributes;
use crate::host::Host;
use rustix::fs::{StatVfsMountFlags, statvfs};
use std::io;

/// What a file system can still store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FreeSpace {
    /// Free bytes for root; `None` if unknown (a recorded machine).
    pub free: Option<u64>,
    /// Whether it is mounted read-only.
    pub read_only: bool,
}

impl Host {
    /// Reads owner and permissions of a file.
    ///
    /// # Errors
    /// The file system's error.
    pub fn access(&self, path: &str) -> Result<FileAttributes> {
        self.files.access(path).map_err(Error::on(Operation::Read, path))
    }

    /// Sets owner and permissions of a file. A recorded machine keeps only what this user may set.
    ///
    /// # Errors
    /// The file system's error.
    pub fn set_access(&self, path: &str, access: FileAttributes) -> Result<()> {
        self.before_write(Operation::Write, path)?;
        let answer = self.files.set_access(path, access).map_err(Error::on(Operation::Write, path));
        self.log_result(Operation::Write, path, None, answer)
    }

    /// Resolves the symbolic links of a path; returns the path itself if it does not exist.
    #[must_use]
    pub fn resolve_links(&self, path: &str) -> String {
        self.files.resolve(path).unwrap_or_else(|| path.to_owned())
    }

    /// Replaces a file atomically: it has the old bytes or the new ones. They are on the disk when
    /// this returns.
    ///
    /// # Errors
    /// The file system's error. The old file is unchanged, unless only syncing its directory
    /// failed.
    pub fn replace_file(&self, path: &str, bytes: &[u8], access: FileAttributes) -> Result<()> {
        self.before_write(Operation::Write, path)?;
        let answer = self.files.replace(path, bytes, access);
        let answer = answer.map_err(Error::on(Operation::Write, path));
        self.log_result(Operation::Write, path, None, answer)
    }

    /// Removes a file; that is on the disk when this returns. The file need not exist.
    ///
    /// # Errors
    /// The file system's error.
    pub fn erase_file(&self, path: &str) -> Result<()> {
        self.before_write(Operation::Remove, path)?;
        let failed = Error::on(Operation::Remove, path);
        match self.files.remove_file(path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
            answer => self.log_result(Operation::Remove, path, None, answer.map_err(failed))?,
        }
        self.files.sync_dir_of(path).map_err(failed)
    }

    /// The free space of the file system that contains a path.
    ///
    /// # Errors
    /// The file system's error.
    pub fn free_space(&self, path: &str) -> Result<FreeSpace> {
        if !self.is_live() {
            return Ok(FreeSpace { free: None, read_only: false });
        }
        let stat = statvfs(self.local_path(path))
            .map_err(|errno| Error::io(Operation::Read, path, errno.into()))?;
        let read_only = stat.f_flag.contains(StatVfsMountFlags::RDONLY);
        let free = stat.f_bfree.saturating_mul(stat.f_frsize);
        Ok(FreeSpace { free: Some(free), read_only })
    }
}
