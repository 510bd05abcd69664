//! A file without a name that keeps a disk busy. It is read and written past the page cache if the
//! file system can. It is gone with the process, however that ends.
//!
//! The caller decides its size and how often it is used.

use crate::trace::page_buffer::unnamed_file;
use rustix::fs::{Advice, OFlags, fadvise, fcntl_getfl, fcntl_setfl, fstatfs};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Bytes per read or write; a multiple of every disk's block size.
pub const BLOCK_BYTES: usize = 64 << 10;

/// File systems in memory, by their magic numbers (statfs(2)).
const IN_MEMORY: &[i64] = &[0x0102_1994, 0x8584_58f6];

/// A block in memory, aligned to the largest block of a disk, as O_DIRECT requires.
#[derive(Debug)]
#[repr(C, align(4096))]
pub struct AlignedBlock([u8; BLOCK_BYTES]);

impl AlignedBlock {
    /// A block that no file system can compress.
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

/// A file without a name.
#[derive(Debug)]
pub struct ScratchFile {
    file: File,
    blocks: u64,
    is_direct: bool,
}

impl ScratchFile {
    /// Creates a file of this many blocks, written and synced.
    ///
    /// # Errors
    /// The file system's error.
    pub fn new(dir: &Path, blocks: u64) -> io::Result<ScratchFile> {
        let file = unnamed_file(dir, 0)?;
        let block = AlignedBlock::new();
        for n in 0..blocks {
            file.write_all_at(&block.0, n * BLOCK_BYTES as u64)?;
        }
        file.sync_data()?;
        let is_direct = enable_direct_io(&file).is_ok();
        let scratch = ScratchFile { file, blocks, is_direct };
        scratch.drop_cache();
        Ok(scratch)
    }

    /// Whether it is read and written past the page cache.
    #[must_use]
    pub fn is_direct(&self) -> bool {
        self.is_direct
    }

    /// Reads a block; numbers wrap around at the end of the file. Returns the number of bytes.
    ///
    /// # Errors
    /// The file system's error.
    pub fn read(&self, number: u64, block: &mut AlignedBlock) -> io::Result<u64> {
        self.file.read_exact_at(&mut block.0, self.offset(number))?;
        if !self.is_direct {
            self.drop_cache();
        }
        Ok(BLOCK_BYTES as u64)
    }

    /// Writes and syncs a block; numbers wrap around. Returns the number of bytes.
    ///
    /// # Errors
    /// The file system's error.
    pub fn write(&self, number: u64, block: &AlignedBlock) -> io::Result<u64> {
        self.file.write_all_at(&block.0, self.offset(number))?;
        self.file.sync_data()?;
        Ok(BLOCK_BYTES as u64)
    }

    fn offset(&self, number: u64) -> u64 {
        number.checked_rem(self.blocks).unwrap_or(0) * BLOCK_BYTES as u64
    }

    /// Drops the file from the page cache.
    fn drop_cache(&self) {
        // It is only advice, so its result does not matter.
        let _ = fadvise(&self.file, 0, None, Advice::DontNeed);
    }
}

/// Switches the open file to O_DIRECT.
fn enable_direct_io(file: &File) -> io::Result<()> {
    let flags = fcntl_getfl(file)?;
    fcntl_setfl(file, flags | OFlags::DIRECT)?;
    // Some file systems accept the flag and then refuse to read.
    let mut block = AlignedBlock::new();
    let answer = file.read_exact_at(&mut block.0, 0);
    if answer.is_err() {
        let _ = fcntl_setfl(file, flags);
    }
    answer
}

/// The directory for temporary files: `$TMPDIR`, else `preferred` if it is writable, else
/// `/var/tmp`, which is on a disk where `/tmp` may not be.
#[must_use]
pub fn directory(preferred: &Path) -> PathBuf {
    if let Some(dir) = std::env::var_os("TMPDIR").filter(|dir| !dir.is_empty()) {
        return PathBuf::from(dir);
    }
    if unnamed_file(preferred, 0).is_ok() {
        preferred.to_owned()
    } else {
        PathBuf::from("/var/tmp")
    }
}

/// Whether a directory is in memory and not on a disk.
///
/// # Errors
/// The file system's error.
pub fn is_in_memory(dir: &Path) -> io::Result<bool> {
    let dir = File::open(dir)?;
    #[expect(clippy::allow_attributes, reason = "the type differs between processors")]
    #[allow(clippy::unnecessary_cast, trivial_numeric_casts)]
    let kind = fstatfs(dir)?.f_type as i64;
    Ok(IN_MEMORY.contains(&kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_read_back_and_the_directory_stays_empty() {
        let dir = std::env::temp_dir().join(format!("cpushield-scratch-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let scratch = ScratchFile::new(&dir, 4).unwrap();
        assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 0, "the file has a name");
        let mut wanted = AlignedBlock::new();
        wanted.0[7] ^= 0xff;
        assert_eq!(scratch.write(6, &wanted).unwrap(), BLOCK_BYTES as u64);
        let mut block = AlignedBlock::new();
        scratch.read(2, &mut block).unwrap();
        assert!(block.0 == wanted.0, "numbers do not wrap around at the end of the file");
        scratch.read(3, &mut block).unwrap();
        assert!(block.0 == AlignedBlock::new().0, "another block has changed");
        drop(scratch);
        std::fs::remove_dir(&dir).unwrap();
        assert!(ScratchFile::new(&dir, 4).is_err());
        assert!(is_in_memory(Path::new("/dev/shm")).unwrap_or(true));
        assert!(!is_in_memory(Path::new("/proc")).unwrap());
    }
}
