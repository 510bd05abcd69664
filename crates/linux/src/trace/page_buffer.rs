//! A buffer for the raw trace pages of several CPUs: in memory first, then in unnamed files of a
//! given directory. Only one thread uses it, so it affects no other CPU.
//!
//! A [`PageBuffer::bounded`] buffer keeps only the last pages, in memory, however long the trace
//! is.
//!
//! Adding a page never fails: a full disk must not end a trace. The first error is stored and
//! returned when the pages are read.

use crate::error::{Error, Operation, Result};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Bytes in memory before they go to files: seconds of a busy CPU.
const MEMORY_MAX: usize = 32 << 20;

/// The pages of several CPUs.
#[derive(Debug)]
pub struct PageBuffer {
    dir: PathBuf,
    memory_max: usize,
    /// Whether the oldest pages are discarded instead of written to files.
    bounded: bool,
    bytes_in_memory: usize,
    cpus: Vec<CpuPages>,
    failed: Option<Error>,
}

/// The pages of one CPU.
#[derive(Debug)]
struct CpuPages {
    cpu: usize,
    /// The earlier pages.
    file: Option<File>,
    /// The later pages.
    memory: Vec<u8>,
    bytes: u64,
    discarded: bool,
}

/// The timestamp at the start of a trace page.
fn page_time(page: &[u8]) -> u64 {
    page.first_chunk().map_or(0, |time| u64::from_le_bytes(*time))
}

impl PageBuffer {
    /// An empty buffer. Pages that do not fit into memory go to unnamed files in the directory of
    /// `path`, which vanish with the buffer.
    #[must_use]
    pub fn spilling_next_to(path: &Path) -> PageBuffer {
        let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
        PageBuffer {
            dir: dir.unwrap_or(Path::new(".")).to_owned(),
            memory_max: MEMORY_MAX,
            bounded: false,
            bytes_in_memory: 0,
            cpus: Vec::new(),
            failed: None,
        }
    }

    /// An empty buffer that uses no file: it discards the oldest pages.
    #[must_use]
    pub fn bounded() -> PageBuffer {
        PageBuffer { bounded: true, ..PageBuffer::spilling_next_to(Path::new(".")) }
    }

    /// The same buffer with another memory limit.
    #[must_use]
    pub fn with_memory(self, bytes: usize) -> PageBuffer {
        PageBuffer { memory_max: bytes, ..self }
    }

    /// Adds a page of a CPU, padded with zeroes to `page_size` bytes.
    pub fn add(&mut self, cpu: usize, page: &[u8], page_size: usize) {
        if self.failed.is_some() {
            return;
        }
        let at = self.cpus.iter().position(|pages| pages.cpu == cpu);
        let at = at.unwrap_or_else(|| {
            self.cpus.push(CpuPages {
                cpu,
                file: None,
                memory: Vec::new(),
                bytes: 0,
                discarded: false,
            });
            self.cpus.len() - 1
        });
        if let Some(pages) = self.cpus.get_mut(at) {
            let before = pages.memory.len();
            pages.memory.extend_from_slice(page);
            pages.memory.resize(before + page_size.max(page.len()), 0);
            let added = pages.memory.len() - before;
            pages.bytes += added as u64;
            self.bytes_in_memory += added;
        }
        if self.bytes_in_memory > self.memory_max && self.bounded {
            // Several pages of the largest CPU at once, because the remaining ones are moved.
            let largest = self.cpus.iter_mut().max_by_key(|pages| pages.memory.len());
            let excess = (self.memory_max / 8).next_multiple_of(page_size);
            self.bytes_in_memory -= largest.map_or(0, |pages| pages.discard(excess));
        } else if self.bytes_in_memory > self.memory_max {
            self.bytes_in_memory = 0;
            for pages in &mut self.cpus {
                if let Err(error) = pages.spill(&self.dir) {
                    self.failed = Some(error);
                    return;
                }
            }
        }
    }

    /// Discards old pages of a bounded buffer: on each CPU, all pages before the last one that
    /// starts at or before this time.
    pub fn discard_before(&mut self, at: u64, page_size: usize) {
        for pages in self.cpus.iter_mut().filter(|_| self.bounded) {
            let chunks = pages.memory.chunks(page_size);
            let old = chunks.take_while(|page| page_time(page) <= at).count();
            self.bytes_in_memory -= pages.discard(old.saturating_sub(1) * page_size);
        }
    }

    /// The time of the first page of a CPU if earlier ones were discarded.
    #[must_use]
    pub fn discarded_until(&self, cpu: usize) -> Option<u64> {
        let pages = self.cpus.iter().find(|pages| pages.cpu == cpu)?;
        pages.discarded.then(|| page_time(&pages.memory))
    }

    /// The number of bytes of a CPU.
    #[must_use]
    pub fn bytes(&self, cpu: usize) -> u64 {
        self.cpus.iter().find(|pages| pages.cpu == cpu).map_or(0, |pages| pages.bytes)
    }

