//! The raw pages of one CPU's buffer, and the kernel's counters for it.

use crate::error::{Error, Operation, Result};
use crate::trace::ring_buffer::PageLayout;
use std::fs::File;
use std::io::{self, Read};

/// The raw pages of one CPU.
#[derive(Debug)]
pub struct TracePipe {
    pub(super) path: String,
    pub(super) file: File,
    pub(super) layout: PageLayout,
    pub(super) page: Vec<u8>,
}

impl TracePipe {
    /// The layout of the pages.
    #[must_use]
    pub fn layout(&self) -> PageLayout {
        self.layout
    }

    /// The next page that holds records; `None` if there is none now. Never waits.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn next_page(&mut self) -> Result<Option<&[u8]>> {
        let mut filled = 0;
        while filled < self.page.len() {
            match self.file.read(&mut self.page[filled..]) {
                Ok(0) => break,
                Ok(n) => filled += n,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(Error::io(Operation::Read, &self.path, e)),
            }
        }
        Ok((filled > 0).then(|| &self.page[..filled]))
    }
}

/// Counters of one CPU's buffer, from `per_cpu/cpuN/stats`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BufferStats {
    /// Events that were overwritten before they were read.
    pub overrun: u64,
    /// Events lost because an interrupt filled the buffer while another was being written.
    pub commit_overrun: u64,
    /// Events not recorded because the buffer was full, if it does not overwrite.
    pub dropped: u64,
    /// Events that were read, by any process.
    pub read: u64,
}

impl BufferStats {
    /// Parses the text; `None` if a counter is missing.
    #[must_use]
    pub fn parse(text: &str) -> Option<BufferStats> {
        Some(BufferStats {
            overrun: counter(text, "overrun:")?,
            commit_overrun: counter(text, "commit overrun:")?,
            dropped: counter(text, "dropped events:")?,
            read: counter(text, "read events:")?,
        })
    }

    /// All events that are not in the pages.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.overrun.saturating_add(self.commit_overrun).saturating_add(self.dropped)
    }
}

fn counter(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(key)?.trim().parse().ok())
}
