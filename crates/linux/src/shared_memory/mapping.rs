//! Mapped memory: anonymous memory, the pages of a device, and memory that two processes share. One
//! of these creates it, the other opens it by the first one's file descriptor. It is zeroed at
//! first.
//!
//! Elsewhere: what it holds.

use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::mm::{self, MapFlags, ProtFlags};
use std::ffi::c_void;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::NonNull;

/// A type whose values another thread or process may change at any time.
///
/// # Safety
/// It consists of atomic numbers only, for which all bytes are valid.
pub(crate) unsafe trait AtomicCells {}

/// A mapping; unmapped when it is dropped.
#[derive(Debug)]
pub(crate) struct MemoryMapping {
    start: NonNull<c_void>,
    bytes: usize,
}

// SAFETY: a mapping is an address and a length. It gives access only to atomic numbers and to
// registers, which may be read by any thread.
unsafe impl Send for MemoryMapping {}
// SAFETY: as above.
unsafe impl Sync for MemoryMapping {}

/// What a process may do with memory that it opens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MappingAccess {
    /// Read it.
    Read,
    /// Read and write it.
    Write,
}

impl MemoryMapping {
    /// Maps new memory of this process alone.
    ///
    /// # Errors
    /// No memory.
    pub(crate) fn anonymous(bytes: usize) -> io::Result<MemoryMapping> {
        let (protection, flags) = (MappingAccess::Write.protection(), MapFlags::PRIVATE);
        let (null, flags) = (std::ptr::null_mut(), flags | MapFlags::POPULATE);
        // SAFETY: a new mapping at an address of the kernel's choice.
        let start = unsafe { mm::mmap_anonymous(null, bytes, protection, flags) }?;
        MemoryMapping::at(start, bytes)
    }

    /// Creates memory of this size. Returns it with the open file by which others find it.
    ///
    /// # Errors
    /// No memory.
    pub(crate) fn create(bytes: usize) -> io::Result<(MemoryMapping, OwnedFd)> {
        // A machine may require the second flag (`vm.memfd_noexec`), which is new in 6.3.
        let file = memfd_create(c"cpushield", MemfdFlags::CLOEXEC | MemfdFlags::NOEXEC_SEAL)
            .or_else(|_| memfd_create(c"cpushield", MemfdFlags::CLOEXEC))?;
        ftruncate(&file, bytes as u64)?;
        Ok((MemoryMapping::map(&file, bytes, MappingAccess::Write)?, file))
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
    ) -> io::Result<MemoryMapping> {
        let path = format!("/proc/{pid}/fd/{number}");
        let file = match access {
            MappingAccess::Read => File::open(path)?,
            MappingAccess::Write => OpenOptions::new().read(true).write(true).open(path)?,
        };
        if file.metadata()?.len() < bytes as u64 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        MemoryMapping::map(&file, bytes, access)
    }

    /// Maps the first `bytes` bytes of a file.
    ///
    /// # Errors
    /// The kernel's error.
    pub(crate) fn map(
        file: &impl AsFd,
        bytes: usize,
        access: MappingAccess,
    ) -> io::Result<MemoryMapping> {
        let (null, protection) = (std::ptr::null_mut(), access.protection());
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        // SAFETY: a new mapping at an address of the kernel's choice.
        let start = unsafe { mm::mmap(null, bytes, protection, flags, file, 0) }?;
        MemoryMapping::at(start, bytes)
    }

    fn at(start: *mut c_void, bytes: usize) -> io::Result<MemoryMapping> {
        // The kernel maps address 0 only on request.
        let start = NonNull::new(start).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(MemoryMapping { start, bytes })
    }

    /// The address of the mapping, which is aligned to pages.
    pub(crate) fn start(&self) -> *mut c_void {
        self.start.as_ptr()
    }

    /// The `count` values at this offset. A process that may only read the memory is ended by a
    /// write.
    ///
    /// # Panics
    /// They are not aligned, or not inside the mapping.
    #[inline]
    pub(crate) fn cells<T: AtomicCells>(&self, offset: usize, count: usize) -> &[T] {
        let end = count.checked_mul(size_of::<T>()).and_then(|bytes| bytes.checked_add(offset));
        assert!(end.is_some_and(|end| end <= self.bytes) && offset.is_multiple_of(align_of::<T>()));
        let first = self.start().wrapping_byte_add(offset).cast::<T>();
        // SAFETY: the values are aligned, because the mapping is aligned to pages; they lie inside
        // of it, and it lives as long as `self`. All bytes are valid, and all changes are atomic.
        unsafe { std::slice::from_raw_parts(first, count) }
    }

    /// The value at this offset; see [`MemoryMapping::cells`].
    #[inline]
    pub(crate) fn cell<T: AtomicCells>(&self, offset: usize) -> &T {
        &self.cells(offset, 1)[0]
    }

    /// The register of a device at this offset. It changes by itself.
    ///
    /// # Panics
    /// It is not aligned, or not inside the mapping.
    #[inline]
    pub(crate) fn register(&self, offset: usize) -> u32 {
        let end = offset.checked_add(size_of::<u32>());
        assert!(end.is_some_and(|end| end <= self.bytes) && offset.is_multiple_of(4));
        let register = self.start().wrapping_byte_add(offset).cast::<u32>();
        // SAFETY: the register is aligned and inside the mapping, which lives as long as `self`.
        unsafe { register.read_volatile() }
    }

    /// Locks it into memory; returns whether that was allowed.
    pub(crate) fn lock(&self) -> bool {
        // SAFETY: the range is this mapping's.
        unsafe { mm::mlock(self.start(), self.bytes) }.is_ok()
    }
}

impl MappingAccess {
    fn protection(self) -> ProtFlags {
        match self {
            MappingAccess::Read => ProtFlags::READ,
            MappingAccess::Write => ProtFlags::READ | ProtFlags::WRITE,
        }
    }
}

impl Drop for MemoryMapping {
    fn drop(&mut self) {
        // SAFETY: the range is this mapping's, and borrows of it do not outlive `self`.
        let _ = unsafe { mm::munmap(self.start(), self.bytes) };
    }
}
