//! [`Store`]: the state directory. Its files must survive a crash: they are replaced whole or
//! appended to, synced to the disk when that matters, and guarded by one lock. What the files mean
//! is decided elsewhere. Paths are those of the computer the program runs on, even when a
//! [`crate::Host`] shows another machine.

use crate::error::{Error, ErrorCause, Operation, Result};
use crate::files::atomic_file;
use crate::files::event_log::{EventLog, log_result};
use crate::files::public_dir::{PublicDir, create_parents};
use crate::files::regular::{OpenError, check_writers, open_regular, read_own};
use rustix::fs::{FallocateFlags, fallocate};
use rustix::fs::{FlockOperation, flock};
use rustix::io::{Errno, retry_on_intr};
use serde::Serialize;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// The lock file; it holds the process ID of the last process that locked it.
const LOCK: &str = "lock";

/// The file that a process locks while it waits for the lock. So work that gives way sees it.
const WAITING: &str = "waiting.lock";

/// How long to wait for another process's lock. The holder may apply a plan, and wait for the next
/// scan of irqbalance before that: 12 seconds, unless irqbalance has a longer interval than its
/// default (`processes/irqbalance.rs`).
const LOCK_WAIT: Duration = Duration::from_secs(15);

/// A state directory. It is created with the first file.
#[derive(Debug, Clone)]
pub struct Store {
    dir: PathBuf,
    budget: WriteBudget,
    log: Option<EventLog>,
    public: Option<PublicDir>,
    held: Option<StoreLock>,
}

/// How many more writes succeed, in a test of a full disk; `None` for no limit.
#[derive(Debug, Clone, Default)]
struct WriteBudget(Option<Arc<AtomicUsize>>);

impl WriteBudget {
    /// Counts one write, or fails when none is left. Every write goes through here first.
    fn take(&self) -> io::Result<()> {
        let Some(left) = &self.0 else { return Ok(()) };
        match left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)) {
            Ok(_) => Ok(()),
            Err(_) => Err(io::Error::from_raw_os_error(libc::ENOSPC)),
        }
    }
}

/// The exclusive right to change the store, until all its clones are dropped.
#[derive(Debug, Clone)]
pub struct StoreLock {
    _file: Arc<LockedFile>,
}

/// An open file with a lock. It is unlocked before it is closed: a child that was forked in the
/// meantime has the same open file, and would hold the lock until it executes its program
/// (flock(2)).
#[derive(Debug)]
struct LockedFile(File);

impl Drop for LockedFile {
    fn drop(&mut self) {
        // A failure is fine: closing unlocks it too.
        let _ = flock(&self.0, FlockOperation::Unlock);
    }
}

/// The process that holds the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LockHolder {
    /// Its process ID; `None` if it has not written it yet.
    pub pid: Option<i32>,
}

/// A file of the store, open for appending.
#[derive(Debug)]
pub struct Appender {
    file: File,
    path: String,
    budget: WriteBudget,
    log: Option<EventLog>,
}

impl Store {
    /// The store in this directory. Creates nothing yet.
    #[must_use]
    pub fn new(dir: &Path) -> Store {
        let budget = WriteBudget::default();
        Store { dir: dir.to_owned(), budget, log: None, public: None, held: None }
    }

    /// The same store on a disk that is full after this many writes; for tests of a full disk.
    #[must_use]
    pub fn with_room_for(self, writes: usize) -> Store {
        Store { budget: WriteBudget(Some(Arc::new(AtomicUsize::new(writes)))), ..self }
    }

    /// The same store, which writes every access to this log from now on.
    #[must_use]
    pub fn logging(self, log: Option<EventLog>) -> Store {
        Store { log, ..self }
    }

    /// The same store with a directory for what every user may read.
    #[must_use]
    pub fn publishing(self, public: Option<PublicDir>) -> Store {
        Store { public, ..self }
    }

    /// The same store, for work under this lock: [`Store::lock`] returns the lock at once.
    #[must_use]
    pub fn holding(self, lock: StoreLock) -> Store {
        Store { held: Some(lock), ..self }
    }

