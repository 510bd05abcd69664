//! Detects when another process writes to the control files of a tracing instance, or reads its
//! pages. inotify(7) reports the access; fanotify(7), where it is allowed, reports the process.
//!
//! Both watch directories, and tracefs may replace the inode of a directory that nothing holds open
//! (eventfs, fs/tracefs/event_inode.c, since 6.6). So each directory is kept open.

use crate::error::{Error, Operation, Result};
use crate::host::Host;
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{self, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;

/// Opening one of these removes records, empties the buffer or stops the recording.
const CONSUMED_BY_OPENING: &[&str] =
    &["trace", "trace_pipe", "trace_pipe_raw", "snapshot", "snapshot_raw", "free_buffer"];

/// How another process accessed a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum InstanceAccess {
    /// It opened a file, which is enough to disturb the recording.
    Opened,
    /// It wrote to the file, or truncated it.
    Written,
    /// The directory was removed, or its file system was unmounted.
    Removed,
    /// Events were lost because the kernel's queue overflowed.
    Unknown,
}

/// A file of the instance that another process touched.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct TouchedFile {
    /// The path below the instance's directory: `events/sched/sched_switch/enable`.
    pub file: String,
    /// How it was accessed.
    pub access: InstanceAccess,
    /// The process, if the kernel reports it.
    pub pid: Option<i32>,
}

/// A watch over the directories of one instance.
#[derive(Debug)]
pub struct InstanceWatch {
    inotify: OwnedFd,
    /// Watch descriptor and directory below the instance.
    dirs: HashMap<i32, String>,
    /// Keeps the inodes of the directories alive.
    _open_dirs: Vec<File>,
    /// Reports the process; `None` without the privilege or the kernel option.
    fanotify: Option<File>,
    /// The name of the instance's directory, as it appears in paths.
    name: String,
}

impl InstanceWatch {
    /// Starts to watch these directories below `root`; `""` is `root` itself.
    ///
    /// # Errors
    /// The kernel's error: EMFILE or ENOSPC if this user has too many watches.
    pub fn start(host: &Host, root: &str, dirs: &[String]) -> Result<InstanceWatch> {
        let inotify = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)
            .map_err(|e| Error::io(Operation::Call, "inotify", e.into()))?;
        let fanotify = fanotify_init().ok();
        let name = root.rsplit('/').next().unwrap_or_default().to_owned();
        let mut watch =
            InstanceWatch { inotify, dirs: HashMap::new(), _open_dirs: Vec::new(), fanotify, name };
        for dir in dirs {
            watch.add(host, root, dir)?;
        }
        Ok(watch)
    }

    fn add(&mut self, host: &Host, root: &str, dir: &str) -> Result<()> {
        let path = if dir.is_empty() { root.to_owned() } else { format!("{root}/{dir}") };
        let open_dir = File::options()
            .read(true)
            .custom_flags(libc::O_PATH | libc::O_DIRECTORY | libc::O_CLOEXEC)
            .open(host.local_path(&path))
            .map_err(|e| Error::io(Operation::Read, &path, e))?;
        let fd_path = format!("/proc/self/fd/{}", open_dir.as_raw_fd());
        let flags = WatchFlags::MODIFY
            | WatchFlags::CLOSE_WRITE
            | WatchFlags::OPEN
            | WatchFlags::DELETE_SELF;
        let descriptor = inotify::add_watch(&self.inotify, &*fd_path, flags)
            .map_err(|e| Error::io(Operation::Read, &path, e.into()))?;
        if let Some(fanotify) = &self.fanotify
            && fanotify_mark(fanotify, &fd_path).is_err()
        {
            self.fanotify = None;
        }
        self.dirs.insert(descriptor, dir.to_owned());
        self._open_dirs.push(open_dir);
        Ok(())
    }

    /// The files touched since the last call, each once. Never waits.
    pub fn drain(&mut self) -> Vec<TouchedFile> {
        let mut touched: BTreeMap<String, InstanceAccess> = BTreeMap::new();
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut reader = inotify::Reader::new(&self.inotify, &mut buffer);
        // Ends with EAGAIN when no event is left.
        while let Ok(event) = reader.next() {
            let dir = self.dirs.get(&event.wd()).map_or("", String::as_str);
            let name = event
                .file_name()
                .map(|name| name.to_string_lossy().into_owned())
                .unwrap_or_default();
            if let Some(access) = classify_access(event.events(), &name) {
                let file = join(dir, &name);
                let known = touched.entry(file).or_insert(access);
                *known = access.max(*known);
            }
        }
        let writers = self.writers();
        touched
            .into_iter()
            .map(|(file, access)| {
                let pid = writers.get(&file).copied();
                TouchedFile { file, access, pid }
            })
            .collect()
    }

    /// The process of each write since the last call, by file.
    fn writers(&self) -> HashMap<String, i32> {
        let mut found = HashMap::new();
        let Some(mut fanotify) = self.fanotify.as_ref() else { return found };
        let mut buffer = vec![0_u8; 16 << 10];
        while let Ok(filled) = fanotify.read(&mut buffer) {
            for (file, pid) in parse_fanotify_events(&buffer[..filled]) {
                let path = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()));
                let path = path.unwrap_or_default().to_string_lossy().into_owned();
                if let Some((_, below)) = path.split_once(&format!("/{}/", self.name)) {
                    found.insert(below.to_owned(), pid);
                }
            }
        }
        found
    }
}

fn join(dir: &str, name: &str) -> String {
    match (dir, name) {
        (dir, "") => dir.to_owned(),
        ("", name) => name.to_owned(),
        (dir, name) => format!("{dir}/{name}"),
    }
}

