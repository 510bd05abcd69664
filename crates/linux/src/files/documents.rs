//! [`UserFiles`]: files that the user names: policies, plans, reports. Their paths are those of the
//! computer the program runs on, never inside a recorded machine.

use crate::error::{Error, Operation, Result};
use crate::files::atomic_file;
use crate::files::event_log::{EventLog, log_result};
use crate::host::Host;
use rustix::fs::{Access, access};
use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

/// The maximum size of a document; a plan for a machine with thousands of CPUs has a few MiB.
const BYTES_MAX: u64 = 64 << 20;

/// The files that the user names, with the log of every access to them.
#[derive(Debug, Clone, Default)]
pub struct UserFiles {
    log: Option<EventLog>,
}

impl Host {
    /// The files that the user names, with the log of this host.
    #[must_use]
    pub fn user_files(&self) -> UserFiles {
        UserFiles::new(self.log.clone())
    }
}

impl UserFiles {
    /// Logs every access to this log, if there is one.
    #[must_use]
    pub fn new(log: Option<EventLog>) -> UserFiles {
        UserFiles { log }
    }

    fn log_result<T>(&self, verb: Operation, path: &Path, answer: Result<T>) -> Result<T> {
        log_result(self.log.as_ref(), verb, &path.display().to_string(), None, answer)
    }

    /// Logs a write, and makes an [`Error`] of its result.
    fn log_write(&self, path: &Path, written: io::Result<()>) -> Result<()> {
        let failed = |e| Error::io(Operation::Write, &path.display().to_string(), e);
        self.log_result(Operation::Write, path, written.map_err(failed))
    }

    /// Reads a whole document.
    ///
    /// # Errors
    /// The kernel's error; EFBIG if it is too large to be a document; text that is not UTF-8.
    pub fn read(&self, path: &Path) -> Result<String> {
        self.log_result(Operation::Read, path, read_document(path))
    }

    /// Writes a document: it is complete or does not exist.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn write(&self, path: &Path, text: &str) -> Result<()> {
        self.write_stream(path, &mut |out| out.write_all(text.as_bytes()))
    }

    /// Whether a document can be written there; checked before the work whose result it will hold.
    ///
    /// # Errors
    /// The kernel's error in the same steps as those of [`UserFiles::write_stream`].
    pub fn check_writable(&self, path: &Path) -> Result<()> {
        self.log_write(path, check_place(path))
    }

    /// Writes a document piece by piece: it is complete or does not exist.
    ///
    /// # Errors
    /// The kernel's error, or that of `fill`.
    pub fn write_stream(
        &self,
        path: &Path,
        fill: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>,
    ) -> Result<()> {
        let written = match is_special(path) {
            true => write_special(path, fill),
            false => {
                let temporary = own_temporary_path(path);
                atomic_file::put(path, &temporary, 0o666, &mut |file| buffered(file, fill))
            }
        };
        self.log_write(path, written)
    }

    /// Writes a document, which is on the disk when this returns. The previous one remains until
    /// then, even if this program or the machine crashes.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn keep(&self, path: &Path, text: &str) -> Result<()> {
        self.log_write(path, write_durably(path, text))
    }
}

fn read_document(path: &Path) -> Result<String> {
    let name = path.display().to_string();
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(Error::on(Operation::Read, &name))?;
    file.take(BYTES_MAX + 1).read_to_end(&mut bytes).map_err(Error::on(Operation::Read, &name))?;
    if bytes.len() as u64 > BYTES_MAX {
        return Err(Error::os(Operation::Read, &name, libc::EFBIG));
    }
    String::from_utf8(bytes).map_err(|e| {
        let at = e.utf8_error().valid_up_to();
        let (before, rest) = e.as_bytes().split_at(at);
        let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
        let byte = rest.first().copied().unwrap_or_default();
        Error::malformed(&name, line, "UTF-8 text", &format!("byte {byte:#04x} at offset {at}"))
    })
}

/// Checks that a document can be written there. A pipe is not opened: that would wait for a reader.
fn check_place(path: &Path) -> io::Result<()> {
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => Err(io::Error::from_raw_os_error(libc::EISDIR)),
        Ok(found) if !found.is_file() => Ok(access(path, Access::WRITE_OK)?),
        _ => {
            let temporary = own_temporary_path(path);
            atomic_file::create(&temporary, 0o666).and_then(|_| fs::remove_file(&temporary))
        }
    }
}

/// The temporary name of a document while this process writes it: several may write the same one.
fn own_temporary_path(path: &Path) -> PathBuf {
    let mut name = atomic_file::temporary_path(path).into_os_string();
    name.push(format!("-{}", std::process::id()));
    PathBuf::from(name)
}

fn write_durably(path: &Path, text: &str) -> io::Result<()> {
    if is_special(path) {
        return write_special(path, &mut |out| out.write_all(text.as_bytes()));
    }
    atomic_file::put(path, &atomic_file::temporary_path(path), 0o666, &mut |file| {
        file.write_all(text.as_bytes())?;
        file.sync_all()
    })
    .and_then(|()| atomic_file::sync_dir_of(path))
}

/// Whether it is a device or a pipe, which a rename would replace.
fn is_special(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir())
}

/// Writes to a device or a pipe.
fn write_special(
    path: &Path,
    fill: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    buffered(&mut File::create(path)?, fill)
}

fn buffered(
    file: &mut File,
    fill: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    let mut out = BufWriter::new(file);
    fill(&mut out)?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    use std::os::unix::fs::symlink;

    #[test]
    fn the_check_follows_no_link_that_another_user_has_made() {
        let dir = std::env::temp_dir().join(format!("cpushield-documents-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let (kept, path) = (dir.join("kept"), dir.join("x.json"));
        fs::write(&kept, "text").unwrap();
        symlink(&kept, own_temporary_path(&path)).unwrap();
        UserFiles::default().check_writable(&path).unwrap();
        assert_eq!(fs::read_to_string(&kept).unwrap(), "text");
        let names = fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().file_name());
        assert_eq!(names.collect::<Vec<_>>(), ["kept"]);
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn a_document_is_not_written_to_a_directory_and_the_check_finds_that() {
        let dir = std::env::temp_dir().join(format!("cpushield-place-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let (files, place) = (UserFiles::default(), dir.join("x.json"));
        fs::create_dir(&place).unwrap();
        for refused in
            [files.check_writable(&place), files.write(&place, "text"), files.keep(&place, "text")]
        {
            assert_eq!(refused.unwrap_err().errno(), Some(libc::EISDIR));
        }
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 1);
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn the_check_of_a_pipe_waits_for_no_reader() {
        let dir = std::env::temp_dir().join(format!("cpushield-pipe-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let pipe = dir.join("pipe");
        mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        UserFiles::default().check_writable(&pipe).unwrap();
        UserFiles::default().check_writable(Path::new("/dev/null")).unwrap();
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn a_document_that_is_kept_replaces_no_other_file_of_the_user() {
        let dir = std::env::temp_dir().join(format!("cpushield-keep-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let (path, other) = (dir.join("x.json"), dir.join("x.json.new"));
        fs::write(&other, "of the user").unwrap();
        UserFiles::default().keep(&path, "text").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "text");
        assert_eq!(fs::read_to_string(&other).unwrap(), "of the user");
        fs::remove_dir_all(dir).unwrap();
    }
}
