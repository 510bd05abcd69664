//! Recording a machine: a copy of the files that were read, with nothing private in them
//! ([`crate::private`]). Symbolic links on the way to a file are copied as links, so that the
//! recording has one copy of each file and the same paths lead to it.
//!
//! Only what was read is saved: a recording never walks a tree of its own accord. A failure to save
//! is kept and told at the end; it never disturbs the survey.

use crate::error::{Error, Operation, Result};
use crate::redaction::{HardwareAddresses, without_private};
use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// No kernel text that a survey reads is larger; what is, is not saved.
const FILE_BYTES_MAX: usize = 8 << 20;

/// As the kernel's own limit for links in one path.
const LINKS_MAX: usize = 40;

/// Saves what a [`crate::Host`] reads below a directory.
#[derive(Debug)]
pub struct MachineRecorder {
    dir: PathBuf,
    /// Where the machine that is recorded lies.
    root: PathBuf,
    state: Mutex<RecorderState>,
}

#[derive(Debug, Default)]
struct RecorderState {
    /// The first failure to save.
    failed: Option<String>,
    /// Where the links lead that were met; `None` for what is no link.
    links: BTreeMap<String, Option<String>>,
    addresses: HardwareAddresses,
}

impl MachineRecorder {
    /// Begins a recording. `tried` says that the machine's errors are known: it is live, or a
    /// recording that has them.
    pub(crate) fn new(dir: &Path, root: &Path, tried: bool) -> Result<MachineRecorder> {
        let name = dir.display().to_string();
        let fail = |e| Error::io(Operation::MakeDir, &name, e);
        fs::create_dir_all(dir).map_err(fail)?;
        if fs::read_dir(dir).map_err(fail)?.next().is_some() {
            return Err(Error::os(Operation::MakeDir, &name, libc::ENOTEMPTY));
        }
        let head = "# what failed: verb, path, error; anything else that was tried succeeded\n";
        if tried {
            fs::write(dir.join(crate::host::ERRORS_FILE), head).map_err(fail)?;
        }
        Ok(MachineRecorder { dir: dir.to_owned(), root: root.to_owned(), state: Mutex::default() })
    }

    /// The first thing that could not be saved, and why.
    pub(crate) fn failure(&self) -> Option<String> {
        self.state().failed.clone()
    }

    fn state(&self) -> MutexGuard<'_, RecorderState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keep(&self, path: &str, done: std::io::Result<()>) {
        if let Err(error) = done {
            self.state().failed.get_or_insert_with(|| format!("{path}: {error}"));
        }
    }

    fn hide(&self, text: &str) -> String {
        self.state().addresses.hide(text)
    }

    /// Where a file of the machine lies in the recording. Links on the way are copied and
    /// followed; the last part is followed only when `whole` is asked for.
    fn place(&self, path: &str, whole: bool) -> std::io::Result<PathBuf> {
        let mut done: Vec<String> = Vec::new();
        let mut todo: Vec<String> = parts(path).rev().map(str::to_owned).collect();
        let mut hops = 0;
        while let Some(part) = todo.pop() {
            if part == ".." {
                done.pop();
                continue;
            }
            done.push(part);
            if todo.is_empty() && !whole {
                break;
            }
            let here = done.join("/");
            let Some(target) = self.link_at(&here) else { continue };
            hops += 1;
            if hops > LINKS_MAX {
                return Err(std::io::Error::from_raw_os_error(libc::ELOOP));
            }
            self.put_link(&here, &target)?;
            if target.starts_with('/') {
                done.clear();
            } else {
                done.pop();
            }
            todo.extend(parts(&target).rev().map(str::to_owned));
        }
        Ok(self.dir.join(self.hide(&done.join("/"))))
    }

    /// What the link at a path of the machine says. `/proc/self` is another one for each reader:
    /// a recording has it as a directory.
    fn link_at(&self, path: &str) -> Option<String> {
        if path == "proc/self" || path == "proc/thread-self" {
            return None;
        }
        if let Some(known) = self.state().links.get(path) {
            return known.clone();
        }
        let target = fs::read_link(self.root.join(path)).ok();
        let target = target.map(|target| target.to_string_lossy().into_owned());
        self.state().links.insert(path.to_owned(), target.clone());
        target
    }

    fn put_link(&self, path: &str, target: &str) -> std::io::Result<()> {
        let place = self.dir.join(self.hide(path));
        if place.symlink_metadata().is_ok() {
            return Ok(());
        }
        if let Some(parent) = place.parent() {
            fs::create_dir_all(parent)?;
        }
        let up = "../".repeat(parts(path).count().saturating_sub(1));
        let target = match target.strip_prefix('/') {
            Some(from_root) => format!("{up}{from_root}"),
            None => target.to_owned(),
        };
        std::os::unix::fs::symlink(self.hide(&target), place)
    }

    pub(crate) fn save_file(&self, path: &str, bytes: &[u8]) {
        let save = || {
            if bytes.len() > FILE_BYTES_MAX {
                return Err(std::io::Error::from_raw_os_error(libc::EFBIG));
            }
            let place = self.place(path, true)?;
            if let Some(parent) = place.parent() {
                fs::create_dir_all(parent)?;
            }
            let kept = without_private(path, bytes);
            match std::str::from_utf8(&kept) {
                Ok(text) => fs::write(&place, self.hide(text)),
                Err(_) => fs::write(&place, kept),
            }
        };
        self.keep(path, save());
    }

    pub(crate) fn save_dir(&self, path: &str) {
        let save = || fs::create_dir_all(self.place(path, true)?);
        self.keep(path, save());
    }

    pub(crate) fn save_link(&self, path: &str) {
        let save = || {
            let place = self.place(path, true)?;
            // Where it leads must be there for it to lead anywhere.
            if !place.exists() { fs::create_dir_all(place) } else { Ok(()) }
        };
        self.keep(path, save());
    }

    pub(crate) fn save_presence(&self, path: &str, is_dir: bool) {
        let save = || {
            let place = self.place(path, true)?;
            if place.exists() {
                return Ok(());
            }
            if is_dir {
                return fs::create_dir_all(place);
            }
            if let Some(parent) = place.parent() {
                fs::create_dir_all(parent)?;
            }
            fs::write(place, "")
        };
        self.keep(path, save());
    }

    /// Notes what the kernel answered. A file that could not be read is there all the same.
    pub(crate) fn note_error(&self, verb: Operation, path: &str, errno: &str) {
        if verb == Operation::Read {
            self.save_presence(path, false);
        }
        let save = || {
            let file = self.dir.join(crate::host::ERRORS_FILE);
            let mut file = fs::OpenOptions::new().create(true).append(true).open(file)?;
            writeln!(file, "{}\t{}\t{errno}", verb.word(), self.hide(path))
        };
        self.keep(path, save());
    }
}

fn parts(path: &str) -> impl DoubleEndedIterator<Item = &str> {
    path.split('/').filter(|part| !part.is_empty() && *part != ".")
}
