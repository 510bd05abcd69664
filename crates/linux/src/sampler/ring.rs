//! Gaps on their way from the sampler's loop to whoever reads them, while the loop goes on: a ring
//! in memory that two processes share. The loop never waits and never asks; a reader that is too
//! slow learns how many it missed.
//!
//! The reader is another process on purpose: memory that the sampler's own process takes or gives
//! back may interrupt the CPUs on which its spinners run.

use super::Gap;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// One gap in the ring.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Slot {
    start: AtomicU64,
    end: AtomicU64,
}

/// A number with a cache line of its own: reading one must not slow down who writes another.
#[derive(Debug, Default)]
#[repr(C, align(64))]
struct Line(AtomicU64);

/// The beginning of the shared memory; the slots follow.
#[derive(Debug, Default)]
#[repr(C)]
struct Header {
    /// The loop's last look at the clock.
    beat: Line,
    /// Gaps written so far.
    written: Line,
}

/// Where the loop puts its gaps.
#[derive(Debug, Clone, Copy)]
pub struct Gaps<'a> {
    pub(super) written: &'a AtomicU64,
    pub(super) slots: &'a [Slot],
}

impl Gaps<'_> {
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

/// Memory of a ring, shared by whoever opens its file; unmapped when it is dropped.
#[derive(Debug)]
struct Shared {
    start: NonNull<Header>,
    bytes: usize,
    room: usize,
}

impl Shared {
    /// Maps the whole file.
    fn map(file: &impl AsRawFd, room: usize, prot: libc::c_int) -> io::Result<Shared> {
        let bytes = bytes(room);
        let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
        let (null, fd) = (std::ptr::null_mut(), file.as_raw_fd());
        // SAFETY: a new mapping at an address of the kernel's choice.
        let start = unsafe { libc::mmap(null, bytes, prot, flags, fd, 0) };
        match NonNull::new(start) {
            Some(start) if start.as_ptr() != libc::MAP_FAILED => {
                Ok(Shared { start: start.cast(), bytes, room })
            }
            _ => Err(io::Error::last_os_error()),
        }
    }

    fn header(&self) -> &Header {
        // SAFETY: the mapping is as long as `self`, aligned to pages, larger than the header, and
        // holds nothing but atomics, for which all bytes are valid.
        unsafe { self.start.as_ref() }
    }

    fn gaps(&self) -> Gaps<'_> {
        // SAFETY: the slots follow the header inside the mapping, see `bytes`; the rest as above.
        let slots = unsafe {
            std::slice::from_raw_parts(self.start.add(1).cast::<Slot>().as_ptr(), self.room)
        };
        Gaps { written: &self.header().written.0, slots }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: the range is this mapping's, and borrows of it do not outlive `self`.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

fn bytes(room: usize) -> usize {
    size_of::<Header>().saturating_add(room.saturating_mul(size_of::<Slot>()))
}

/// A ring, as its maker has it.
#[derive(Debug)]
pub struct Ring {
    shared: Shared,
    file: OwnedFd,
    /// Whether it could be locked into memory.
    pub locked: bool,
}

impl Ring {
    /// A ring for so many gaps.
    ///
    /// # Errors
    /// No memory.
    pub fn new(room: usize) -> io::Result<Ring> {
        // SAFETY: the name is a C string that lives through the call.
        let make = |flags| unsafe { libc::memfd_create(c"gaps".as_ptr(), flags) };
        // A machine may insist on the second flag (`vm.memfd_noexec`), which is new in 6.3.
        let fd = match make(libc::MFD_CLOEXEC | libc::MFD_NOEXEC_SEAL) {
            -1 => make(libc::MFD_CLOEXEC),
            fd => fd,
        };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a new descriptor that nobody else owns.
        let file = unsafe { OwnedFd::from_raw_fd(fd) };
        let size = libc::off_t::try_from(bytes(room)).unwrap_or(libc::off_t::MAX);
        // SAFETY: a system call without pointers.
        if unsafe { libc::ftruncate(fd, size) } != 0 {
            return Err(io::Error::last_os_error());
        }
        let shared = Shared::map(&file, room, libc::PROT_READ | libc::PROT_WRITE)?;
        // SAFETY: the range is this mapping's.
        let locked = unsafe { libc::mlock(shared.start.as_ptr().cast(), shared.bytes) } == 0;
        Ok(Ring { shared, file, locked })
    }

    /// By which number another process finds it among the open files of this one.
    #[must_use]
    pub fn number(&self) -> i32 {
        self.file.as_raw_fd()
    }

    /// The loop's side.
    pub(super) fn gaps(&self) -> Gaps<'_> {
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
pub struct Reader {
    shared: Shared,
    next: u64,
    /// Gaps that were overwritten before they were read.
    pub lost: u64,
}

impl Reader {
    /// Opens the ring with this number and room of another process.
    ///
    /// # Errors
    /// It is gone, or may not be looked into.
    pub fn open(pid: i32, number: i32, room: usize) -> io::Result<Reader> {
        let file = File::open(format!("/proc/{pid}/fd/{number}"))?;
        if file.metadata()?.len() < bytes(room) as u64 {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
        }
        Ok(Reader { shared: Shared::map(&file, room, libc::PROT_READ)?, next: 0, lost: 0 })
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
        let ring = Ring::new(8).unwrap();
        let pid = i32::try_from(std::process::id()).unwrap();
        let mut reader = Reader::open(pid, ring.number(), 8).unwrap();
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
        assert!(Reader::open(pid, ring.number(), 9).is_err(), "the file is shorter");
    }
}
