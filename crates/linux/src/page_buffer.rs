//! Raw pages of several CPUs, kept while a trace is read: in memory first, in nameless files of a
//! given directory when they are many. Only one thread uses it, so nothing of it touches another
//! CPU.
//!
//! One that is [`PageBuffer::forgetful`] keeps the last pages only, in memory, however long it goes
//! on.
//!
//! Adding never fails: a trace must not end because a disk is full. The first error is kept and
//! told by whoever wants to read the pages.

use crate::error::{Error, Operation, Result};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Bytes kept in memory before they go to files: seconds of a busy CPU.
const MEMORY_MAX: usize = 32 << 20;

/// Pages of several CPUs.
#[derive(Debug)]
pub struct PageBuffer {
    dir: PathBuf,
    memory_max: usize,
    /// Nothing goes to files; the oldest pages are forgotten.
    forgetful: bool,
    held: usize,
    lanes: Vec<CpuPages>,
    failed: Option<Error>,
}

/// The pages of one CPU.
#[derive(Debug)]
struct CpuPages {
    cpu: usize,
    /// Earlier pages.
    file: Option<File>,
    /// Later ones.
    memory: Vec<u8>,
    bytes: u64,
    forgot: bool,
}

/// The time that a page of the trace begins with.
fn time_of(page: &[u8]) -> u64 {
    page.first_chunk().map_or(0, |time| u64::from_le_bytes(*time))
}

impl PageBuffer {
    /// An empty spool. What does not fit into memory goes to nameless files in the directory of
    /// `path`, which vanish with the spool.
    #[must_use]
    pub fn beside(path: &Path) -> PageBuffer {
        let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
        PageBuffer {
            dir: dir.unwrap_or(Path::new(".")).to_owned(),
            memory_max: MEMORY_MAX,
            forgetful: false,
            held: 0,
            lanes: Vec::new(),
            failed: None,
        }
    }

    /// An empty spool that needs no file: it forgets the oldest pages.
    #[must_use]
    pub fn forgetful() -> PageBuffer {
        PageBuffer { forgetful: true, ..PageBuffer::beside(Path::new(".")) }
    }

    /// The same with another limit of memory.
    #[must_use]
    pub fn with_memory(self, bytes: usize) -> PageBuffer {
        PageBuffer { memory_max: bytes, ..self }
    }

    /// One more page of a CPU, filled up with zeroes to `page_size` bytes.
    pub fn add(&mut self, cpu: usize, page: &[u8], page_size: usize) {
        if self.failed.is_some() {
            return;
        }
        let at = self.lanes.iter().position(|lane| lane.cpu == cpu);
        let at = at.unwrap_or_else(|| {
            self.lanes.push(CpuPages {
                cpu,
                file: None,
                memory: Vec::new(),
                bytes: 0,
                forgot: false,
            });
            self.lanes.len() - 1
        });
        if let Some(lane) = self.lanes.get_mut(at) {
            let before = lane.memory.len();
            lane.memory.extend_from_slice(page);
            lane.memory.resize(before + page_size.max(page.len()), 0);
            let added = lane.memory.len() - before;
            lane.bytes += added as u64;
            self.held += added;
        }
        if self.held > self.memory_max && self.forgetful {
            // A part of the longest at once, for what stays is moved.
            let longest = self.lanes.iter_mut().max_by_key(|lane| lane.memory.len());
            let drop = self.memory_max / 8;
            self.held -= longest.map_or(0, |lane| lane.forget(drop.next_multiple_of(page_size)));
        } else if self.held > self.memory_max {
            self.held = 0;
            for lane in &mut self.lanes {
                if let Err(error) = lane.spill(&self.dir) {
                    self.failed = Some(error);
                    return;
                }
            }
        }
    }

    /// A forgetful spool forgets the pages of every CPU that come before the last one that began
    /// no later than this moment, by the time that each page begins with.
    pub fn forget_before(&mut self, at: u64, page_size: usize) {
        for lane in self.lanes.iter_mut().filter(|_| self.forgetful) {
            let pages = lane.memory.chunks(page_size);
            let old = pages.take_while(|page| time_of(page) <= at).count();
            self.held -= lane.forget(old.saturating_sub(1) * page_size);
        }
    }

    /// When the first page of a CPU begins, if earlier ones were forgotten.
    #[must_use]
    pub fn forgot_until(&self, cpu: usize) -> Option<u64> {
        let lane = self.lanes.iter().find(|lane| lane.cpu == cpu).filter(|lane| lane.forgot)?;
        Some(time_of(&lane.memory))
    }

    /// Bytes of a CPU.
    #[must_use]
    pub fn bytes(&self, cpu: usize) -> u64 {
        self.lanes.iter().find(|lane| lane.cpu == cpu).map_or(0, |lane| lane.bytes)
    }

