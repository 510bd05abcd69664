//! [`Store`]: the state directory. It keeps files that must survive a crash: replaced whole or
//! appended to, told to the disk when that matters, and guarded by one lock. What the files mean is
//! none of its business. Paths here are those of the computer the program runs on, whatever machine
//! a [`crate::Host`] shows.

use crate::atomic_file;
use crate::error::{Error, ErrorCause, Operation, Result};
use crate::event_log::{EventLog, logged};
use crate::regular::{OpenError, open_regular};
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// The file that is locked; it holds the number of the process that locked it last.
const LOCK: &str = "lock";

/// How long another process may hold the lock before we give up. Applying takes the longest.
const LOCK_WAIT: Duration = Duration::from_secs(10);

/// A state directory; it is made when something is first kept in it.
#[derive(Debug, Clone)]
pub struct Store {
    dir: PathBuf,
    room: WriteBudget,
    log: Option<EventLog>,
}

/// How many more writes a test lets the disk take.
#[derive(Debug, Clone, Default)]
struct WriteBudget(Option<Arc<AtomicUsize>>);

impl WriteBudget {
    /// Whatever needs the disk passes here first.
    fn take(&self) -> io::Result<()> {
        let Some(left) = &self.0 else { return Ok(()) };
        let less = |left: usize| left.checked_sub(1);
        match left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less) {
            Ok(_) => Ok(()),
            Err(_) => Err(io::Error::from_raw_os_error(libc::ENOSPC)),
        }
    }
}

/// The exclusive right to change what the store keeps, until it is dropped.
#[derive(Debug)]
pub struct StoreLock {
    _file: File,
}

/// Who holds the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LockHolder {
    /// Its number; `None` when it has not written it yet.
    pub pid: Option<i32>,
}

/// A file of the store that lines are added to.
#[derive(Debug)]
pub struct Appender {
    file: File,
    path: String,
    room: WriteBudget,
    log: Option<EventLog>,
}

impl Store {
    /// The store in this directory. Nothing is touched yet.
    #[must_use]
    pub fn new(dir: &Path) -> Store {
        Store { dir: dir.to_owned(), room: WriteBudget::default(), log: None }
    }

    /// The same store on a disk that takes so many writes more and is full then; for tests of what
    /// happens without room.
    #[must_use]
    pub fn with_room_for(self, writes: usize) -> Store {
        Store { room: WriteBudget(Some(Arc::new(AtomicUsize::new(writes)))), ..self }
    }

    /// The same store; every access from now on is noted in this log.
    #[must_use]
    pub fn logging(self, log: Option<EventLog>) -> Store {
        Store { log, ..self }
    }

    fn logged<T>(&self, verb: Operation, name: &str, answer: Result<T>) -> Result<T> {
        logged(self.log.as_ref(), verb, &self.path(name), None, answer)
    }

    /// The path of one of its files.
    #[must_use]
    pub fn path(&self, name: &str) -> String {
        self.dir.join(name).display().to_string()
    }

