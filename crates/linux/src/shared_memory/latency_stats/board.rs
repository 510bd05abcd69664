//! The tallies of all measuring threads, in memory that several processes share.

use super::LatencyStats;
use crate::shared_memory::{MappingAccess, MemoryMapping};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// The tallies of all threads, in shared memory that another process opens by its file descriptor.
#[derive(Debug)]
pub struct LatencyBoard {
    region: MemoryMapping,
    threads: usize,
    /// The file of the memory; `None` in a process that did not create it.
    file: Option<OwnedFd>,
    /// Whether the memory could be locked.
    pub locked: bool,
}

impl LatencyBoard {
    /// Creates empty tallies.
    ///
    /// # Errors
    /// No memory.
    pub fn new(threads: usize) -> io::Result<LatencyBoard> {
        let (region, file) =
            MemoryMapping::create(threads.saturating_mul(size_of::<LatencyStats>()))?;
        let locked = region.lock();
        Ok(LatencyBoard { region, threads, file: Some(file), locked })
    }

    /// Opens the tallies of another process.
    ///
    /// # Errors
    /// The process or its file is gone, or this process has no permission.
    pub fn open(pid: i32, number: i32, threads: usize) -> io::Result<LatencyBoard> {
        let bytes = threads.saturating_mul(size_of::<LatencyStats>());
        let region = MemoryMapping::open(pid, number, bytes, MappingAccess::Write)?;
        Ok(LatencyBoard { region, threads, file: None, locked: false })
    }

    /// The file descriptor by which another process opens the memory; `None` where it was opened.
    #[must_use]
    pub fn number(&self) -> Option<i32> {
        self.file.as_ref().map(AsRawFd::as_raw_fd)
    }

    /// The tally of each thread.
    #[must_use]
    pub fn tallies(&self) -> &[LatencyStats] {
        self.region.cells(0, self.threads)
    }
}
