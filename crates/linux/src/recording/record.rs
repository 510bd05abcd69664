//! Recording a machine: a copy of the files that were read, without private data
//! ([`crate::recording::redaction`]). Symbolic links on the way to a file are copied as links. So
//! the recording has one copy of each file, and the same paths lead to it.
//!
//! A recording contains only what was read; it never walks a tree. A failure to save is reported at
//! the end and never disturbs the survey.

use crate::error::{Error, Operation, Result};
use crate::recording::redaction::{HardwareAddresses, without_private};
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The maximum size of a saved file. No kernel text that a survey reads is larger.
const FILE_BYTES_MAX: usize = 8 << 20;

/// The maximum number of links in one path, which is the kernel's limit too.
const LINKS_MAX: usize = 40;

/// Saves what a [`crate::Host`] reads below a directory.
#[derive(Debug)]
pub struct MachineRecorder {
    dir: PathBuf,
    /// The root of the machine that is recorded.
    root: PathBuf,
    state: Mutex<RecorderState>,
}

#[derive(Debug, Default)]
struct RecorderState {
    /// The first failure to save.
    failed: Option<String>,
    /// The targets of the links seen; `None` for a path that is not a link.
    links: BTreeMap<String, Option<String>>,
    addresses: HardwareAddresses,
}

/// What exists at a path whose contents are not saved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PresentKind {
    /// A file.
    File,
    /// A directory.
    Directory,
}

impl MachineRecorder {
    /// Starts a recording. `knows_errors` says that the machine's errors are known: it is live, or
    /// a recording that has them.
    pub(crate) fn new(dir: &Path, root: &Path, knows_errors: bool) -> Result<MachineRecorder> {
        let name = dir.display().to_string();
        let failed = Error::on(Operation::MakeDir, &name);
        fs::create_dir_all(dir).map_err(failed)?;
        if fs::read_dir(dir).map_err(failed)?.next().is_some() {
            return Err(Error::os(Operation::MakeDir, &name, libc::ENOTEMPTY));
        }
        let head = "# what failed: verb, path, error; anything else that was tried succeeded\n";
        if knows_errors {
            fs::write(dir.join(crate::recording::root_dir::ERRORS_FILE), head).map_err(failed)?;
        }
        Ok(MachineRecorder { dir: dir.to_owned(), root: root.to_owned(), state: Mutex::default() })
    }

    /// The first file that could not be saved, and why.
    pub(crate) fn failure(&self) -> Option<String> {
        self.state().failed.clone()
    }

    fn state(&self) -> MutexGuard<'_, RecorderState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the first failure.
    fn note_failure(&self, path: &str, saved: io::Result<()>) {
        if let Err(error) = saved {
            self.state().failed.get_or_insert_with(|| format!("{path}: {error}"));
        }
    }

    fn hide(&self, text: &str) -> String {
        self.state().addresses.hide(text)
    }

    /// The path of a file of the machine in the recording. Copies and follows the links on the way.
    fn follow(&self, path: &str) -> io::Result<PathBuf> {
        let mut resolved: Vec<String> = Vec::new();
        let mut remaining: Vec<String> = parts(path).rev().map(str::to_owned).collect();
        let mut hops = 0;
        while let Some(part) = remaining.pop() {
            if part == ".." {
                resolved.pop();
                continue;
            }
            resolved.push(part);
            let link = resolved.join("/");
            let Some(target) = self.link_target(&link) else { continue };
            hops += 1;
            if hops > LINKS_MAX {
                return Err(io::Error::from_raw_os_error(libc::ELOOP));
            }
            self.copy_link(&link, &target)?;
            if target.starts_with('/') {
                resolved.clear();
            } else {
                resolved.pop();
            }
            remaining.extend(parts(&target).rev().map(str::to_owned));
        }
        Ok(self.dir.join(self.hide(&resolved.join("/"))))
    }

    /// The target of a link of the machine; `None` if the path is not a link. `/proc/self` differs
    /// for each reader, so a recording has it as a directory.
    fn link_target(&self, path: &str) -> Option<String> {
        if path == "proc/self" || path == "proc/thread-self" {
            return None;
        }
        if let Some(known) = self.state().links.get(path) {
            return known.clone();
        }
        let target = fs::read_link(self.root.join(path))
            .ok()
            .map(|target| target.to_string_lossy().into_owned());
        self.state().links.insert(path.to_owned(), target.clone());
        target
    }

    fn copy_link(&self, path: &str, target: &str) -> io::Result<()> {
        let copy = self.dir.join(self.hide(path));
        if copy.symlink_metadata().is_ok() {
            return Ok(());
        }
        if let Some(parent) = copy.parent() {
            fs::create_dir_all(parent)?;
        }
        let up = "../".repeat(parts(path).count().saturating_sub(1));
        let target = match target.strip_prefix('/') {
            Some(from_root) => format!("{up}{from_root}"),
            None => target.to_owned(),
        };
        std::os::unix::fs::symlink(self.hide(&target), copy)
    }

    pub(crate) fn save_file(&self, path: &str, bytes: &[u8]) {
        self.note_failure(path, self.try_save_file(path, bytes));
    }

    fn try_save_file(&self, path: &str, bytes: &[u8]) -> io::Result<()> {
        if bytes.len() > FILE_BYTES_MAX {
            return Err(io::Error::from_raw_os_error(libc::EFBIG));
        }
        let copy = self.follow(path)?;
        if let Some(parent) = copy.parent() {
            fs::create_dir_all(parent)?;
        }
        let redacted = without_private(path, bytes);
        match std::str::from_utf8(&redacted) {
            Ok(text) => fs::write(&copy, self.hide(text)),
            Err(_) => fs::write(&copy, redacted),
        }
    }

    pub(crate) fn save_dir(&self, path: &str) {
        self.note_failure(path, self.follow(path).and_then(fs::create_dir_all));
    }

    pub(crate) fn save_link(&self, path: &str) {
        self.note_failure(path, self.try_save_link(path));
    }

    fn try_save_link(&self, path: &str) -> io::Result<()> {
        let copy = self.follow(path)?;
        // The target must exist, or the link would lead nowhere.
        if !copy.exists() { fs::create_dir_all(copy) } else { Ok(()) }
    }

    pub(crate) fn save_presence(&self, path: &str, kind: PresentKind) {
        self.note_failure(path, self.try_save_presence(path, kind));
    }

    fn try_save_presence(&self, path: &str, kind: PresentKind) -> io::Result<()> {
        let copy = self.follow(path)?;
        if copy.exists() {
            return Ok(());
        }
        if kind == PresentKind::Directory {
            return fs::create_dir_all(copy);
        }
        if let Some(parent) = copy.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(copy, "")
    }

    /// Saves an error of the kernel. A file that could not be read is saved as an empty one.
    pub(crate) fn note_error(&self, verb: Operation, path: &str, errno: &str) {
        if verb == Operation::Read {
            self.save_presence(path, PresentKind::File);
        }
        self.note_failure(path, self.try_note_error(verb, path, errno));
    }

    fn try_note_error(&self, verb: Operation, path: &str, errno: &str) -> io::Result<()> {
        let file = self.dir.join(crate::recording::root_dir::ERRORS_FILE);
        let mut file = fs::OpenOptions::new().create(true).append(true).open(file)?;
        writeln!(file, "{}\t{}\t{errno}", verb.word(), self.hide(path))
    }
}

fn parts(path: &str) -> impl DoubleEndedIterator<Item = &str> {
    path.split('/').filter(|part| !part.is_empty() && *part != ".")
}
