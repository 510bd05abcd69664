//! A ring of gaps that the sampler's loop writes and another process reads at the same time. The
//! loop never waits and makes no system call; a reader that is too slow learns how many it missed.
//!
//! The reader must be another process: when the sampler's own process maps or unmaps memory, that
//! may interrupt the CPUs on which its spinners run.

use super::Gap;
use crate::shared_memory::{AtomicCells, MappingAccess, MemoryMapping};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// One gap in the ring.
#[derive(Debug, Default)]
#[repr(C)]
pub struct GapSlot {
    start: AtomicU64,
    end: AtomicU64,
}

/// A number on a separate cache line: reading one must not slow down the writer of the other.
#[derive(Debug, Default)]
#[repr(C, align(64))]
struct CacheLine(AtomicU64);

/// The start of the shared memory; the slots follow.
#[derive(Debug, Default)]
#[repr(C)]
struct RingHeader {
    /// The loop's last clock read, in ticks.
    last_tick: CacheLine,
    /// Gaps written so far.
    written: CacheLine,
}

// SAFETY: both consist of atomic numbers only.
unsafe impl AtomicCells for GapSlot {}
// SAFETY: as above.
unsafe impl AtomicCells for RingHeader {}

/// Where the loop writes its gaps.
#[derive(Debug, Clone, Copy)]
pub struct GapSink<'a> {
    pub(super) written: &'a AtomicU64,
    pub(super) slots: &'a [GapSlot],
}

impl GapSink<'_> {
    /// Writes a gap over the oldest one.
    #[inline(always)]
    pub(super) fn push(&self, start: u64, end: u64) {
        let n = self.written.load(Ordering::Relaxed);
        let index = n.checked_rem(self.slots.len() as u64).unwrap_or(0);
        if let Some(slot) = usize::try_from(index).ok().and_then(|index| self.slots.get(index)) {
            slot.start.store(start, Ordering::Relaxed);
            slot.end.store(end, Ordering::Relaxed);
        }
        self.written.store(n.wrapping_add(1), Ordering::Release);
        // A reader must not see a later gap before this number, which tells it what is still whole.
        fence(Ordering::Release);
    }

    /// Appends the gaps from number `from` on. Returns how many of them were overwritten before
    /// they could be read, and the number of the next gap.
    fn read(&self, from: u64, into: &mut Vec<Gap>) -> (u64, u64) {
        let capacity = self.slots.len() as u64;
        let written = self.written.load(Ordering::Acquire);
        let first = from.max(written.saturating_sub(capacity));
        let begin = into.len();
        for n in first..written {
            let index = usize::try_from(n.checked_rem(capacity).unwrap_or(0)).unwrap_or(0);
            if let Some(slot) = self.slots.get(index) {
                let start = slot.start.load(Ordering::Relaxed);
                into.push(Gap { start, end: slot.end.load(Ordering::Relaxed) });
            }
        }
        fence(Ordering::Acquire);
        // The slot after the last number may be half written already.
        let written_now = self.written.load(Ordering::Relaxed);
        let whole = written_now.saturating_add(1).saturating_sub(capacity);
        let torn = usize::try_from(whole.saturating_sub(first)).unwrap_or(usize::MAX);
        into.drain(begin..into.len().min(begin.saturating_add(torn)));
        let lost = whole.max(first).min(written).saturating_sub(from);
        (lost, written)
    }
}

/// The memory of a ring, shared by the processes that open its file.
#[derive(Debug)]
struct RingMemory {
    region: MemoryMapping,
    capacity: usize,
}

impl RingMemory {
    fn header(&self) -> &RingHeader {
        self.region.cell(0)
    }

    fn gaps(&self) -> GapSink<'_> {
        let slots = self.region.cells(size_of::<RingHeader>(), self.capacity);
        GapSink { written: &self.header().written.0, slots }
    }
}

