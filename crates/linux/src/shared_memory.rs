//! Memory that two processes share. One creates it, the other opens it by the first one's file
//! descriptor. It is zeroed at first.
//!
//! Elsewhere: what it holds.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;

/// A mapping of all the memory; unmapped when it is dropped.
#[derive(Debug)]
pub(crate) struct SharedMemory {
    start: NonNull<libc::c_void>,
    bytes: usize,
}

// SAFETY: a region is an address and a length. Its memory is shared between processes anyway, and
// its users put only atomics there.
unsafe impl Send for SharedMemory {}
// SAFETY: as above.
unsafe impl Sync for SharedMemory {}

/// What a process may do with a region that it opens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MappingAccess {
    /// Read it.
    Read,
    /// Read and write it.
    Write,
}

impl SharedMemory {
    /// Creates memory of this size. Returns it with the open file by which others find it.
    ///
    /// # Errors
    /// No memory.
    pub(crate) fn create(bytes: usize) -> io::Result<(SharedMemory, OwnedFd)> {
        // A machine may require the second flag (`vm.memfd_noexec`), which is new in 6.3.
        let fd = match memfd_create(libc::MFD_CLOEXEC | libc::MFD_NOEXEC_SEAL) {
            -1 => memfd_create(libc::MFD_CLOEXEC),
            fd => fd,
        };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a new descriptor that has no other owner.
        let file = unsafe { OwnedFd::from_raw_fd(fd) };
        let size = libc::off_t::try_from(bytes).unwrap_or(libc::off_t::MAX);
        // SAFETY: a system call without pointers.
        if unsafe { libc::ftruncate(fd, size) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok((SharedMemory::map(&file, bytes, MappingAccess::Write)?, file))
    }

    /// Opens the memory with this file descriptor of another process.
    ///
    /// # Errors
    /// The process or its file is gone, the file is smaller, or this process has no permission.
    pub(crate) fn open(
        pid: i32,
        number: i32,
        bytes: usize,
        access: MappingAccess,
    ) -> io::Result<SharedMemory> {
        let path = format!("/proc/{pid}/fd/{number}");
        let file = match access {
            MappingAccess::Read => File::open(path)?,
            MappingAccess::Write => OpenOptions::new().read(true).write(true).open(path)?,
        };
        if file.metadata()?.len() < bytes as u64 {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
        }
        SharedMemory::map(&file, bytes, access)
    }

    /// Maps the first `bytes` bytes of a file.
    ///
    /// # Errors
    /// The kernel's error.
    pub(crate) fn map(
        file: &impl AsRawFd,
        bytes: usize,
        access: MappingAccess,
    ) -> io::Result<SharedMemory> {
        let prot = match access {
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

    /// The address of the mapping, which is aligned to pages.
    pub(crate) fn start(&self) -> NonNull<libc::c_void> {
        self.start
    }

    /// Locks it into memory; returns whether that was allowed.
    pub(crate) fn lock(&self) -> bool {
        // SAFETY: the range is this mapping's.
        unsafe { libc::mlock(self.start.as_ptr(), self.bytes) == 0 }
    }
}

fn memfd_create(flags: libc::c_uint) -> libc::c_int {
    // SAFETY: the name is a C string that lives through the call.
    unsafe { libc::memfd_create(c"cpushield".as_ptr(), flags) }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // SAFETY: the range is this mapping's, and borrows of it do not outlive `self`.
        unsafe { libc::munmap(self.start.as_ptr(), self.bytes) };
    }
}
