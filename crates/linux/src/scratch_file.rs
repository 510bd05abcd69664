//! A file without a name to write to and read from, past the page cache where the file system can:
//! what a disk is made busy with. It is gone with the process, however that ends.
//!
//! Elsewhere: how large, how often.

use crate::page_buffer::nameless;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Bytes of one read or write. Every disk's blocks fit into it.
pub const BLOCK_BYTES: usize = 64 << 10;

/// Names of file systems that are memory, by statfs(2).
const IN_MEMORY: &[i64] = &[0x0102_1994, 0x8584_58f6];

/// A block in memory as O_DIRECT wants it: aligned to the largest block of a disk.
#[derive(Debug)]
#[repr(C, align(4096))]
pub struct AlignedBlock([u8; BLOCK_BYTES]);

impl AlignedBlock {
    /// A block that no file system makes smaller.
    #[must_use]
    pub fn new() -> Box<AlignedBlock> {
        let mut block = Box::new(AlignedBlock([0; BLOCK_BYTES]));
        let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
        for byte in &mut block.0 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            *byte = seed.to_be_bytes()[0];
        }
        block
    }
}

/// The file.
#[derive(Debug)]
pub struct ScratchFile {
    file: File,
    blocks: u64,
    is_direct: bool,
}

impl ScratchFile {
    /// A file of so many blocks, written and on the disk.
    ///
    /// # Errors
    /// The file system's error.
    pub fn new(dir: &Path, blocks: u64) -> io::Result<ScratchFile> {
        let file = nameless(dir, 0)?;
        let block = AlignedBlock::new();
        for n in 0..blocks {
            file.write_all_at(&block.0, n * BLOCK_BYTES as u64)?;
        }
        file.sync_data()?;
        let is_direct = past_the_cache(&file).is_ok();
        let scratch = ScratchFile { file, blocks, is_direct };
        scratch.forget();
        Ok(scratch)
    }

    /// Whether it is read and written past the page cache.
    #[must_use]
    pub fn is_direct(&self) -> bool {
        self.is_direct
    }

    /// Reads one block, any number; says how many bytes.
    ///
    /// # Errors
    /// The file system's error.
    pub fn read(&self, number: u64, block: &mut AlignedBlock) -> io::Result<u64> {
        self.file.read_exact_at(&mut block.0, self.place(number))?;
        if !self.is_direct {
            self.forget();
        }
        Ok(BLOCK_BYTES as u64)
    }

    /// Writes one block, any number, and has it on the disk; says how many bytes.
    ///
    /// # Errors
    /// The file system's error.
    pub fn write(&self, number: u64, block: &AlignedBlock) -> io::Result<u64> {
        self.file.write_all_at(&block.0, self.place(number))?;
        self.file.sync_data()?;
        Ok(BLOCK_BYTES as u64)
    }

    fn place(&self, number: u64) -> u64 {
        number.checked_rem(self.blocks).unwrap_or(0) * BLOCK_BYTES as u64
    }

    /// What is in the page cache of it goes away.
    fn forget(&self) {
        // SAFETY: a system call without pointers. It is advice: what comes of it does not matter.
        unsafe { libc::posix_fadvise(self.file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
    }
}

/// Switches the open file to O_DIRECT.
fn past_the_cache(file: &File) -> io::Result<()> {
    let fd = file.as_raw_fd();
    // SAFETY: a system call without pointers.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFL) };
    // SAFETY: as above.
    if flags < 0 || unsafe { libc::fcntl(fd, libc::F_SETFL, flags | libc::O_DIRECT) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // Some file systems take the flag and refuse the read.
    let mut block = AlignedBlock::new();
    let answer = file.read_exact_at(&mut block.0, 0);
    if answer.is_err() {
        // SAFETY: as above.
        unsafe { libc::fcntl(fd, libc::F_SETFL, flags) };
    }
    answer
}

/// Where files for a moment belong: `$TMPDIR`, else this directory when something can be written
/// there, else `/var/tmp`, which is on a disk where `/tmp` may not be.
#[must_use]
pub fn directory(own: &Path) -> PathBuf {
    if let Some(dir) = std::env::var_os("TMPDIR").filter(|dir| !dir.is_empty()) {
        return PathBuf::from(dir);
    }
    if nameless(own, 0).is_ok() { own.to_owned() } else { PathBuf::from("/var/tmp") }
}

/// Whether a directory is in memory, not on a disk.
///
/// # Errors
/// The file system's error.
pub fn is_in_memory(dir: &Path) -> io::Result<bool> {
    let dir = File::open(dir)?;
    // SAFETY: an all-zero statfs is a valid value.
    let mut found: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: `found` is valid for the write of one structure.
    if unsafe { libc::fstatfs(dir.as_raw_fd(), &raw mut found) } != 0 {
        return Err(io::Error::last_os_error());
    }
    #[expect(clippy::allow_attributes, reason = "the type differs between C libraries")]
    #[allow(clippy::unnecessary_cast, trivial_numeric_casts)]
    let kind = found.f_type as i64;
    Ok(IN_MEMORY.contains(&kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_come_back_and_the_directory_shows_nothing() {
        let dir = std::env::temp_dir().join(format!("cpushield-scratch-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let scratch = ScratchFile::new(&dir, 4).unwrap();
        assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 0, "it has no name");
        let mut wanted = AlignedBlock::new();
        wanted.0[7] ^= 0xff;
        assert_eq!(scratch.write(6, &wanted).unwrap(), BLOCK_BYTES as u64);
        let mut block = AlignedBlock::new();
        scratch.read(2, &mut block).unwrap();
        assert!(block.0 == wanted.0, "numbers begin again at the end of the file");
        scratch.read(3, &mut block).unwrap();
        assert!(block.0 == AlignedBlock::new().0, "the other blocks are as they were");
        drop(scratch);
        std::fs::remove_dir(&dir).unwrap();
        assert!(ScratchFile::new(&dir, 4).is_err());
        assert!(is_in_memory(Path::new("/dev/shm")).unwrap_or(true));
        assert!(!is_in_memory(Path::new("/proc")).unwrap());
    }
}