    /// The directory for what every user may read; `None` if this store has none.
    #[must_use]
    pub fn public(&self) -> Option<&PublicDir> {
        self.public.as_ref()
    }

    fn log_result<T>(&self, verb: Operation, name: &str, answer: Result<T>) -> Result<T> {
        log_result(self.log.as_ref(), verb, &self.path(name), None, answer)
    }

    /// Whether the directory exists.
    #[must_use]
    pub fn exists(&self) -> bool {
        self.dir.is_dir()
    }

    /// The path of one of its files.
    #[must_use]
    pub fn path(&self, name: &str) -> String {
        self.dir.join(name).display().to_string()
    }

    fn create_dir(&self) -> Result<()> {
        let path = self.dir.display().to_string();
        let failed = |e| Error::io(Operation::MakeDir, &path, e);
        create_parents(&self.dir).map_err(failed)?;
        DirBuilder::new().recursive(true).mode(0o700).create(&self.dir).map_err(failed)?;
        // What is written there could not be read again.
        let found = fs::metadata(&self.dir).map_err(|e| Error::io(Operation::Read, &path, e))?;
        check_writers(&found).map_err(|e| Error::open(Operation::Write, &path, e))
    }

    /// Takes the lock. Waits for another process that holds it, but not longer than 15 seconds.
    ///
    /// # Errors
    /// [`ErrorCause::Held`] if another process still holds it; otherwise the file system's error.
    pub fn lock(&self) -> Result<StoreLock> {
        if let Some(held) = &self.held {
            return Ok(held.clone());
        }
        let give_up = Instant::now() + LOCK_WAIT;
        let mut waiting = None;
        loop {
            match self.try_lock(LOCK) {
                Err(error) if error.is_held() && Instant::now() < give_up => {
                    // A failure is fine: another process waits too, or the disk is full.
                    waiting = waiting.or_else(|| self.take_lock(WAITING).ok());
                    std::thread::sleep(Duration::from_millis(20));
                }
                answer => return answer,
            }
        }
    }

    /// Takes the lock if it is free and no other process waits for it. For work that many processes
    /// can ask for: it never delays [`Store::lock`] for longer than one holder.
    ///
    /// # Errors
    /// [`ErrorCause::Held`] at once if another process holds it or waits for it; otherwise the file
    /// system's error.
    pub fn lock_or_give_way(&self) -> Result<StoreLock> {
        if let Some(holder) = self.holder_of(WAITING)? {
            let cause = ErrorCause::Held { pid: holder.pid };
            let (verb, path) = (Operation::Lock, self.path(LOCK));
            return Err(Error { verb, path, value: None, cause });
        }
        self.try_lock(LOCK)
    }

    /// Takes another lock, for work that takes long, or fails at once if another process holds it.
    /// Such work must still take the lock of [`Store::lock`] for each write.
    ///
    /// # Errors
    /// As [`Store::lock`].
    pub fn claim(&self, what: &str) -> Result<StoreLock> {
        self.try_lock(&format!("{what}.{LOCK}"))
    }

    /// The other process that holds the lock now; `None` if the lock is free. Creates nothing and
    /// does not disturb the holder: it takes a shared lock for a moment.
    ///
    /// # Errors
    /// The file system's error.
    pub fn holder(&self) -> Result<Option<LockHolder>> {
        let own = i32::try_from(std::process::id()).ok();
        let holder = self.holder_of(LOCK)?;
        Ok(holder.filter(|holder| holder.pid.is_none() || holder.pid != own))
    }

    /// The process that holds the lock of a file, which may be this one.
    fn holder_of(&self, name: &str) -> Result<Option<LockHolder>> {
        let path = self.path(name);
        let mut file = match open_regular(&self.dir.join(name), OpenOptions::new().read(true)) {
            Ok(file) => file,
            Err(OpenError::Io(e)) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(Error::open(Operation::Lock, &path, e)),
        };
        match flock(&file, FlockOperation::NonBlockingLockShared) {
            Ok(()) => return Ok(None),
            Err(Errno::WOULDBLOCK) => {}
            Err(e) => return Err(Error::io(Operation::Lock, &path, e.into())),
        }
        Ok(Some(LockHolder { pid: read_holder(&mut file) }))
    }

