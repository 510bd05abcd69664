//! `disk`: reads from a file, without the page cache where the file system allows that, and a few
//! writes.

use super::{
    LoadEnvironment, LoadKind, LoadRefusal, LoadWork, PreparedLoad, format_bytes, prepare_own,
};
use crate::documents::count_text::many;
use cpushield_linux::files::scratch_file::{self, AlignedBlock, BLOCK_BYTES, ScratchFile};
use std::fmt::Display;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The largest size of the file.
const FILE_BYTES_MAX: u64 = 64 << 20;
/// A smaller file is no load.
const FILE_BYTES_MIN: u64 = 1 << 20;
/// The file takes at most one part in this many of the free space.
const FREE_PARTS: u64 = 10;
/// More threads would not make a disk busier.
const THREADS_MAX: usize = 8;
/// How often a thread writes a block. More writes would wear out flash memory.
const WRITE_EVERY: Duration = Duration::from_millis(100);

pub(super) const DISK: LoadKind = LoadKind {
    name: "disk",
    summary: "reads from a disk and a few writes: disk interrupts, kworkers and the block layer",
    page: "The load uses an unnamed file of 64 MiB, or of a tenth of the free space if that is less. \
     The file is in $TMPDIR, otherwise in cpushield's state directory, otherwise in /var/tmp. \
     It disappears when its process ends, however that happens. A thread for each CPU, at most \
     eight, reads blocks of 64 KiB with O_DIRECT. Each thread reads the blocks in a different \
     order. Each read goes to the disk, unless a cache below the page cache has the data: that \
     of the disk, a RAID controller, a hypervisor or ZFS. At most ten times a second, each \
     thread writes one block and waits until it is on the disk (fdatasync). So the file system \
     works too. More writes would wear out flash memory. Where the file system does not \
     support O_DIRECT, the page cache drops the data after each read, and the result says so. \
     A directory in memory (tmpfs) is refused.\n\n\
     The count is the number of bytes read and written.\n\n\
     Source: open(2), O_DIRECT and O_TMPFILE; posix_fadvise(2).",
    unit: "bytes",
    check_possible,
    prepare,
    ..LoadKind::PLAIN
};

fn check_possible(environment: &LoadEnvironment<'_>) -> Result<(), LoadRefusal> {
    count_blocks(environment).map(drop)
}

fn prepare(environment: &LoadEnvironment<'_>) -> Result<PreparedLoad, LoadRefusal> {
    let (dir, blocks) = (&environment.dir, count_blocks(environment)?);
    let file = ScratchFile::new(dir, blocks)
        .map_err(|e| LoadRefusal::NoFile { dir: name_of(dir), answer: e.to_string() })?;
    let threads = environment.cpus.len().min(THREADS_MAX);
    let what = format!(
        "{} reading from a file of {} in {}, {}",
        many(threads, "thread"),
        format_bytes(blocks * BLOCK_BYTES as u64),
        dir.display(),
        if file.is_direct() { "with O_DIRECT" } else { "through the page cache (no O_DIRECT)" }
    );
    let file = Arc::new(file);
    let seeds = 0..threads as u64;
    let workers = seeds.map(|seed| (None, make_worker(Arc::clone(&file), blocks, seed)));
    Ok(prepare_own(what, workers.collect()))
}

/// Decides how many blocks the file has.
fn count_blocks(environment: &LoadEnvironment<'_>) -> Result<u64, LoadRefusal> {
    let dir = name_of(&environment.dir);
    if scratch_file::is_in_memory(&environment.dir).map_err(|e| cannot_use(&dir, &e))? {
        return Err(LoadRefusal::InMemory { dir });
    }
    let space = environment.host.free_space(&dir).map_err(|e| cannot_use(&dir, &e))?;
    if space.read_only {
        return Err(LoadRefusal::ReadOnly { dir });
    }
    let least_bytes = FILE_BYTES_MIN * FREE_PARTS;
    blocks_that_fit(space.free.unwrap_or(0)).ok_or(LoadRefusal::TooLittleSpace { dir, least_bytes })
}

fn name_of(dir: &Path) -> String {
    dir.display().to_string()
}

fn cannot_use(dir: &str, error: &impl Display) -> LoadRefusal {
    LoadRefusal::UnusableDirectory { dir: dir.to_owned(), answer: error.to_string() }
}

/// Limits the file to its share of the free bytes; `None` when too few are free.
fn blocks_that_fit(free: u64) -> Option<u64> {
    let bytes = (free / FREE_PARTS).min(FILE_BYTES_MAX);
    (bytes >= FILE_BYTES_MIN).then_some(bytes / BLOCK_BYTES as u64)
}

fn make_worker(file: Arc<ScratchFile>, blocks: u64, seed: u64) -> LoadWork {
    Box::new(move |counter| {
        let (mut read, written) = (AlignedBlock::new(), AlignedBlock::new());
        // Blocks that are read one after the other are far apart.
        let mut number = seed.wrapping_mul(7_919);
        let mut last_write = Instant::now();
        loop {
            number = number.wrapping_add(2_654_435_761) % blocks.max(1);
            counter.add(file.read(number, &mut read)?);
            if last_write.elapsed() >= WRITE_EVERY {
                counter.add(file.write(number, &written)?);
                last_write = Instant::now();
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_takes_at_most_a_tenth_of_the_free_space() {
        assert_eq!(blocks_that_fit(1 << 40), Some(1024));
        assert_eq!(blocks_that_fit(100 << 20), Some(160));
        assert_eq!((blocks_that_fit(9 << 20), blocks_that_fit(0)), (None, None));
    }
}
