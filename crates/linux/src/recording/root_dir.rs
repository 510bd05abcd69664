//! The root directory of a recorded machine. Files below it are opened in one system call, and
//! links that lead out of it are not followed.

use crate::error::{Error, Operation, Result, errno_number};
use rustix::fs::{CWD, Dir, FileType, Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// The file of a recording with the errors that the kernel returned: `verb<TAB>path<TAB>errno`.
pub const ERRORS_FILE: &str = "errors.tsv";

/// How often an open that a concurrent rename disturbed is repeated (EAGAIN of openat2(2)).
const TRIES: usize = 8;

/// A directory with copies of `/proc` and `/sys`.
#[derive(Debug)]
pub(crate) struct RootDir {
    path: PathBuf,
    /// The directory for `openat2`; `None` if the kernel is older than 5.6 or a filter refuses the
    /// call.
    handle: Option<OwnedFd>,
}

impl RootDir {
    /// Opens the directory. `path` must have no links.
    pub(crate) fn open(path: &Path) -> io::Result<RootDir> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let handle = match openat2(CWD, path, flags, Mode::empty(), ResolveFlags::empty()) {
            Ok(handle) => Some(handle),
            Err(Errno::NOSYS | Errno::PERM) => None,
            Err(errno) => return Err(errno.into()),
        };
        Ok(RootDir { path: path.to_owned(), handle })
    }

    /// Opens a file for reading.
    pub(crate) fn read(&self, path: &str) -> io::Result<fs::File> {
        self.open_below(path, OFlags::RDONLY).map(fs::File::from)
    }

    /// Whether a file or directory exists.
    pub(crate) fn has(&self, path: &str) -> bool {
        self.open_below(path, OFlags::PATH).is_ok()
    }

    /// Lists the names in a directory.
    pub(crate) fn list(&self, path: &str, listed: Listed) -> io::Result<Vec<String>> {
        names(self.open_below(path, OFlags::RDONLY | OFlags::DIRECTORY)?, listed)
    }

    fn open_below(&self, path: &str, flags: OFlags) -> io::Result<OwnedFd> {
        let flags = flags | OFlags::CLOEXEC;
        let Some(handle) = &self.handle else { return self.open_checked(path, flags) };
        // The root itself has no name below itself.
        let below = Some(path.trim_start_matches('/')).filter(|path| !path.is_empty());
        for _ in 0..TRIES {
            let resolve = ResolveFlags::IN_ROOT;
            match openat2(handle, below.unwrap_or("."), flags, Mode::empty(), resolve) {
                Err(Errno::AGAIN) => {}
                answer => return answer.map_err(io::Error::from),
            }
        }
        Err(Errno::AGAIN.into())
    }

    /// Like `open_below` on kernels without `openat2`: checks the resolved path first.
    fn open_checked(&self, path: &str, flags: OFlags) -> io::Result<OwnedFd> {
        let real = self.path.join(path.trim_start_matches('/')).canonicalize()?;
        if !real.starts_with(&self.path) {
            return Err(io::Error::from_raw_os_error(libc::ENOENT));
        }
        Ok(rustix::fs::open(real, flags, Mode::empty())?)
    }
}

/// Which names of a directory to list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listed {
    /// All names.
    All,
    /// The names of directories.
    Directories,
}

/// The names in a directory, without `.` and `..`.
pub(crate) fn names(dir: OwnedFd, listed: Listed) -> io::Result<Vec<String>> {
    let mut dir = Dir::new(dir)?;
    let mut names = Vec::new();
    while let Some(entry) = dir.next() {
        let entry = entry?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        let wanted = match entry.file_type() {
            _ if listed == Listed::All => true,
            FileType::Unknown => {
                let flags = rustix::fs::AtFlags::SYMLINK_NOFOLLOW;
                let found = rustix::fs::statat(dir.fd()?, name, flags)?;
                FileType::from_raw_mode(found.st_mode).is_dir()
            }
            kind => kind.is_dir(),
        };
        if wanted {
            names.push(name.to_string_lossy().into_owned());
        }
    }
    Ok(names)
}

/// What a recording shows about an access.
#[derive(Debug)]
pub enum RecordedOutcome {
    /// It succeeded.
    Succeeded,
    /// The kernel returned an error.
    Failed(Error),
    /// Nothing: the host is live, or this program did not record the directory, so it has no
    /// `errors.tsv`.
    NotRecorded,
}

/// Parses the errors that the kernel of a recorded machine returned, by operation and path.
pub(crate) fn parse_errors(text: &str) -> Result<BTreeMap<(Operation, String), i32>> {
    let mut errors = BTreeMap::new();
    for (i, line) in text.lines().enumerate() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let mut words = line.split('\t');
        let entry = (|| {
            let verb = Operation::from_word(words.next()?)?;
            let path = words.next()?.to_owned();
            Some(((verb, path), errno_number(words.next()?)?))
        })();
        let (key, errno) = entry
            .ok_or_else(|| Error::malformed(ERRORS_FILE, i + 1, "verb, path and errno", line))?;
        errors.insert(key, errno);
    }
    Ok(errors)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// A root with links inside and out of it, opened both ways.
    fn roots(name: &str) -> [RootDir; 2] {
        let dir = std::env::temp_dir().join(format!("cpushield-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        let root = dir.join("root");
        fs::create_dir_all(root.join("sys/devices/cpu0")).unwrap();
        fs::write(dir.join("secret"), "outside").unwrap();
        fs::write(root.join("sys/devices/cpu0/online"), "1\n").unwrap();
        symlink("../devices", root.join("sys/near")).unwrap();
        symlink("devices/cpu0", root.join("sys/cpu0")).unwrap();
        symlink("../../../secret", root.join("sys/up")).unwrap();
        symlink(dir.join("secret"), root.join("sys/away")).unwrap();
        symlink("loop", root.join("sys/loop")).unwrap();
        let root = RootDir::open(&root.canonicalize().unwrap()).unwrap();
        let checked = RootDir { path: root.path.clone(), handle: None };
        [root, checked]
    }

    #[test]
    fn links_are_followed_inside_the_root_and_never_out_of_it() {
        for root in roots("links") {
            let read = |path: &str| io::read_to_string(root.read(path).unwrap()).unwrap();
            assert_eq!(read("/sys/cpu0/online"), "1\n");
            assert!(root.has("/sys/cpu0") && root.has("/") && !root.has("/sys/cpu1"));
            for out in ["/sys/up", "/sys/away", "/../secret"] {
                let error = root.read(out).unwrap_err();
                assert_eq!(error.kind(), io::ErrorKind::NotFound, "{out}");
            }
            let error = root.read("/sys/loop").unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::ELOOP));
        }
    }

    #[test]
    fn a_listing_has_the_names_and_on_request_the_directories_alone() {
        for root in roots("names") {
            let sorted = |listed: Listed| {
                let mut names = root.list("/sys", listed).unwrap();
                names.sort();
                names
            };
            assert_eq!(sorted(Listed::All), ["away", "cpu0", "devices", "loop", "near", "up"]);
            assert_eq!(sorted(Listed::Directories), ["devices"]);
            assert_eq!(root.list("/", Listed::Directories).unwrap(), ["sys"]);
        }
    }
}