    fn try_lock(&self, name: &str) -> Result<StoreLock> {
        self.log_result(Operation::Lock, name, self.take_lock(name))
    }

    fn take_lock(&self, name: &str) -> Result<StoreLock> {
        self.create_dir()?;
        let path = self.path(name);
        let lock_file = self.dir.join(name);
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let mut file = match open_regular(&lock_file, options) {
            // A lock needs no write (flock(2)). So undo still works on a file system that has
            // become read-only.
            Err(OpenError::Io(e)) if e.raw_os_error() == Some(libc::EROFS) => {
                open_regular(&lock_file, OpenOptions::new().read(true))
            }
            answer => answer,
        }
        .map_err(|e| Error::open(Operation::Lock, &path, e))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                let cause = ErrorCause::Held { pid: read_holder(&mut file) };
                return Err(Error { verb: Operation::Lock, path, value: None, cause });
            }
            Err(e) => return Err(Error::io(Operation::Lock, &path, e.into())),
        }
        let pid = format!("{}\n", std::process::id());
        // The process ID is only informative; a full disk must not prevent undo.
        let _ = file
            .set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| file.write_all(pid.as_bytes()));
        Ok(StoreLock { _file: Arc::new(LockedFile(file)) })
    }

    /// Reads a file; `None` if it does not exist.
    ///
    /// # Errors
    /// The file system's error, it is not a regular file, or another user may write it.
    pub fn read(&self, name: &str) -> Result<Option<Vec<u8>>> {
        match self.log_result(Operation::Read, name, self.read_file(name)) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.errno() == Some(libc::ENOENT) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn read_file(&self, name: &str) -> Result<Vec<u8>> {
        read_own(&self.dir, name).map_err(|e| Error::open(Operation::Read, &self.path(name), e))
    }

    /// Replaces a file atomically: it has either the old bytes or the new ones. They are on the
    /// disk when this returns.
    ///
    /// # Errors
    /// The file system's error. The old file is unchanged, unless only syncing its directory
    /// failed.
    pub fn replace(&self, name: &str, bytes: &[u8]) -> Result<()> {
        self.replace_and_reserve(name, bytes, 0)
    }

    /// Like [`Store::replace`], with a document as JSON.
    ///
    /// # Errors
    /// As [`Store::replace`]; the document cannot be encoded, which is a defect of this program.
    pub fn replace_json(&self, name: &str, document: &impl Serialize) -> Result<()> {
        let text = serde_json::to_string_pretty(document)
            .map_err(|error| Error::json(&self.path(name), error))?;
        self.replace(name, (text + "\n").as_bytes())
    }

    /// Like [`Store::replace`], and reserves disk space for `spare` bytes to append, if the file
    /// system can.
    ///
    /// # Errors
    /// As [`Store::replace`].
    pub fn replace_and_reserve(&self, name: &str, bytes: &[u8], spare: u64) -> Result<()> {
        self.create_dir()?;
        let new = self.dir.join(format!("{name}.new"));
        let answer = atomic_file::put(&self.dir.join(name), &new, 0o600, &mut |file| {
            self.budget.take()?;
            // Over a network root may be another user, whose files are not read again.
            if check_writers(&file.metadata()?).is_err() {
                return Err(io::Error::from_raw_os_error(libc::EPERM));
            }
            file.write_all(bytes)?;
            reserve_space(file, bytes.len() as u64, spare)?;
            file.sync_all()
        })
        .map_err(Error::on(Operation::Write, &self.path(name)));
        self.log_result(Operation::Write, name, answer)?;
        self.sync()
    }

    /// Removes a file. It is not an error if the file does not exist.
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
        self.log_result(Operation::Remove, name, answer)
    }

    /// Opens a file to append to it, after truncating it to its first `len` bytes (which drops a
    /// line that a crash tore).
    ///
    /// # Errors
    /// The file system's error; the file must exist and be that long.
    pub fn append(&self, name: &str, len: u64) -> Result<Appender> {
        self.log_result(Operation::Write, name, self.open_to_append(name, len))
    }

    fn open_to_append(&self, name: &str, len: u64) -> Result<Appender> {
        let path = self.path(name);
        self.budget.take().map_err(Error::on(Operation::Write, &path))?;
        let file = open_regular(&self.dir.join(name), OpenOptions::new().append(true))
            .map_err(|e| Error::open(Operation::Write, &path, e))?;
        if file.metadata().map_err(Error::on(Operation::Write, &path))?.len() != len {
            file.set_len(len).map_err(Error::on(Operation::Write, &path))?;
        }
        Ok(Appender { file, path, budget: self.budget.clone(), log: self.log.clone() })
    }

    /// Renames `name` to the first free name of `prefix-1.suffix`, `prefix-2.suffix`, … and
    /// returns the new path. The new name survives a crash of this process at once, and a crash of
    /// the machine after [`Store::sync`].
    ///
    /// # Errors
    /// The file system's error.
    pub fn archive(&self, name: &str, prefix: &str, suffix: &str) -> Result<String> {
        let new = self.free_name(prefix, suffix)?;
        let renamed = fs::rename(self.dir.join(name), self.dir.join(&new))
            .map_err(Error::on(Operation::Write, &self.path(name)));
        self.log_result(Operation::Write, name, renamed)?;
        // Nothing more is appended: this frees the space reserved after its end (fallocate(2),
        // FALLOC_FL_KEEP_SIZE). A failure only costs that space.
        if let Ok(file) = open_regular(&self.dir.join(&new), OpenOptions::new().append(true)) {
            let _ = file.metadata().and_then(|found| file.set_len(found.len()));
        }
        Ok(self.path(&new))
    }

    /// Copies `name` to a new file that is named as [`Store::archive`] names it. Returns its path.
    ///
    /// # Errors
    /// The file system's error, or there is no such file.
    pub fn archive_copy(&self, name: &str, prefix: &str, suffix: &str) -> Result<String> {
        let bytes = self.log_result(Operation::Read, name, self.read_file(name))?;
        let new = self.free_name(prefix, suffix)?;
        self.replace(&new, &bytes)?;
        Ok(self.path(&new))
    }

    /// The first of `prefix-1.suffix`, `prefix-2.suffix`, … that does not exist.
    fn free_name(&self, prefix: &str, suffix: &str) -> Result<String> {
        let mut n = 1u32;
        loop {
            let new = format!("{prefix}-{n}.{suffix}");
            let path = self.path(&new);
            let exists = self.dir.join(&new).try_exists();
            if !exists.map_err(Error::on(Operation::Read, &path))? {
                return Ok(new);
            }
            n += 1;
        }
    }

    /// Removes all files whose names start with `prefix`, except for the newest `keep`.
    ///
    /// # Errors
    /// The file system's error.
    pub fn prune(&self, prefix: &str, keep: usize) -> Result<()> {
        let path = self.path(prefix);
        let failed = Error::on(Operation::Remove, &path);
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.dir).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            if entry.file_name().to_string_lossy().starts_with(prefix) {
                let written = entry.metadata().and_then(|m| m.modified()).map_err(failed)?;
                found.push((written, entry.path()));
            }
        }
        found.sort();
        let old = found.len().saturating_sub(keep);
        found.iter().take(old).try_for_each(|(_, path)| {
            let removed = fs::remove_file(path).map_err(failed);
            log_result(
                self.log.as_ref(),
                Operation::Remove,
                &path.display().to_string(),
                None,
                removed,
            )
        })
    }

    /// Syncs the directory: the names of all files are on the disk when this returns.
    ///
    /// # Errors
    /// The file system's error.
    pub fn sync(&self) -> Result<()> {
        let synced = self.budget.take().and_then(|()| File::open(&self.dir)?.sync_all());
        synced.map_err(|e| Error::io(Operation::Write, &self.dir.to_string_lossy(), e))
    }
}

