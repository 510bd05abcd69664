//! The progress of a load, in memory that another process reads at the same time. Reading costs the
//! worker nothing, and it never waits for a reader.
//!
//! Elsewhere: what is counted.

use crate::shared_memory::{AtomicCells, MappingAccess, MemoryMapping};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

/// The counter of one worker, on a separate cache line; only that worker writes to it.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct ProgressCounter {
    count: AtomicU64,
    /// 0: waiting, 1: working, 2: ended, 3 and above: failed with this number minus 3.
    state: AtomicU64,
}

// SAFETY: it consists of atomic numbers only.
unsafe impl AtomicCells for ProgressCounter {}

/// The state of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkerState {
    /// Not started.
    Waiting,
    /// Working.
    Working,
    /// Ended by itself.
    Ended,
    /// Failed with this error number.
    Failed(i32),
}

impl ProgressCounter {
    /// Adds to the count.
    #[inline]
    pub fn add(&self, n: u64) {
        // There is only one writer, so no locked instruction is needed.
        let before = self.count.load(Ordering::Relaxed);
        self.count.store(before.wrapping_add(n), Ordering::Relaxed);
    }

    /// The count so far.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Runs `work` and records the state of the worker.
    pub fn work(&self, work: impl FnOnce(&ProgressCounter) -> io::Result<()>) {
        self.state.store(1, Ordering::Release);
        let state = match work(self) {
            Ok(()) => 2,
            Err(error) => 3 + u64::from(error.raw_os_error().unwrap_or(libc::EIO).unsigned_abs()),
        };
        self.state.store(state, Ordering::Release);
    }

    /// The state of the worker.
    #[must_use]
    pub fn state(&self) -> WorkerState {
        match self.state.load(Ordering::Acquire) {
            0 => WorkerState::Waiting,
            1 => WorkerState::Working,
            2 => WorkerState::Ended,
            n => WorkerState::Failed(i32::try_from(n - 3).unwrap_or(i32::MAX)),
        }
    }
}

/// The counters of all workers, in memory that another process opens by its file descriptor.
#[derive(Debug)]
pub struct ProgressCounters {
    region: MemoryMapping,
    workers: usize,
    /// The file of the memory; `None` in a process that did not create it.
    file: Option<OwnedFd>,
}

impl ProgressCounters {
    /// Creates counters at 0.
    ///
    /// # Errors
    /// No memory.
    pub fn new(workers: usize) -> io::Result<ProgressCounters> {
        let (region, file) = MemoryMapping::create(shared_bytes(workers))?;
        Ok(ProgressCounters { region, workers, file: Some(file) })
    }

    /// Opens the counters of another process for reading.
    ///
    /// # Errors
    /// The process or its file is gone, or this process has no permission.
    pub fn open(pid: i32, number: i32, workers: usize) -> io::Result<ProgressCounters> {
        let region = MemoryMapping::open(pid, number, shared_bytes(workers), MappingAccess::Read)?;
        Ok(ProgressCounters { region, workers, file: None })
    }

    /// The file descriptor by which another process opens the counters; `None` if they were opened.
    #[must_use]
    pub fn number(&self) -> Option<i32> {
        self.file.as_ref().map(AsRawFd::as_raw_fd)
    }

    /// The counter of one worker.
    #[must_use]
    pub fn get(&self, worker: usize) -> Option<&ProgressCounter> {
        self.counters().get(worker)
    }

    /// The counter of each worker.
    pub fn each(&self) -> impl Iterator<Item = &ProgressCounter> {
        self.counters().iter()
    }

    /// A process that opened them for reading never calls [`ProgressCounter::add`].
    fn counters(&self) -> &[ProgressCounter] {
        self.region.cells(0, self.workers)
    }

    /// The sum of all counts.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.each().fold(0, |sum, counter| sum.wrapping_add(counter.count()))
    }
}

/// The size of the region, which may not be empty.
fn shared_bytes(workers: usize) -> usize {
    workers.max(1).saturating_mul(size_of::<ProgressCounter>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_process_sees_the_counts_of_a_worker() {
        let counters = ProgressCounters::new(2).unwrap();
        let pid = i32::try_from(std::process::id()).unwrap();
        let seen = ProgressCounters::open(pid, counters.number().unwrap(), 2).unwrap();
        assert_eq!((seen.total(), seen.get(0).unwrap().state()), (0, WorkerState::Waiting));
        counters.get(0).unwrap().work(|counter| {
            counter.add(5);
            assert_eq!(seen.get(0).unwrap().state(), WorkerState::Working);
            Ok(())
        });
        counters.get(1).unwrap().work(|counter| {
            counter.add(7);
            Err(io::Error::from_raw_os_error(libc::ENOSPC))
        });
        let states: Vec<WorkerState> = seen.each().map(ProgressCounter::state).collect();
        assert_eq!(states, [WorkerState::Ended, WorkerState::Failed(libc::ENOSPC)]);
        assert_eq!((seen.total(), counters.get(2).is_none()), (12, true));
        assert!(
            ProgressCounters::open(pid, counters.number().unwrap(), 200).is_err(),
            "the file is too short"
        );
    }
}