    /// Passes all pages of a CPU to `visit` in their order, each `page_size` bytes long.
    ///
    /// # Errors
    /// A page could not be stored or read back; otherwise the error of `visit`.
    pub fn each(
        &mut self,
        cpu: usize,
        page_size: usize,
        visit: &mut dyn FnMut(&[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        if let Some(error) = &self.failed {
            return Err(io::Error::other(error.to_string()));
        }
        let Some(pages) = self.cpus.iter_mut().find(|pages| pages.cpu == cpu) else {
            return Ok(());
        };
        if let Some(file) = &mut pages.file {
            let mut page = vec![0; page_size];
            let length = file.stream_position()?;
            file.rewind()?;
            let mut done = 0;
            while done < length {
                file.read_exact(&mut page)?;
                done += page_size as u64;
                visit(&page)?;
            }
            file.seek(SeekFrom::Start(length))?;
        }
        pages.memory.chunks(page_size).try_for_each(visit)
    }
}

impl CpuPages {
    /// Discards bytes at the start; returns how many.
    fn discard(&mut self, bytes: usize) -> usize {
        let bytes = bytes.min(self.memory.len());
        self.memory.drain(..bytes);
        self.bytes -= bytes as u64;
        self.discarded |= bytes > 0;
        bytes
    }

    fn spill(&mut self, dir: &Path) -> Result<()> {
        let name = dir.display().to_string();
        let file = match &mut self.file {
            Some(file) => file,
            none => none
                .insert(unnamed_file(dir, self.cpu).map_err(Error::on(Operation::Write, &name))?),
        };
        file.write_all(&self.memory).map_err(Error::on(Operation::Write, &name))?;
        self.memory.clear();
        Ok(())
    }
}

/// Creates a file without a name, so that a killed run leaves nothing behind.
pub(crate) fn unnamed_file(dir: &Path, cpu: usize) -> io::Result<File> {
    let mut options = File::options();
    options.read(true).write(true);
    options.clone().custom_flags(libc::O_TMPFILE).open(dir).or_else(|_| {
        // Not every file system has O_TMPFILE (vfat, NFS): the file has a name for a moment.
        let path = dir.join(format!(".cpushield-{}-{cpu}.pages", std::process::id()));
        let file = options.create_new(true).open(&path)?;
        std::fs::remove_file(&path)?;
        Ok(file)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first_bytes(buffer: &mut PageBuffer, cpu: usize) -> io::Result<Vec<u8>> {
        let mut firsts = Vec::new();
        buffer.each(cpu, 4, &mut |page| {
            assert_eq!(page, [page[0]; 4]);
            firsts.push(page[0]);
            Ok(())
        })?;
        Ok(firsts)
    }

    #[test]
    fn pages_are_read_back_in_order_from_memory_and_from_files() {
        for memory in [0, 9, 1000] {
            let path = std::env::temp_dir().join("out.dat");
            let mut buffer = PageBuffer::spilling_next_to(&path).with_memory(memory);
            for n in 0..7 {
                buffer.add(usize::from(n % 2), &[n; 4], 4);
            }
            for _ in 0..2 {
                assert_eq!(first_bytes(&mut buffer, 0).unwrap(), [0, 2, 4, 6], "{memory}");
                assert_eq!(first_bytes(&mut buffer, 1).unwrap(), [1, 3, 5], "{memory}");
            }
            assert_eq!((buffer.bytes(0), buffer.bytes(1), buffer.bytes(2)), (16, 12, 0));
            buffer.add(1, &[9; 4], 4);
            assert_eq!(first_bytes(&mut buffer, 1).unwrap(), [1, 3, 5, 9], "{memory}");
        }
    }

    #[test]
    fn a_bounded_buffer_keeps_the_last_pages_in_limited_memory() {
        let mut buffer = PageBuffer::bounded().with_memory(64 * 16);
        for time in 0_u64..10_000 {
            buffer.add(2, &time.to_le_bytes(), 16);
            assert!(buffer.bytes_in_memory <= 64 * 16);
        }
        let kept = page_times(&mut buffer, 2);
        assert!(kept.len() >= 56 && kept.last() == Some(&9_999), "{kept:?}");
        assert!(kept.windows(2).all(|pair| pair[0] + 1 == pair[1]), "pages are missing");
        assert_eq!(buffer.discarded_until(2), kept.first().copied());
        buffer.discard_before(9_990, 16);
        assert_eq!(page_times(&mut buffer, 2), (9_990..10_000).collect::<Vec<_>>());
        assert_eq!((buffer.bytes(2), buffer.bytes_in_memory), (160, 160));
        assert_eq!(buffer.discarded_until(3), None);
    }

    fn page_times(buffer: &mut PageBuffer, cpu: usize) -> Vec<u64> {
        let mut times = Vec::new();
        buffer
            .each(cpu, 16, &mut |page| {
                times.push(page_time(page));
                Ok(())
            })
            .unwrap();
        times
    }

    #[test]
    fn a_short_page_is_padded() {
        let mut buffer = PageBuffer::spilling_next_to(Path::new("out.dat"));
        buffer.add(3, &[0; 2], 4);
        assert_eq!((first_bytes(&mut buffer, 3).unwrap(), buffer.bytes(3)), (vec![0], 4));
    }

    #[test]
    fn an_error_of_adding_is_returned_when_pages_are_read() {
        let path = Path::new("/nonexistent/out.dat");
        let mut buffer = PageBuffer::spilling_next_to(path).with_memory(0);
        buffer.add(0, &[0; 4], 4);
        buffer.add(0, &[1; 4], 4);
        let error = first_bytes(&mut buffer, 0).unwrap_err().to_string();
        assert!(error.contains("/nonexistent"), "{error}");
        assert!(first_bytes(&mut buffer, 0).is_err(), "the error did not persist");
    }
}
