//! Raw pages of several CPUs, kept while a trace is read: in memory first, in nameless files of a
//! given directory when they are many. Only one thread uses it, so nothing of it touches another
//! CPU.
//!
//! Adding never fails: a trace must not end because a disk is full. The first error is kept and
//! told by whoever wants to read the pages.

use crate::error::{Error, Result, Verb};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Bytes kept in memory before they go to files: seconds of a busy CPU.
const MEMORY_MAX: usize = 32 << 20;

/// Pages of several CPUs.
#[derive(Debug)]
pub struct Spool {
    dir: PathBuf,
    memory_max: usize,
    held: usize,
    lanes: Vec<Lane>,
    failed: Option<Error>,
}

/// The pages of one CPU.
#[derive(Debug)]
struct Lane {
    cpu: usize,
    /// Earlier pages.
    file: Option<File>,
    /// Later ones.
    memory: Vec<u8>,
    bytes: u64,
}

impl Spool {
    /// An empty spool. What does not fit into memory goes to nameless files in the directory of
    /// `path`, which vanish with the spool.
    #[must_use]
    pub fn beside(path: &Path) -> Spool {
        let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
        Spool {
            dir: dir.unwrap_or(Path::new(".")).to_owned(),
            memory_max: MEMORY_MAX,
            held: 0,
            lanes: Vec::new(),
            failed: None,
        }
    }

    /// The same with another limit of memory.
    #[must_use]
    pub fn with_memory(self, bytes: usize) -> Spool {
        Spool { memory_max: bytes, ..self }
    }

    /// One more page of a CPU, filled up with zeroes to `page_size` bytes.
    pub fn add(&mut self, cpu: usize, page: &[u8], page_size: usize) {
        if self.failed.is_some() {
            return;
        }
        let at = self.lanes.iter().position(|lane| lane.cpu == cpu);
        let at = at.unwrap_or_else(|| {
            self.lanes.push(Lane { cpu, file: None, memory: Vec::new(), bytes: 0 });
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
        if self.held > self.memory_max {
            self.held = 0;
            for lane in &mut self.lanes {
                if let Err(error) = lane.spill(&self.dir) {
                    self.failed = Some(error);
                    return;
                }
            }
        }
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

impl Lane {
    fn spill(&mut self, dir: &Path) -> Result<()> {
        let fail = |e| Error::io(Verb::Write, &dir.display().to_string(), e);
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(nameless(dir, self.cpu).map_err(fail)?),
        };
        file.write_all(&self.memory).map_err(fail)?;
        self.memory.clear();
        Ok(())
    }
}

/// A file without a name, so that a killed run leaves nothing behind.
fn nameless(dir: &Path, cpu: usize) -> io::Result<File> {
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

    fn all(spool: &mut Spool, cpu: usize) -> io::Result<Vec<u8>> {
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
            let mut spool = Spool::beside(&path).with_memory(memory);
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
    fn a_short_page_is_filled_up() {
        let mut spool = Spool::beside(Path::new("out.dat"));
        spool.add(3, &[0; 2], 4);
        assert_eq!((all(&mut spool, 3).unwrap(), spool.bytes(3)), (vec![0], 4));
    }

    #[test]
    fn what_could_not_be_kept_is_told_when_it_is_asked_for() {
        let mut spool = Spool::beside(Path::new("/nonexistent/out.dat")).with_memory(0);
        spool.add(0, &[0; 4], 4);
        spool.add(0, &[1; 4], 4);
        let error = all(&mut spool, 0).unwrap_err().to_string();
        assert!(error.contains("/nonexistent"), "{error}");
        assert!(all(&mut spool, 0).is_err(), "it does not heal");
    }
}
