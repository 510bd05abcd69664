//! Gaps on their way from the sampler's loop to whoever reads them, while the loop goes on: a ring
//! in memory that two processes share. The loop never waits and never asks; a reader that is too
//! slow learns how many it missed.
//!
//! The reader is another process on purpose: memory that the sampler's own process takes or gives
//! back may interrupt the CPUs on which its spinners run.

use super::Gap;
use crate::shared_memory::{MappingAccess, SharedMemory};
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

/// A number with a cache line of its own: reading one must not slow down who writes another.
#[derive(Debug, Default)]
#[repr(C, align(64))]
struct CacheLine(AtomicU64);

/// The beginning of the shared memory; the slots follow.
#[derive(Debug, Default)]
#[repr(C)]
struct RingHeader {
    /// The loop's last look at the clock.
    beat: CacheLine,
    /// Gaps written so far.
    written: CacheLine,
}

/// Where the loop puts its gaps.
#[derive(Debug, Clone, Copy)]
pub struct GapSink<'a> {
    pub(super) written: &'a AtomicU64,
    pub(super) slots: &'a [GapSlot],
}

impl GapSink<'_> {
    /// One more gap; the oldest makes room for it.
    #[inline(always)]
    pub(super) fn put(&self, start: u64, end: u64) {
        let n = self.written.load(Ordering::Relaxed);
        let place = n.checked_rem(self.slots.len() as u64).unwrap_or(0);
        if let Some(slot) = usize::try_from(place).ok().and_then(|place| self.slots.get(place)) {
            slot.start.store(start, Ordering::Relaxed);
            slot.end.store(end, Ordering::Relaxed);
        }
        self.written.store(n.wrapping_add(1), Ordering::Release);
        // No later gap may be seen before this number: the reader tells by it what is still whole.
        fence(Ordering::Release);
    }

    /// Appends the gaps from the `from`-th on, and says how many of them were overwritten before
    /// they could be read, and which comes next.
    fn read(&self, from: u64, into: &mut Vec<Gap>) -> (u64, u64) {
        let room = self.slots.len() as u64;
        let written = self.written.load(Ordering::Acquire);
        let first = from.max(written.saturating_sub(room));
        let begin = into.len();
        for n in first..written {
            let place = usize::try_from(n.checked_rem(room).unwrap_or(0)).unwrap_or(0);
            if let Some(slot) = self.slots.get(place) {
                let start = slot.start.load(Ordering::Relaxed);
                into.push(Gap { start, end: slot.end.load(Ordering::Relaxed) });
            }
        }
        fence(Ordering::Acquire);
        // The slot after the last number may be half written already.
        let whole = self.written.load(Ordering::Relaxed).saturating_add(1).saturating_sub(room);
        let torn = usize::try_from(whole.saturating_sub(first)).unwrap_or(usize::MAX);
        into.drain(begin..into.len().min(begin.saturating_add(torn)));
        let lost = whole.max(first).min(written).saturating_sub(from);
        (lost, written)
    }
}

/// Memory of a ring, shared by whoever opens its file.
#[derive(Debug)]
struct RingMemory {
    region: SharedMemory,
    room: usize,
}

impl RingMemory {
    fn header(&self) -> &RingHeader {
        // SAFETY: the region is as long as `self`, aligned to pages, larger than the header, and
        // holds nothing but atomics, for which all bytes are valid.
        unsafe { self.region.start().cast::<RingHeader>().as_ref() }
    }

    fn gaps(&self) -> GapSink<'_> {
        // SAFETY: the slots follow the header inside the region, see `bytes`; the rest as above.
        let slots = unsafe {
            let first = self.region.start().cast::<RingHeader>().add(1).cast::<GapSlot>();
            std::slice::from_raw_parts(first.as_ptr(), self.room)
        };
        GapSink { written: &self.header().written.0, slots }
    }
}

fn bytes(room: usize) -> usize {
    size_of::<RingHeader>().saturating_add(room.saturating_mul(size_of::<GapSlot>()))
}

/// A ring, as its maker has it.
#[derive(Debug)]
pub struct GapRing {
    shared: RingMemory,
    file: OwnedFd,
    /// Whether it could be locked into memory.
    pub locked: bool,
}

impl GapRing {
    /// A ring for so many gaps.
    ///
    /// # Errors
    /// No memory.
    pub fn new(room: usize) -> io::Result<GapRing> {
        let (region, file) = SharedMemory::make(bytes(room))?;
        let locked = region.lock();
        let shared = RingMemory { region, room };
        Ok(GapRing { shared, file, locked })
    }

    /// By which number another process finds it among the open files of this one.
    #[must_use]
    pub fn number(&self) -> i32 {
        self.file.as_raw_fd()
    }

    /// The loop's side.
    pub(super) fn gaps(&self) -> GapSink<'_> {
        self.shared.gaps()
    }

    pub(super) fn beat(&self) -> &AtomicU64 {
        &self.shared.header().beat.0
    }

    /// The gaps that are there now, oldest first.
    #[must_use]
    pub fn newest(&self) -> Vec<Gap> {
        let mut gaps = Vec::new();
        self.gaps().read(0, &mut gaps);
        gaps
    }
}

/// A ring, as another process reads it.
#[derive(Debug)]
pub struct GapRingReader {
    shared: RingMemory,
    next: u64,
    /// Gaps that were overwritten before they were read.
    pub lost: u64,
}

impl GapRingReader {
    /// Opens the ring with this number and room of another process.
    ///
    /// # Errors
    /// It is gone, or may not be looked into.
    pub fn open(pid: i32, number: i32, room: usize) -> io::Result<GapRingReader> {
        let region = SharedMemory::open(pid, number, bytes(room), MappingAccess::Read)?;
        Ok(GapRingReader { shared: RingMemory { region, room }, next: 0, lost: 0 })
    }

    /// Appends what is new, in the order of time, and gives a tick before which nothing new can
    /// begin any more.
    pub fn drain(&mut self, into: &mut Vec<Gap>) -> u64 {
        // A gap begins at a look at the clock; those that are over are in the ring.
        let horizon = self.shared.header().beat.0.load(Ordering::Acquire);
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
    fn a_reader_gets_every_gap_once_and_counts_those_it_missed() {
        let ring = GapRing::new(8).unwrap();
        let pid = i32::try_from(std::process::id()).unwrap();
        let mut reader = GapRingReader::open(pid, ring.number(), 8).unwrap();
        let mut seen = Vec::new();
        let put = |range: std::ops::Range<u64>| {
            for n in range {
                ring.gaps().put(10 * n, 10 * n + 5);
            }
        };
        put(0..3);
        reader.drain(&mut seen);
        put(3..7);
        ring.beat().store(77, Ordering::Release);
        assert_eq!(reader.drain(&mut seen), 77);
        let starts = |seen: &[Gap]| seen.iter().map(|gap| gap.start / 10).collect::<Vec<_>>();
        assert_eq!((starts(&seen), reader.lost), ((0..7).collect(), 0));
        assert!(seen.iter().all(|gap| gap.end == gap.start + 5));
        // Twenty more than it reads: the oldest that is kept might be half overwritten.
        seen.clear();
        put(7..27);
        reader.drain(&mut seen);
        assert_eq!((starts(&seen), reader.lost), ((20..27).collect(), 13));
        assert_eq!(ring.newest().len(), 7);
        assert!(GapRingReader::open(pid, ring.number(), 9).is_err(), "the file is shorter");
    }
}