/// What an inotify event means for the recording; `None` if it does not matter.
fn classify_access(events: ReadFlags, name: &str) -> Option<InstanceAccess> {
    if events.contains(ReadFlags::QUEUE_OVERFLOW) {
        return Some(InstanceAccess::Unknown);
    }
    if events.intersects(ReadFlags::UNMOUNT | ReadFlags::IGNORED)
        || events.bits() & WatchFlags::DELETE_SELF.bits() != 0
    {
        return Some(InstanceAccess::Removed);
    }
    let bits = events.bits();
    if bits & (WatchFlags::MODIFY | WatchFlags::CLOSE_WRITE).bits() != 0 {
        return Some(InstanceAccess::Written);
    }
    (bits & WatchFlags::OPEN.bits() != 0 && CONSUMED_BY_OPENING.contains(&name))
        .then_some(InstanceAccess::Opened)
}

/// Opens a group that only listens; EPERM without `CAP_SYS_ADMIN`, ENOSYS without
/// `CONFIG_FANOTIFY`.
fn fanotify_init() -> io::Result<File> {
    let flags = libc::FAN_CLASS_NOTIF | libc::FAN_CLOEXEC | libc::FAN_NONBLOCK;
    let open_flags = libc::O_RDONLY | libc::O_CLOEXEC | libc::O_LARGEFILE;
    // SAFETY: the call takes two numbers. It returns a new file descriptor with no other owner.
    unsafe {
        match libc::fanotify_init(flags, open_flags.unsigned_abs()) {
            fd @ 0.. => Ok(File::from_raw_fd(fd)),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// Makes the group report writes to the files of a directory. It does not report opening: the
/// kernel hands over each file open, and opening a pipe of the trace again would do harm.
fn fanotify_mark(group: &File, dir: &str) -> io::Result<()> {
    let path = std::ffi::CString::new(dir).map_err(io::Error::other)?;
    let mask = libc::FAN_MODIFY | libc::FAN_CLOSE_WRITE | libc::FAN_EVENT_ON_CHILD;
    let (fd, cwd) = (group.as_raw_fd(), libc::AT_FDCWD);
    // SAFETY: the path is a C string that lives through the call.
    match unsafe { libc::fanotify_mark(fd, libc::FAN_MARK_ADD, mask, cwd, path.as_ptr()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The files in a buffer of `struct fanotify_event_metadata` (include/uapi/linux/fanotify.h), each
/// open, with the process that wrote to it.
fn parse_fanotify_events(mut bytes: &[u8]) -> Vec<(File, i32)> {
    const SIZE: usize = size_of::<libc::fanotify_event_metadata>();
    let mut found = Vec::new();
    while let Some(event) = bytes.first_chunk::<SIZE>() {
        // Length (32 bits), versions and mask (96 bits), file descriptor, process.
        let (words, _) = event.as_chunks::<4>();
        let word = |at: usize| words.get(at).map_or(0, |word| i32::from_ne_bytes(*word));
        let (len, fd, pid) = (word(0), word(4), word(5));
        if fd >= 0 {
            // SAFETY: the kernel opened this file for this process, once for each event.
            found.push((unsafe { File::from_raw_fd(fd) }, pid));
        }
        let len = usize::try_from(len).unwrap_or(0).max(SIZE);
        bytes = bytes.get(len..).unwrap_or_default();
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::PathBuf;

    fn scratch(name: &str) -> PathBuf {
        let dir = std::env::temp_dir().join(format!("watch-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(dir.join("mine/events/sched")).unwrap();
        for file in ["tracing_on", "trace_pipe", "stats", "events/sched/enable"] {
            fs::write(dir.join("mine").join(file), "1\n").unwrap();
        }
        dir
    }

    #[test]
    fn writes_are_reported_and_harmless_reads_are_not() {
        let dir = scratch("writes");
        let host = Host::recorded(&dir).unwrap();
        let dirs = ["", "events", "events/sched"].map(str::to_owned);
        let mut watch = InstanceWatch::start(&host, "/mine", &dirs).unwrap();
        assert_eq!(watch.drain(), []);
        fs::read(dir.join("mine/stats")).unwrap();
        fs::read(dir.join("mine/tracing_on")).unwrap();
        assert_eq!(watch.drain(), []);

        fs::write(dir.join("mine/tracing_on"), "0\n").unwrap();
        fs::write(dir.join("mine/events/sched/enable"), "0\n").unwrap();
        fs::read(dir.join("mine/trace_pipe")).unwrap();
        let touched = watch.drain();
        let seen: Vec<_> = touched.iter().map(|file| (file.file.as_str(), file.access)).collect();
        assert_eq!(
            seen,
            [
                ("events/sched/enable", InstanceAccess::Written),
                ("trace_pipe", InstanceAccess::Opened),
                ("tracing_on", InstanceAccess::Written),
            ]
        );
        // The process is unknown without CAP_SYS_ADMIN.
        let me = i32::try_from(std::process::id()).unwrap();
        let pids: Vec<_> = touched.iter().filter_map(|file| file.pid).collect();
        assert!(pids.is_empty() || pids == [me, me], "{pids:?}");
        assert_eq!(watch.drain(), []);
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn a_removed_directory_is_reported() {
        let dir = scratch("gone");
        let host = Host::recorded(&dir).unwrap();
        let dirs = ["events/sched".to_owned()];
        let mut watch = InstanceWatch::start(&host, "/mine", &dirs).unwrap();
        fs::remove_dir_all(dir.join("mine/events/sched")).unwrap();
        assert!(fs::metadata(dir.join("mine/events/sched")).is_err());
        // The directory is still open, so inotify reports only that its files are gone.
        drop(std::mem::take(&mut watch._open_dirs));
        assert!(watch.drain().iter().any(|file| file.access == InstanceAccess::Removed));
        fs::remove_dir_all(dir).unwrap();
    }
}