    fn make(&self) -> Result<()> {
        let path = self.dir.display().to_string();
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.dir)
            .map_err(|e| Error::io(Operation::MakeDir, &path, e))
    }

    /// Takes the lock. Somebody else's work takes a moment, so it is waited for; who still holds it
    /// then is told.
    ///
    /// # Errors
    /// [`ErrorCause::Held`] when another process has it; else the answer of the file system.
    pub fn lock(&self) -> Result<StoreLock> {
        let give_up = Instant::now() + LOCK_WAIT;
        loop {
            match self.try_lock(LOCK) {
                Err(error) if error.is_held() && Instant::now() < give_up => {
                    std::thread::sleep(Duration::from_millis(20));
                }
                answer => return answer,
            }
        }
    }

    /// Takes another lock, for work that goes on for long, or says at once who has it. The work
    /// itself still takes the one of [`Store::lock`] whenever it writes.
    ///
    /// # Errors
    /// As [`Store::lock`].
    pub fn claim(&self, what: &str) -> Result<StoreLock> {
        self.try_lock(&format!("{what}.{LOCK}"))
    }

    /// The other process that holds the lock now; `None` when nobody does. Nothing is made and no
    /// holder is disturbed: the look takes a shared lock for a moment.
    ///
    /// # Errors
    /// The file system's error.
    pub fn holder(&self) -> Result<Option<LockHolder>> {
        let path = self.path(LOCK);
        let mut file = match open_regular(&self.dir.join(LOCK), OpenOptions::new().read(true)) {
            Ok(file) => file,
            Err(OpenError::Io(e)) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(Error::open(Operation::Lock, &path, e)),
        };
        match file.try_lock_shared() {
            Ok(()) => return Ok(None),
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(e)) => return Err(Error::io(Operation::Lock, &path, e)),
        }
        let mut text = String::new();
        let _ = file.read_to_string(&mut text);
        let pid: Option<i32> = text.trim().parse().ok();
        if pid.is_some_and(|pid| u32::try_from(pid) == Ok(std::process::id())) {
            return Ok(None);
        }
        // The number of the holder before may still be in the file.
        let pid = pid.filter(|pid| Path::new(&format!("/proc/{pid}")).exists());
        Ok(Some(LockHolder { pid }))
    }

    fn try_lock(&self, name: &str) -> Result<StoreLock> {
        self.logged(Operation::Lock, name, self.take_lock(name))
    }

    fn take_lock(&self, name: &str) -> Result<StoreLock> {
        self.make()?;
        let path = self.path(name);
        let fail = |e| Error::io(Operation::Lock, &path, e);
        let place = self.dir.join(name);
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let mut file = match open_regular(&place, options) {
            // A lock needs no write (flock(2)): what was done before the file system became
            // read-only can be undone.
            Err(OpenError::Io(e)) if e.raw_os_error() == Some(libc::EROFS) => {
                open_regular(&place, OpenOptions::new().read(true))
            }
            answer => answer,
        }
        .map_err(|e| Error::open(Operation::Lock, &path, e))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut text = String::new();
                // Whoever holds it may not have written its number yet: then there is none to tell.
                let pid =
                    file.read_to_string(&mut text).ok().and_then(|_| text.trim().parse().ok());
                return Err(Error {
                    verb: Operation::Lock,
                    path,
                    value: None,
                    cause: ErrorCause::Held { pid },
                });
            }
            Err(TryLockError::Error(e)) => return Err(fail(e)),
        }
        let pid = format!("{}\n", std::process::id());
        // The number is for people; a full disk must not keep undo from its work.
        let _ = file
            .set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| file.write_all(pid.as_bytes()));
        Ok(StoreLock { _file: file })
    }

    /// A file's bytes, or `None` when it is not there.
    ///
    /// # Errors
    /// The file system's error, or it is no regular file.
    pub fn read(&self, name: &str) -> Result<Option<Vec<u8>>> {
        self.logged(Operation::Read, name, self.read_file(name))
    }

    fn read_file(&self, name: &str) -> Result<Option<Vec<u8>>> {
        let mut file = match open_regular(&self.dir.join(name), OpenOptions::new().read(true)) {
            Ok(file) => file,
            Err(OpenError::Io(e)) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(Error::open(Operation::Read, &self.path(name), e)),
        };
        let mut bytes = Vec::new();
        match file.read_to_end(&mut bytes) {
            Ok(_) => Ok(Some(bytes)),
            Err(e) => Err(Error::io(Operation::Read, &self.path(name), e)),
        }
    }

    /// Puts a whole file in place, on the disk when this returns: either the old bytes are there or
    /// the new ones, never a part.
    ///
    /// # Errors
    /// The file system's error. The old file is as it was, unless only its directory could
    /// not be told to the disk.
    pub fn replace(&self, name: &str, bytes: &[u8]) -> Result<()> {
        self.replace_with_room(name, bytes, 0)
    }

    /// The same with room on the disk for `spare` bytes that will be added, where the file system
    /// can keep room free.
    ///
    /// # Errors
    /// As [`Store::replace`].
    pub fn replace_with_room(&self, name: &str, bytes: &[u8], spare: u64) -> Result<()> {
        self.make()?;
        let path = self.path(name);
        let fail = |e| Error::io(Operation::Write, &path, e);
        let new = self.dir.join(format!("{name}.new"));
        let mut fill = |file: &mut File| {
            self.room.take()?;
            file.write_all(bytes)?;
            keep_room(file, bytes.len() as u64, spare)?;
            file.sync_all()
        };
        let answer = atomic_file::put(&self.dir.join(name), &new, 0o600, &mut fill).map_err(fail);
        self.logged(Operation::Write, name, answer)?;
        self.sync()
    }

    /// Removes a file; one that is not there is fine.
    ///
    /// # Errors
    /// The file system's error.
    pub fn remove(&self, name: &str) -> Result<()> {
        let answer = match fs::remove_file(self.dir.join(name)) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => {
                Err(Error::io(Operation::Remove, &self.path(name), e))
            }
            _ => Ok(()),
        };
        self.logged(Operation::Remove, name, answer)
    }

    /// Opens a file to add to it, after cutting it to its first `len` bytes (a line that a crash
    /// tore is dropped that way).
    ///
    /// # Errors
    /// The file system's error; the file must exist and be that long.
    pub fn append(&self, name: &str, len: u64) -> Result<Appender> {
        let path = self.path(name);
        let fail = |e| Error::io(Operation::Write, &path, e);
        self.room.take().map_err(fail)?;
        let file = open_regular(&self.dir.join(name), OpenOptions::new().append(true))
            .map_err(|e| Error::open(Operation::Write, &path, e))?;
        if file.metadata().map_err(fail)?.len() != len {
            file.set_len(len).map_err(fail)?;
        }
        Ok(Appender { file, path, room: self.room.clone(), log: self.log.clone() })
    }

    /// Renames `name` to the first of `prefix-1.suffix`, `prefix-2.suffix`, … that is free, and
    /// returns the new path. The new name survives the death of this process at once, and that of
    /// the machine after [`Store::sync`].
    ///
    /// # Errors
    /// The file system's error.
    pub fn archive(&self, name: &str, prefix: &str, suffix: &str) -> Result<String> {
        let path = self.path(name);
        let fail = |e| Error::io(Operation::Write, &path, e);
        let mut n = 1u32;
        let new = loop {
            let new = format!("{prefix}-{n}.{suffix}");
            if !self.dir.join(&new).try_exists().map_err(fail)? {
                break new;
            }
            n += 1;
        };
        fs::rename(self.dir.join(name), self.dir.join(&new)).map_err(fail)?;
        // Nothing is added any more: room that was kept behind its end is free again (fallocate(2),
        // FALLOC_FL_KEEP_SIZE). It costs nothing but that room when this fails.
        if let Ok(file) = open_regular(&self.dir.join(&new), OpenOptions::new().append(true)) {
            let _ = file.metadata().and_then(|found| file.set_len(found.len()));
        }
        Ok(self.path(&new))
    }

    /// Removes all but the newest `keep` files whose names start with `prefix`.
    ///
    /// # Errors
    /// The file system's error.
    pub fn prune(&self, prefix: &str, keep: usize) -> Result<()> {
        let fail = |e| Error::io(Operation::Remove, &self.path(prefix), e);
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.dir).map_err(fail)? {
            let entry = entry.map_err(fail)?;
            if entry.file_name().to_string_lossy().starts_with(prefix) {
                let written = entry.metadata().and_then(|m| m.modified()).map_err(fail)?;
                found.push((written, entry.path()));
            }
        }
        found.sort();
        let old = found.len().saturating_sub(keep);
        found.iter().take(old).try_for_each(|(_, path)| fs::remove_file(path).map_err(fail))
    }

    /// The names of all files are on the disk when this returns.
    ///
    /// # Errors
    /// The file system's error.
    pub fn sync(&self) -> Result<()> {
        let told = self.room.take().and_then(|()| File::open(&self.dir)?.sync_all());
        told.map_err(|e| Error::io(Operation::Write, &self.dir.to_string_lossy(), e))
    }
}

