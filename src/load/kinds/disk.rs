//! `disk`: reads from a file, past the page cache where the file system can, and a few writes.

use super::{LoadEnvironment, LoadKind, LoadWork, PreparedLoad, many, own, size};
use cpushield_linux::scratch_file::{self, AlignedBlock, BLOCK_BYTES, ScratchFile};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The file's length.
const FILE_BYTES: u64 = 64 << 20;
/// Less is not worth it.
const LEAST_BYTES: u64 = 1 << 20;
/// It takes at most this part of what is free.
const PART: u64 = 10;
/// More threads than this keep no disk busier.
const THREADS_MAX: usize = 8;
/// How often a thread writes a block: flash memory wears out by writing.
const WRITE_EVERY: Duration = Duration::from_millis(100);

/// See the file.
#[derive(Debug)]
pub struct DiskLoad;

impl LoadKind for DiskLoad {
    fn name(&self) -> &'static str {
        "disk"
    }

    fn summary(&self) -> &'static str {
        "reads from a disk, and a few writes: its interrupts, kworkers, the block layer"
    }

    fn page(&self) -> &'static str {
        "A file of 64 MiB without a name (at most a tenth of what is free) in $TMPDIR, else in \
         cpushield's state directory, else in /var/tmp; it vanishes with its process, however \
         that ends. A thread for each CPU, eight at most, reads blocks of 64 KiB in an order of \
         its own, with O_DIRECT: each read goes to the disk, unless the disk's own cache or a \
         hypervisor's has it. Ten times a second each thread writes one block and waits until it \
         is on the disk (fdatasync), so that the file system works too; it does not write more, \
         because flash memory wears out by it. Where the file system does not take O_DIRECT the \
         page cache drops the data after each read, and the result says so. A directory in \
         memory (tmpfs) is refused.\n\n\
         Bytes that were read and written count.\n\n\
         Source: open(2), O_DIRECT and O_TMPFILE; posix_fadvise(2)."
    }

    fn unit(&self) -> &'static str {
        "bytes"
    }

    fn possible(&self, site: &LoadEnvironment<'_>) -> Result<(), String> {
        blocks(site).map(drop)
    }

    fn prepare(&self, site: &LoadEnvironment<'_>) -> Result<PreparedLoad, String> {
        let (dir, blocks) = (&site.dir, blocks(site)?);
        let file = ScratchFile::new(dir, blocks)
            .map_err(|e| format!("no file can be made in {}: {e}", dir.display()))?;
        let threads = site.cpus.len().min(THREADS_MAX);
        let what = format!(
            "{} reading from a file of {} in {}{}",
            many(threads, "thread"),
            size(blocks * BLOCK_BYTES as u64),
            dir.display(),
            if file.is_direct() { ", O_DIRECT" } else { ", through the page cache (no O_DIRECT)" }
        );
        let file = Arc::new(file);
        let worker = |n: usize| worker(Arc::clone(&file), blocks, n as u64);
        Ok(own(what, (0..threads).map(|n| (None, worker(n))).collect()))
    }
}

/// How many blocks the file may have.
fn blocks(site: &LoadEnvironment<'_>) -> Result<u64, String> {
    let dir = site.dir.display();
    let cannot = |e: &dyn std::fmt::Display| format!("{dir} cannot be used: {e}");
    if scratch_file::is_in_memory(&site.dir).map_err(|e| cannot(&e))? {
        return Err(format!("{dir} is in memory, not on a disk; TMPDIR names another directory"));
    }
    let room = site.host.free_space(&dir.to_string()).map_err(|e| cannot(&e))?;
    if room.read_only {
        return Err(format!("nothing can be written in {dir}; TMPDIR names another directory"));
    }
    length(room.free.unwrap_or(0)).ok_or_else(|| {
        let least = size(LEAST_BYTES * PART);
        format!("less than {least} are free in {dir}; TMPDIR names another directory")
    })
}

fn length(free: u64) -> Option<u64> {
    let bytes = (free / PART).min(FILE_BYTES);
    (bytes >= LEAST_BYTES).then_some(bytes / BLOCK_BYTES as u64)
}

fn worker(file: Arc<ScratchFile>, blocks: u64, seed: u64) -> LoadWork {
    Box::new(move |meter| {
        let (mut block, out) = (AlignedBlock::new(), AlignedBlock::new());
        // An odd step that is no part of a power of two visits blocks far from each other.
        let mut number = seed.wrapping_mul(7_919);
        let mut written = Instant::now();
        loop {
            number = number.wrapping_add(2_654_435_761) % blocks.max(1);
            meter.add(file.read(number, &mut block)?);
            if written.elapsed() >= WRITE_EVERY {
                meter.add(file.write(number, &out)?);
                written = Instant::now();
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_leaves_room_for_others() {
        assert_eq!(length(1 << 40), Some(1024));
        assert_eq!(length(100 << 20), Some(160));
        assert_eq!((length(9 << 20), length(0)), (None, None));
    }
}
