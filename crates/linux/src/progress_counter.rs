//! What a load has done, in memory that another process reads while it goes on: nothing is asked of
//! the one who works, and it never waits for a reader.
//!
//! Elsewhere: what is counted.

use crate::shared_memory::{MappingAccess, SharedMemory};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

/// The counter of one worker, with a cache line of its own; that worker alone writes to it.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct ProgressCounter {
    count: AtomicU64,
    /// 0 waiting, 1 working, 2 ended, 3 and more failed with this number less 3.
    state: AtomicU64,
}

/// Where a worker is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkerState {
    /// It has not begun.
    Waiting,
    /// It works.
    Working,
    /// It has ended by itself.
    Ended,
    /// It could not go on: the error number.
    Failed(i32),
}

impl ProgressCounter {
    /// So much more was done.
    #[inline]
    pub fn add(&self, n: u64) {
        // The only writer needs no locked instruction.
        let before = self.count.load(Ordering::Relaxed);
        self.count.store(before.wrapping_add(n), Ordering::Relaxed);
    }

    /// How much was done so far.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Works until the end of the process, or until it cannot go on.
    pub fn work(&self, work: impl FnOnce(&ProgressCounter) -> io::Result<()>) {
        self.state.store(1, Ordering::Release);
        let state = match work(self) {
            Ok(()) => 2,
            Err(error) => 3 + u64::from(error.raw_os_error().unwrap_or(libc::EIO).unsigned_abs()),
        };
        self.state.store(state, Ordering::Release);
    }

    /// Where its worker is.
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

/// The meters of some workers, in memory that another process finds by a number.
#[derive(Debug)]
pub struct ProgressCounters {
    region: SharedMemory,
    workers: usize,
    /// The file of its maker.
    file: Option<OwnedFd>,
}

impl ProgressCounters {
    /// New meters.
    ///
    /// # Errors
    /// No memory.
    pub fn new(workers: usize) -> io::Result<ProgressCounters> {
        let (region, file) = SharedMemory::create(bytes(workers))?;
        Ok(ProgressCounters { region, workers, file: Some(file) })
    }

    /// The meters of another process, to look at.
    ///
    /// # Errors
    /// It is gone, or may not be looked into.
    pub fn open(pid: i32, number: i32, workers: usize) -> io::Result<ProgressCounters> {
        let region = SharedMemory::open(pid, number, bytes(workers), MappingAccess::Read)?;
        Ok(ProgressCounters { region, workers, file: None })
    }

    /// By which number another process finds it among the open files of its maker.
    #[must_use]
    pub fn number(&self) -> Option<i32> {
        self.file.as_ref().map(AsRawFd::as_raw_fd)
    }

    /// The meter of one worker.
    #[must_use]
    pub fn get(&self, worker: usize) -> Option<&ProgressCounter> {
        if worker >= self.workers {
            return None;
        }
        // SAFETY: the region is as long as `self`, aligned to pages, holds that many meters, and
        // they are nothing but atomics, for which all bytes are valid. Whoever opened it to look
        // has no `add`: a write there would end its process, not harm another's.
        Some(unsafe { &*self.region.start().cast::<ProgressCounter>().as_ptr().add(worker) })
    }

    /// One for each worker.
    pub fn each(&self) -> impl Iterator<Item = &ProgressCounter> {
        (0..self.workers).filter_map(|worker| self.get(worker))
    }

    /// All together.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.each().fold(0, |sum, meter| sum.wrapping_add(meter.count()))
    }
}

/// A region may not be empty.
fn bytes(workers: usize) -> usize {
    workers.max(1).saturating_mul(size_of::<ProgressCounter>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_worker_counts_is_seen_through_another_mapping() {
        let meters = ProgressCounters::new(2).unwrap();
        let pid = i32::try_from(std::process::id()).unwrap();
        let seen = ProgressCounters::open(pid, meters.number().unwrap(), 2).unwrap();
        assert_eq!((seen.total(), seen.get(0).unwrap().state()), (0, WorkerState::Waiting));
        meters.get(0).unwrap().work(|meter| {
            meter.add(5);
            assert_eq!(seen.get(0).unwrap().state(), WorkerState::Working);
            Ok(())
        });
        meters.get(1).unwrap().work(|meter| {
            meter.add(7);
            Err(io::Error::from_raw_os_error(libc::ENOSPC))
        });
        let states: Vec<WorkerState> = seen.each().map(ProgressCounter::state).collect();
        assert_eq!(states, [WorkerState::Ended, WorkerState::Failed(libc::ENOSPC)]);
        assert_eq!((seen.total(), meters.get(2).is_none()), (12, true));
        assert!(
            ProgressCounters::open(pid, meters.number().unwrap(), 200).is_err(),
            "it is not as long"
        );
    }
}
