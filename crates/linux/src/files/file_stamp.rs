//! [`FileStamp`]: whether a file of a [`Store`] has changed, without reading it.

use super::store::Store;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// A version of a file. Two stamps of a file that was written in between differ, as far as the
/// clock of the file system (`current_time()`, fs/inode.c, 6.12) or the length can tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileStamp {
    /// There is no such file.
    Absent,
    /// This user may not look at it.
    Unreadable,
    /// The file.
    Present {
        /// The number of its inode.
        inode: u64,
        /// Its length in bytes.
        len: u64,
        /// When it was last changed, in seconds and nanoseconds.
        changed: (i64, i64),
    },
}

impl Store {
    /// The current version of a file.
    #[must_use]
    pub fn stamp(&self, name: &str) -> FileStamp {
        match std::fs::metadata(Path::new(&self.path(name))) {
            Ok(file) => FileStamp::Present {
                inode: file.ino(),
                len: file.len(),
                changed: (file.ctime(), file.ctime_nsec()),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => FileStamp::Absent,
            Err(_) => FileStamp::Unreadable,
        }
    }
}