/// Keeps room on the disk behind the end of a file, so that a disk that fills up later cannot stop
/// what is added to it. A file system that cannot keep room is no error.
fn keep_room(file: &File, len: u64, spare: u64) -> io::Result<()> {
    let (Ok(len), Ok(spare)) = (libc::off_t::try_from(len), libc::off_t::try_from(spare)) else {
        return Ok(());
    };
    if spare == 0 {
        return Ok(());
    }
    loop {
        // SAFETY: the call takes no pointers, and the descriptor is open.
        let answer =
            unsafe { libc::fallocate(file.as_raw_fd(), libc::FALLOC_FL_KEEP_SIZE, len, spare) };
        if answer == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EINTR) => {}
            Some(libc::EOPNOTSUPP | libc::ENOSYS) => return Ok(()),
            _ => return Err(error),
        }
    }
}

impl Appender {
    /// Adds bytes in one write. They survive the death of this process at once, and that of the
    /// machine after [`Appender::sync`].
    ///
    /// # Errors
    /// The file system's error.
    pub fn add(&mut self, bytes: &[u8]) -> Result<()> {
        let added = self.room.take().and_then(|()| self.file.write_all(bytes));
        let added = added.map_err(|e| Error::io(Operation::Write, &self.path, e));
        logged(self.log.as_ref(), Operation::Write, &self.path, None, added)
    }

