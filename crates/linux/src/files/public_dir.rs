//! [`PublicDir`]: a directory in `/run` whose files every user can read. Only root writes there.
//! A reader trusts a file only if root owns it and no other user can write it.

use crate::error::{Error, Operation, Result};
use crate::files::atomic_file;
use crate::files::event_log::{EventLog, log_result};
use crate::files::regular::{check_writers, open_regular};
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The permission bits of the directory.
const DIR_MODE: u32 = 0o755;
/// The permission bits of its files.
const FILE_MODE: u32 = 0o644;
/// The maximum size of a file.
const BYTES_MAX: u64 = 1 << 20;

/// A directory whose files every user can read.
#[derive(Debug, Clone)]
pub struct PublicDir {
    dir: PathBuf,
    log: Option<EventLog>,
}

impl PublicDir {
    /// The directory of this path. Creates nothing yet.
    #[must_use]
    pub fn new(dir: &Path) -> PublicDir {
        PublicDir { dir: dir.to_owned(), log: None }
    }

    /// The same directory, which writes every access to this log from now on.
    #[must_use]
    pub fn logging(self, log: Option<EventLog>) -> PublicDir {
        PublicDir { log, ..self }
    }

    fn log_result<T>(&self, verb: Operation, name: &str, answer: Result<T>) -> Result<T> {
        log_result(self.log.as_ref(), verb, &self.path(name), None, answer)
    }

    fn path(&self, name: &str) -> String {
        self.dir.join(name).display().to_string()
    }

    /// Replaces a file atomically. It does not survive a crash of the machine, and need not.
    ///
    /// # Errors
    /// The file system's error; EPERM if another user could change the directory.
    pub fn publish(&self, name: &str, bytes: &[u8]) -> Result<()> {
        self.log_result(Operation::Write, name, self.publish_file(name, bytes))
    }

    fn publish_file(&self, name: &str, bytes: &[u8]) -> Result<()> {
        let path = self.path(name);
        let failed = Error::on(Operation::Write, &path);
        self.create_dir().map_err(failed)?;
        let new = self.dir.join(format!("{name}.new"));
        atomic_file::put(&self.dir.join(name), &new, 0o600, &mut |file| {
            file.write_all(bytes)?;
            // The mask of this process does not apply to this.
            file.set_permissions(fs::Permissions::from_mode(FILE_MODE))
        })
        .map_err(failed)
    }

    /// Creates the directory, and checks that only this user can change it.
    fn create_dir(&self) -> io::Result<()> {
        match DirBuilder::new().mode(DIR_MODE).create(&self.dir) {
            Ok(()) => fs::set_permissions(&self.dir, fs::Permissions::from_mode(DIR_MODE))?,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
        let found = fs::symlink_metadata(&self.dir)?;
        if found.is_dir() && check_writers(&found).is_ok() {
            Ok(())
        } else {
            Err(io::Error::from_raw_os_error(libc::EPERM))
        }
    }

    /// Reads a file; `None` if it does not exist.
    ///
    /// # Errors
    /// The file system's error; EPERM if another user could have written the file; EFBIG if it has
    /// more than 1 MiB.
    pub fn read(&self, name: &str) -> Result<Option<Vec<u8>>> {
        match self.log_result(Operation::Read, name, self.read_file(name)) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.errno() == Some(libc::ENOENT) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn read_file(&self, name: &str) -> Result<Vec<u8>> {
        let path = self.path(name);
        let failed = Error::on(Operation::Read, &path);
        let file = open_regular(&self.dir.join(name), OpenOptions::new().read(true))
            .map_err(|e| Error::open(Operation::Read, &path, e))?;
        let found = file.metadata().map_err(failed)?;
        if check_writers(&found).is_err() {
            return Err(Error::os(Operation::Read, &path, libc::EPERM));
        }
        let mut bytes = Vec::new();
        file.take(BYTES_MAX + 1).read_to_end(&mut bytes).map_err(failed)?;
        if bytes.len() as u64 > BYTES_MAX {
            return Err(Error::os(Operation::Read, &path, libc::EFBIG));
        }
        Ok(bytes)
    }
}

/// Makes the missing directories above this one. They belong to the system: everybody may enter
/// them, whatever the umask of the caller.
pub(crate) fn create_parents(dir: &Path) -> io::Result<()> {
    let is_missing = |dir: &&Path| !dir.as_os_str().is_empty() && !dir.exists();
    let missing: Vec<_> = dir.ancestors().skip(1).take_while(is_missing).collect();
    for above in missing.into_iter().rev() {
        match fs::create_dir(above) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => made
                .and_then(|()| fs::set_permissions(above, fs::Permissions::from_mode(DIR_MODE)))?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{MetadataExt, symlink};

    #[test]
    fn directories_above_a_private_one_are_open_to_everybody() {
        let base = std::env::temp_dir().join(format!("cpushield-parents-{}", std::process::id()));
        create_parents(&base.join("var/lib/own")).unwrap();
        for dir in ["", "var", "var/lib"] {
            assert_eq!(fs::metadata(base.join(dir)).unwrap().mode() & 0o7777, 0o755, "{dir}");
        }
        assert!(!base.join("var/lib/own").exists());
        fs::remove_dir_all(base).unwrap();
    }

    #[test]
    fn a_file_is_readable_for_all_and_no_link_is_followed() {
        let base = std::env::temp_dir().join(format!("cpushield-public-{}", std::process::id()));
        fs::create_dir_all(&base).unwrap();
        let public = PublicDir::new(&base.join("run"));
        assert_eq!(public.read("a").unwrap(), None);
        public.publish("a", b"one").unwrap();
        let file = base.join("run/a");
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o7777, 0o644);
        assert_eq!(fs::metadata(base.join("run")).unwrap().mode() & 0o7777, 0o755);
        fs::write(base.join("run/large"), vec![b' '; (1 << 20) + 1]).unwrap();
        assert_eq!(public.read("large").unwrap_err().errno(), Some(libc::EFBIG));
        // A link is replaced, and what it points to keeps its content.
        fs::write(base.join("other"), "mine").unwrap();
        fs::remove_file(&file).unwrap();
        symlink(base.join("other"), &file).unwrap();
        assert!(public.read("a").is_err());
        symlink(base.join("other"), base.join("run/a.new")).unwrap();
        public.publish("a", b"two").unwrap();
        assert_eq!(public.read("a").unwrap().as_deref(), Some(b"two".as_slice()));
        assert_eq!(fs::read(base.join("other")).unwrap(), b"mine");
        // A file that others can write is not trusted, and neither is such a directory.
        fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).unwrap();
        assert!(public.read("a").is_err());
        fs::set_permissions(base.join("run"), fs::Permissions::from_mode(0o777)).unwrap();
        assert!(public.publish("a", b"three").is_err());
        symlink(base.join("run"), base.join("link")).unwrap();
        assert!(PublicDir::new(&base.join("link")).publish("a", b"four").is_err());
        fs::remove_dir_all(&base).unwrap();
    }
}