/// Reserves disk space after the end of a file, so that appending works even if the disk fills up
/// later. It is not an error if the file system cannot reserve space.
fn reserve_space(file: &File, len: u64, spare: u64) -> io::Result<()> {
    // The kernel's lengths have a sign.
    if spare == 0 || [len, spare].iter().any(|bytes| i64::try_from(*bytes).is_err()) {
        return Ok(());
    }
    match retry_on_intr(|| fallocate(file, FallocateFlags::KEEP_SIZE, len, spare)) {
        Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

impl Appender {
    /// Appends bytes in one write. They survive a crash of this process at once, and a crash of the
    /// machine after [`Appender::sync`].
    ///
    /// # Errors
    /// The file system's error.
    pub fn add(&mut self, bytes: &[u8]) -> Result<()> {
        let answer = self
            .budget
            .take()
            .and_then(|()| self.file.write_all(bytes))
            .map_err(Error::on(Operation::Write, &self.path));
        log_result(self.log.as_ref(), Operation::Write, &self.path, None, answer)
    }

    /// Syncs the file: everything appended is on the disk when this returns.
    ///
    /// # Errors
    /// The file system's error.
    pub fn sync(&mut self) -> Result<()> {
        let synced = self.budget.take().and_then(|()| self.file.sync_all());
        synced.map_err(Error::on(Operation::Write, &self.path))
    }

    /// Shortens the file to its first `len` bytes. This needs no disk space.
    ///
    /// # Errors
    /// The file system's error.
    pub fn truncate(&mut self, len: u64) -> Result<()> {
        let answer = self.file.set_len(len).map_err(Error::on(Operation::Write, &self.path));
        log_result(self.log.as_ref(), Operation::Write, &self.path, None, answer)
    }
}

/// The process that a lock file names. The holder may not have written its process ID yet, and an
/// earlier one may have left its own: that of a process that has ended is ignored.
fn read_holder(file: &mut File) -> Option<i32> {
    let mut text = String::new();
    file.read_to_string(&mut text).ok()?;
    let pid: i32 = text.trim().parse().ok()?;
    Path::new(&format!("/proc/{pid}")).exists().then_some(pid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::not_run::not_run;
    use std::os::unix::fs::PermissionsExt;
    use std::sync::atomic::AtomicBool;

    /// A temporary directory of one test.
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
    fn a_held_lock_names_its_holder_and_is_free_after_the_drop() {
        let scratch = Scratch::new("store-lock");
        let store = Store::new(&scratch.0);
        let held = store.lock().unwrap();
        let refused = store.lock_or_give_way().unwrap_err();
        assert_eq!(
            refused.reason(),
            format!("process {} holds the lock", std::process::id()),
            "{refused}"
        );
        drop(held);
        store.lock().unwrap();
    }

    #[test]
    fn a_file_that_another_user_could_write_is_not_read() {
        let scratch = Scratch::new("store-owner");
        let (store, dir) = (Store::new(&scratch.0), scratch.0.clone());
        let file = dir.join("journal");
        store.replace("journal", b"{}").unwrap();
        if std::os::unix::fs::chown(&file, Some(1234), None).is_err() {
            return not_run("only root can give a file away");
        }
        for (path, owner, mode, why) in [
            (&file, 1234, 0o600, "user 1234"),
            (&file, 0, 0o620, "go-w"),
            (&dir, 1234, 0o700, "user 1234"),
            (&dir, 0, 0o777, "go-w"),
        ] {
            let set = |owner, mode| {
                std::os::unix::fs::chown(path, Some(owner), None).unwrap();
                fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
            };
            set(owner, mode);
            let refused =
                [store.read("journal").err(), store.archive_copy("journal", "a", "b").err()];
            for refused in refused {
                assert!(refused.unwrap().reason().contains(why), "{why}");
            }
            set(0, 0o700);
        }
        // In a sticky directory, others cannot replace it.
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o1777)).unwrap();
        assert_eq!(store.read("journal").unwrap(), Some(b"{}".to_vec()));
    }

    #[test]
    fn work_under_a_lock_that_is_held_takes_no_second_one() {
        let scratch = Scratch::new("store-holding");
        let store = Store::new(&scratch.0);
        let holding = store.clone().holding(store.lock_or_give_way().unwrap());
        drop(holding.lock().unwrap());
        assert!(store.lock_or_give_way().unwrap_err().is_held());
        drop(holding);
        store.lock_or_give_way().unwrap();
    }

    #[test]
    fn one_that_waits_gets_the_lock_before_those_that_give_way() {
        let scratch = Scratch::new("store-fair");
        let store = Store::new(&scratch.0);
        let (taken, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    // The lock is held nearly all the time: another thread takes it at once.
                    while !stop.load(Ordering::Relaxed) {
                        if let Ok(_lock) = store.lock_or_give_way() {
                            taken.fetch_add(1, Ordering::Relaxed);
                            std::thread::sleep(Duration::from_millis(1));
                        }
                    }
                });
            }
            for _ in 0..5 {
                let start = taken.load(Ordering::Relaxed);
                while taken.load(Ordering::Relaxed) < start + 20 {
                    std::thread::yield_now();
                }
                let before = taken.load(Ordering::Relaxed);
                let lock = store.lock();
                let between = taken.load(Ordering::Relaxed) - before;
                if lock.is_err() || between > 100 {
                    stop.store(true, Ordering::Relaxed);
                    panic!("{between} others came first: {lock:?}");
                }
            }
            stop.store(true, Ordering::Relaxed);
        });
    }

    /// Creates files that are not regular; returns their names and kinds.
    fn make_irregular_files(dir: &Path) -> Vec<(&'static str, &'static str)> {
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
    fn an_irregular_file_is_named_and_not_waited_for() {
        let scratch = Scratch::new("store-others");
        let store = Store::new(&scratch.0);
        store.replace("a", b"one\n").unwrap();
        for (name, kind) in make_irregular_files(&scratch.0) {
            let reason = format!("it is {kind}, not a regular file");
            assert_eq!(store.read(name).unwrap_err().reason(), reason);
            assert_eq!(store.append(name, 0).unwrap_err().reason(), reason);
            fs::rename(scratch.0.join(name), scratch.0.join("x.lock")).unwrap();
            assert_eq!(store.claim("x").unwrap_err().reason(), reason);
            store.archive("x.lock", name, "old").unwrap();
        }
    }

    #[test]
    fn reserved_space_is_used_by_appending_and_freed_by_archiving() {
        use std::os::unix::fs::MetadataExt;
        let scratch = Scratch::new("store-room");
        let store = Store::new(&scratch.0);
        let blocks = |name: &str| fs::metadata(scratch.0.join(name)).unwrap().blocks();
        store.replace("plain", b"one\n").unwrap();
        store.replace_and_reserve("a", b"one\n", 1 << 20).unwrap();
        assert_eq!(store.read("a").unwrap().as_deref(), Some(b"one\n".as_slice()));
        let reserved = blocks("a");
        if reserved == blocks("plain") {
            return not_run("this file system cannot reserve space");
        }
        assert!(reserved >= (1 << 20) / 512, "{reserved} blocks");
        let mut file = store.append("a", 4).unwrap();
        file.add(&vec![b'x'; 1 << 19]).unwrap();
        file.sync().unwrap();
        assert_eq!(blocks("a"), reserved);
        store.archive("a", "old", "x").unwrap();
        assert!(blocks("old-1.x") < reserved);
    }

    #[test]
    fn on_a_full_disk_nothing_is_replaced_and_no_partial_file_is_left() {
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
    fn files_are_replaced_truncated_appended_to_and_archived() {
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