    /// Everything added is on the disk when this returns.
    ///
    /// # Errors
    /// The file system's error.
    pub fn sync(&mut self) -> Result<()> {
        let told = self.room.take().and_then(|()| self.file.sync_all());
        told.map_err(|e| Error::io(Operation::Write, &self.path, e))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory of this test alone, removed at its end.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Scratch {
            let dir = std::env::temp_dir().join(format!("{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&dir);
            Scratch(dir)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_held_lock_names_its_holder_and_is_free_after_it() {
        let scratch = Scratch::new("store-lock");
        let store = Store::new(&scratch.0);
        let held = store.lock().unwrap();
        let refused = store.lock().unwrap_err();
        assert_eq!(
            refused.reason(),
            format!("process {} is at work on it", std::process::id()),
            "{refused}"
        );
        drop(held);
        store.lock().unwrap();
    }

    /// Under each of these names lies something that is no regular file.
    fn make_others(dir: &Path) -> Vec<(&'static str, &'static str)> {
        fs::create_dir(dir.join("directory")).unwrap();
        std::os::unix::fs::symlink("/dev/zero", dir.join("link")).unwrap();
        std::os::unix::net::UnixListener::bind(dir.join("socket")).unwrap();
        let status = std::process::Command::new("mkfifo").arg(dir.join("fifo")).status().unwrap();
        assert!(status.success());
        vec![
            ("directory", "a directory"),
            ("link", "a symbolic link"),
            ("socket", "a socket"),
            ("fifo", "a FIFO"),
        ]
    }

    #[test]
    fn what_is_no_regular_file_is_named_and_not_waited_for() {
        let scratch = Scratch::new("store-others");
        let store = Store::new(&scratch.0);
        store.replace("a", b"one\n").unwrap();
        for (name, kind) in make_others(&scratch.0) {
            let reason = format!("it is {kind}, not a regular file");
            assert_eq!(store.read(name).unwrap_err().reason(), reason);
            assert_eq!(store.append(name, 0).unwrap_err().reason(), reason);
            fs::rename(scratch.0.join(name), scratch.0.join("x.lock")).unwrap();
            assert_eq!(store.claim("x").unwrap_err().reason(), reason);
            store.archive("x.lock", name, "old").unwrap();
        }
    }

    #[test]
    fn room_that_was_kept_is_used_by_what_is_added_and_free_again_in_the_archive() {
        use std::os::unix::fs::MetadataExt;
        let scratch = Scratch::new("store-room");
        let store = Store::new(&scratch.0);
        let blocks = |name: &str| fs::metadata(scratch.0.join(name)).unwrap().blocks();
        store.replace("plain", b"one\n").unwrap();
        store.replace_with_room("a", b"one\n", 1 << 20).unwrap();
        assert_eq!(store.read("a").unwrap().as_deref(), Some(b"one\n".as_slice()));
        let kept = blocks("a");
        if kept == blocks("plain") {
            println!("NOT RUN: this file system cannot keep room free");
            return;
        }
        assert!(kept >= (1 << 20) / 512, "{kept} blocks");
        let mut file = store.append("a", 4).unwrap();
        file.add(&vec![b'x'; 1 << 19]).unwrap();
        file.sync().unwrap();
        assert_eq!(blocks("a"), kept);
        store.archive("a", "old", "x").unwrap();
        assert!(blocks("old-1.x") < kept);
    }

    #[test]
    fn without_room_nothing_is_replaced_and_no_part_is_left() {
        let scratch = Scratch::new("store-full");
        let store = Store::new(&scratch.0);
        store.replace("a", b"one\n").unwrap();
        let full = store.clone().with_room_for(0);
        let refused = full.replace("a", b"two\n").unwrap_err();
        assert_eq!(refused.errno(), Some(libc::ENOSPC));
        assert_eq!(store.read("a").unwrap().as_deref(), Some(b"one\n".as_slice()));
        assert_eq!(store.read("a.new").unwrap(), None);
        assert!(store.clone().with_room_for(0).append("a", 4).is_err());
        let mut file = store.with_room_for(2).append("a", 4).unwrap();
        file.add(b"x").unwrap();
        assert!(file.add(b"y").is_err());
    }

    #[test]
    fn files_are_replaced_cut_added_to_and_archived() {
        let scratch = Scratch::new("store-files");
        let store = Store::new(&scratch.0);
        assert_eq!(store.read("a").unwrap(), None);
        store.replace("a", b"one\n").unwrap();
        store.replace("a", b"two\nto").unwrap();
        let mut file = store.append("a", 4).unwrap();
        file.add(b"three\n").unwrap();
        file.sync().unwrap();
        assert_eq!(store.read("a").unwrap().as_deref(), Some(b"two\nthree\n".as_slice()));
        assert_eq!(store.archive("a", "old", "x").unwrap(), store.path("old-1.x"));
        store.replace("a", b"").unwrap();
        assert_eq!(store.archive("a", "old", "x").unwrap(), store.path("old-2.x"));
        assert_eq!(store.read("a").unwrap(), None);
        assert!(store.archive("a", "old", "x").is_err());
        store.prune("old-", 1).unwrap();
        assert_eq!(store.read("old-1.x").unwrap(), None);
        assert!(store.read("old-2.x").unwrap().is_some());
    }
}