fn ring_bytes(capacity: usize) -> usize {
    size_of::<RingHeader>().saturating_add(capacity.saturating_mul(size_of::<GapSlot>()))
}

/// A ring in the process that created it.
#[derive(Debug)]
pub struct GapRing {
    shared: RingMemory,
    file: OwnedFd,
    /// Whether the memory could be locked.
    pub locked: bool,
}

impl GapRing {
    /// Creates a ring for this many gaps.
    ///
    /// # Errors
    /// No memory.
    pub fn new(capacity: usize) -> io::Result<GapRing> {
        let (region, file) = MemoryMapping::create(ring_bytes(capacity))?;
        let locked = region.lock();
        let shared = RingMemory { region, capacity };
        Ok(GapRing { shared, file, locked })
    }

    /// The file descriptor by which another process opens the ring.
    #[must_use]
    pub fn number(&self) -> i32 {
        self.file.as_raw_fd()
    }

    /// Where the loop writes its gaps.
    pub(super) fn gaps(&self) -> GapSink<'_> {
        self.shared.gaps()
    }

    pub(super) fn last_tick(&self) -> &AtomicU64 {
        &self.shared.header().last_tick.0
    }

    /// The gaps now in the ring, oldest first.
    #[must_use]
    pub fn newest(&self) -> Vec<Gap> {
        let mut gaps = Vec::new();
        self.gaps().read(0, &mut gaps);
        gaps
    }
}

/// A ring in another process, which reads it.
#[derive(Debug)]
pub struct GapRingReader {
    shared: RingMemory,
    next: u64,
    /// Gaps that were overwritten before they were read.
    pub lost: u64,
}

impl GapRingReader {
    /// Opens the ring with this file descriptor of another process, for this many gaps.
    ///
    /// # Errors
    /// The process or its file is gone, or this process has no permission.
    pub fn open(pid: i32, number: i32, capacity: usize) -> io::Result<GapRingReader> {
        let region = MemoryMapping::open(pid, number, ring_bytes(capacity), MappingAccess::Read)?;
        Ok(GapRingReader { shared: RingMemory { region, capacity }, next: 0, lost: 0 })
    }

    /// Appends the new gaps in the order of time. Returns the tick before which no further gap can
    /// begin.
    pub fn drain(&mut self, into: &mut Vec<Gap>) -> u64 {
        // A gap begins at a clock read, and those that are over are in the ring.
        let horizon = self.shared.header().last_tick.0.load(Ordering::Acquire);
        let (lost, next) = self.shared.gaps().read(self.next, into);
        self.lost = self.lost.saturating_add(lost);
        self.next = next;
        horizon
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_gets_every_gap_once_and_counts_the_overwritten_ones() {
        let ring = GapRing::new(8).unwrap();
        let pid = i32::try_from(std::process::id()).unwrap();
        let mut reader = GapRingReader::open(pid, ring.number(), 8).unwrap();
        let mut seen = Vec::new();
        let put = |range: std::ops::Range<u64>| {
            for n in range {
                ring.gaps().push(10 * n, 10 * n + 5);
            }
        };
        put(0..3);
        reader.drain(&mut seen);
        put(3..7);
        ring.last_tick().store(77, Ordering::Release);
        assert_eq!(reader.drain(&mut seen), 77);
        let starts = |seen: &[Gap]| seen.iter().map(|gap| gap.start / 10).collect::<Vec<_>>();
        assert_eq!((starts(&seen), reader.lost), ((0..7).collect(), 0));
        assert!(seen.iter().all(|gap| gap.end == gap.start + 5));
        // Twenty gaps since the last read: the oldest one in the ring might be half overwritten.
        seen.clear();
        put(7..27);
        reader.drain(&mut seen);
        assert_eq!((starts(&seen), reader.lost), ((20..27).collect(), 13));
        assert_eq!(ring.newest().len(), 7);
        assert!(GapRingReader::open(pid, ring.number(), 9).is_err(), "the file is too short");
    }
}