    /// Gives all pages of a CPU in their order, each `page_size` bytes long.
    ///
    /// # Errors
    /// A page could not be kept or read back; else what `tell` answers.
    pub fn each(
        &mut self,
        cpu: usize,
        page_size: usize,
        tell: &mut dyn FnMut(&[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        if let Some(error) = &self.failed {
            return Err(io::Error::other(error.to_string()));
        }
        let Some(lane) = self.lanes.iter_mut().find(|lane| lane.cpu == cpu) else { return Ok(()) };
        if let Some(file) = &mut lane.file {
            let mut page = vec![0; page_size];
            let length = file.stream_position()?;
            file.rewind()?;
            let mut done = 0;
            while done < length {
                file.read_exact(&mut page)?;
                done += page_size as u64;
                tell(&page)?;
            }
            file.seek(SeekFrom::Start(length))?;
        }
        lane.memory.chunks(page_size).try_for_each(tell)
    }
}

impl CpuPages {
    /// Forgets so many bytes at the beginning, and says how many those were.
    fn forget(&mut self, bytes: usize) -> usize {
        let bytes = bytes.min(self.memory.len());
        self.memory.drain(..bytes);
        self.bytes -= bytes as u64;
        self.forgot |= bytes > 0;
        bytes
    }

    fn spill(&mut self, dir: &Path) -> Result<()> {
        let fail = |e| Error::io(Operation::Write, &dir.display().to_string(), e);
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(unnamed_file(dir, self.cpu).map_err(fail)?),
        };
        file.write_all(&self.memory).map_err(fail)?;
        self.memory.clear();
        Ok(())
    }
}

/// A file without a name, so that a killed run leaves nothing behind.
pub(crate) fn unnamed_file(dir: &Path, cpu: usize) -> io::Result<File> {
    let mut options = File::options();
    options.read(true).write(true);
    options.clone().custom_flags(libc::O_TMPFILE).open(dir).or_else(|_| {
        // Not every file system has O_TMPFILE (vfat, NFS): a name for a moment.
        let path = dir.join(format!(".cpushield-{}-{cpu}.pages", std::process::id()));
        let file = options.create_new(true).open(&path)?;
        std::fs::remove_file(&path)?;
        Ok(file)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(spool: &mut PageBuffer, cpu: usize) -> io::Result<Vec<u8>> {
        let mut firsts = Vec::new();
        spool.each(cpu, 4, &mut |page| {
            assert_eq!(page, [page[0]; 4]);
            firsts.push(page[0]);
            Ok(())
        })?;
        Ok(firsts)
    }

    #[test]
    fn pages_come_back_in_order_from_memory_and_from_files() {
        for memory in [0, 9, 1000] {
            let path = std::env::temp_dir().join("out.dat");
            let mut spool = PageBuffer::beside(&path).with_memory(memory);
            for n in 0..7 {
                spool.add(usize::from(n % 2), &[n; 4], 4);
            }
            for _ in 0..2 {
                assert_eq!(all(&mut spool, 0).unwrap(), [0, 2, 4, 6], "{memory}");
                assert_eq!(all(&mut spool, 1).unwrap(), [1, 3, 5], "{memory}");
            }
            assert_eq!((spool.bytes(0), spool.bytes(1), spool.bytes(2)), (16, 12, 0));
            spool.add(1, &[9; 4], 4);
            assert_eq!(all(&mut spool, 1).unwrap(), [1, 3, 5, 9], "{memory}");
        }
    }

    #[test]
    fn a_forgetful_spool_keeps_the_last_pages_in_bounded_memory() {
        let mut spool = PageBuffer::forgetful().with_memory(64 * 16);
        let times = |spool: &mut PageBuffer| {
            let mut times = Vec::new();
            let mut note = |page: &[u8]| {
                times.push(time_of(page));
                Ok(())
            };
            spool.each(2, 16, &mut note).unwrap();
            times
        };
        for time in 0_u64..10_000 {
            spool.add(2, &time.to_le_bytes(), 16);
            assert!(spool.held <= 64 * 16);
        }
        let kept = times(&mut spool);
        assert!(kept.len() >= 56 && kept.last() == Some(&9_999), "{kept:?}");
        assert!(kept.windows(2).all(|pair| pair[0] + 1 == pair[1]), "without a hole");
        assert_eq!(spool.forgot_until(2), kept.first().copied());
        spool.forget_before(9_990, 16);
        assert_eq!(times(&mut spool), (9_990..10_000).collect::<Vec<_>>());
        assert_eq!((spool.bytes(2), spool.held, spool.forgot_until(3)), (160, 160, None));
    }

    #[test]
    fn a_short_page_is_filled_up() {
        let mut spool = PageBuffer::beside(Path::new("out.dat"));
        spool.add(3, &[0; 2], 4);
        assert_eq!((all(&mut spool, 3).unwrap(), spool.bytes(3)), (vec![0], 4));
    }

    #[test]
    fn what_could_not_be_kept_is_told_when_it_is_asked_for() {
        let mut spool = PageBuffer::beside(Path::new("/nonexistent/out.dat")).with_memory(0);
        spool.add(0, &[0; 4], 4);
        spool.add(0, &[1; 4], 4);
        let error = all(&mut spool, 0).unwrap_err().to_string();
        assert!(error.contains("/nonexistent"), "{error}");
        assert!(all(&mut spool, 0).is_err(), "it does not heal");
    }
}
