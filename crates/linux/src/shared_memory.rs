//! Memory that two processes share: one makes it, the other opens it by the maker's number for it.
//! It is zero at first.
//!
//! Not its job: what lies in it.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;

/// A mapping of the whole; unmapped when it is dropped.
#[derive(Debug)]
pub(crate) struct SharedMemory {
    start: NonNull<libc::c_void>,
    bytes: usize,
}

// SAFETY: a region is an address and a length; what lies there is shared between processes anyway,
// and its users lay nothing but atomics there.
unsafe impl Send for SharedMemory {}
// SAFETY: as above.
unsafe impl Sync for SharedMemory {}

/// What another process may do with a region that it opens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MappingAccess {
    /// Look.
    Read,
    /// Change it too.
    Write,
}

impl SharedMemory {
    /// New memory of this size, and the open file by which others find it.
    ///
    /// # Errors
    /// No memory.
    pub(crate) fn make(bytes: usize) -> io::Result<(SharedMemory, OwnedFd)> {
        // SAFETY: the name is a C string that lives through the call.
        let make = |flags| unsafe { libc::memfd_create(c"cpushield".as_ptr(), flags) };
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
        let size = libc::off_t::try_from(bytes).unwrap_or(libc::off_t::MAX);
        // SAFETY: a system call without pointers.
        if unsafe { libc::ftruncate(fd, size) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok((SharedMemory::map(&file, bytes, MappingAccess::Write)?, file))
    }

    /// The memory with this number of another process.
    ///
    /// # Errors
    /// It is gone, smaller, or may not be looked into.
    pub(crate) fn open(
        pid: i32,
        number: i32,
        bytes: usize,
        usage: MappingAccess,
    ) -> io::Result<SharedMemory> {
        let path = format!("/proc/{pid}/fd/{number}");
        let file = match usage {
            MappingAccess::Read => File::open(path)?,
            MappingAccess::Write => OpenOptions::new().read(true).write(true).open(path)?,
        };
        if file.metadata()?.len() < bytes as u64 {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
        }
        SharedMemory::map(&file, bytes, usage)
    }

    /// What a file maps from its beginning on.
    ///
    /// # Errors
    /// The kernel's answer.
    pub(crate) fn map(
        file: &impl AsRawFd,
        bytes: usize,
        usage: MappingAccess,
    ) -> io::Result<SharedMemory> {
        let prot = match usage {
            MappingAccess::Read => libc::PROT_READ,
            MappingAccess::Write => libc::PROT_READ | libc::PROT_WRITE,
        };
        let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
        let (null, fd) = (std::ptr::null_mut(), file.as_raw_fd());
        // SAFETY: a new mapping at an address of the kernel's choice.
        let start = unsafe { libc::mmap(null, bytes, prot, flags, fd, 0) };
        match NonNull::new(start) {
            Some(start) if start.as_ptr() != libc::MAP_FAILED => Ok(SharedMemory { start, bytes }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Where it begins, on a page of its own.
    pub(crate) fn start(&self) -> NonNull<libc::c_void> {
        self.start
    }

    /// Locks it into memory; whether that was allowed.
    pub(crate) fn lock(&self) -> bool {
        // SAFETY: the range is this mapping's.
        unsafe { libc::mlock(self.start.as_ptr(), self.bytes) == 0 }
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // SAFETY: the range is this mapping's, and borrows of it do not outlive `self`.
        unsafe { libc::munmap(self.start.as_ptr(), self.bytes) };
    }
}
