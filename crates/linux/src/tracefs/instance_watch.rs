//! Notices when another process writes to the control files of a tracing instance, or reads its
//! pages away. inotify(7) reports that it happened; fanotify(7), where it is allowed, who did it.
//!
//! Both hang on directories, and tracefs may make the inode of a directory anew once nobody holds
//! it (eventfs, fs/tracefs/event_inode.c, since 6.6). Each directory is therefore kept open.

use crate::error::{Error, Operation, Result};
use crate::host::Host;
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{self, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;

/// Opening one of these takes records away, empties the buffer or stops the recording.
const TAKEN_BY_OPENING: &[&str] =
    &["trace", "trace_pipe", "trace_pipe_raw", "snapshot", "snapshot_raw", "free_buffer"];

/// What another process did to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum InstanceAccess {
    /// It opened a file whose opening alone matters.
    Opened,
    /// It wrote to the file, or emptied it.
    Written,
    /// The directory was removed, or its file system was unmounted.
    Removed,
    /// More happened than the kernel queued for us.
    Unknown,
}

/// A file of the instance that another process touched.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct TouchedFile {
    /// Below the instance's directory: `events/sched/sched_switch/enable`.
    pub file: String,
    /// What was done.
    pub access: InstanceAccess,
    /// The process, where the kernel reports it.
    pub pid: Option<i32>,
}

/// A watch over the directories of one instance.
#[derive(Debug)]
pub struct InstanceWatch {
    inotify: OwnedFd,
    /// Watch descriptor and directory below the instance.
    dirs: HashMap<i32, String>,
    /// Keeps the inodes of the directories in place.
    _held: Vec<File>,
    /// Says who; `None` without the right or the kernel option.
    fanotify: Option<File>,
    /// The instance's own directory name, as it stands in paths.
    name: String,
}

impl InstanceWatch {
    /// Begins to watch these directories below `root`; `""` is `root` itself.
    ///
    /// # Errors
    /// The kernel's answer: EMFILE or ENOSPC where this user has too many watches.
    pub fn start(host: &Host, root: &str, dirs: &[String]) -> Result<InstanceWatch> {
        let fail = |e: io::Error| Error::io(Operation::Call, "inotify", e);
        let inotify = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)
            .map_err(|e| fail(e.into()))?;
        let fanotify = fanotify_init().ok();
        let name = root.rsplit('/').next().unwrap_or_default().to_owned();
        let mut watch =
            InstanceWatch { inotify, dirs: HashMap::new(), _held: Vec::new(), fanotify, name };
        for dir in dirs {
            watch.add(host, root, dir)?;
        }
        Ok(watch)
    }

    fn add(&mut self, host: &Host, root: &str, dir: &str) -> Result<()> {
        let path = if dir.is_empty() { root.to_owned() } else { format!("{root}/{dir}") };
        let fail = |e: io::Error| Error::io(Operation::Read, &path, e);
        let held = File::options()
            .read(true)
            .custom_flags(libc::O_PATH | libc::O_DIRECTORY | libc::O_CLOEXEC)
            .open(host.place(&path))
            .map_err(fail)?;
        let by_number = format!("/proc/self/fd/{}", held.as_raw_fd());
        let flags = WatchFlags::MODIFY
            | WatchFlags::CLOSE_WRITE
            | WatchFlags::OPEN
            | WatchFlags::DELETE_SELF;
        let number =
            inotify::add_watch(&self.inotify, &*by_number, flags).map_err(|e| fail(e.into()))?;
        if let Some(fanotify) = &self.fanotify
            && fanotify_mark(fanotify, &by_number).is_err()
        {
            self.fanotify = None;
        }
        self.dirs.insert(number, dir.to_owned());
        self._held.push(held);
        Ok(())
    }

    /// What was done since the last time; each file once. Never waits.
    pub fn drain(&mut self) -> Vec<TouchedFile> {
        let mut touched: BTreeMap<String, InstanceAccess> = BTreeMap::new();
        let mut room = [MaybeUninit::uninit(); 4096];
        let mut reader = inotify::Reader::new(&self.inotify, &mut room);
        // Ends with EAGAIN, when nothing is left.
        while let Ok(event) = reader.next() {
            let dir = self.dirs.get(&event.wd()).map_or("", String::as_str);
            let name = event.file_name().map(|name| name.to_string_lossy().into_owned());
            let name = name.unwrap_or_default();
            if let Some(access) = access(event.events(), &name) {
                let file = join(dir, &name);
                let known = touched.entry(file).or_insert(access);
                *known = access.max(*known);
            }
        }
        let who = self.writers();
        let touch = |(file, access)| {
            let pid = who.get(&file).copied();
            TouchedFile { file, access, pid }
        };
        touched.into_iter().map(touch).collect()
    }

    /// File and process of each write since the last time.
    fn writers(&self) -> HashMap<String, i32> {
        let mut found = HashMap::new();
        let Some(mut fanotify) = self.fanotify.as_ref() else { return found };
        let mut room = vec![0_u8; 16 << 10];
        while let Ok(filled) = fanotify.read(&mut room) {
            for (file, pid) in fanotify_events(&room[..filled]) {
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

/// What an event of inotify means for the recording; `None` when nothing.
fn access(events: ReadFlags, name: &str) -> Option<InstanceAccess> {
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
    (bits & WatchFlags::OPEN.bits() != 0 && TAKEN_BY_OPENING.contains(&name))
        .then_some(InstanceAccess::Opened)
}

/// A group that only listens; EPERM without `CAP_SYS_ADMIN`, ENOSYS without `CONFIG_FANOTIFY`.
fn fanotify_init() -> io::Result<File> {
    let flags = libc::FAN_CLASS_NOTIF | libc::FAN_CLOEXEC | libc::FAN_NONBLOCK;
    let opened = libc::O_RDONLY | libc::O_CLOEXEC | libc::O_LARGEFILE;
    // SAFETY: two numbers.
    let fd = unsafe { libc::fanotify_init(flags, opened.unsigned_abs()) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a new file descriptor that nobody else owns.
    Ok(unsafe { File::from_raw_fd(fd) })
}

/// Writes to the files of a directory are reported from now on. Opening is not: the kernel hands
/// each file over open, and opening a pipe of the trace once more is not harmless.
fn fanotify_mark(group: &File, dir: &str) -> io::Result<()> {
    let path = std::ffi::CString::new(dir).map_err(io::Error::other)?;
    let mask = libc::FAN_MODIFY | libc::FAN_CLOSE_WRITE | libc::FAN_EVENT_ON_CHILD;
    let (add, here) = (libc::FAN_MARK_ADD, libc::AT_FDCWD);
    // SAFETY: the path is a C string that lives through the call.
    match unsafe { libc::fanotify_mark(group.as_raw_fd(), add, mask, here, path.as_ptr()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The files in a buffer of `struct fanotify_event_metadata` (include/uapi/linux/fanotify.h), each
/// open, with the process that wrote to it.
fn fanotify_events(mut bytes: &[u8]) -> Vec<(File, i32)> {
    const SIZE: usize = size_of::<libc::fanotify_event_metadata>();
    let mut found = Vec::new();
    while bytes.len() >= SIZE {
        // SAFETY: there are enough bytes, any bits make a valid value of this struct of integers,
        // and an unaligned read is asked for.
        let event: libc::fanotify_event_metadata =
            unsafe { std::ptr::read_unaligned(bytes.as_ptr().cast()) };
        if event.fd >= 0 {
            // SAFETY: the kernel opened this file for us, once for each event.
            found.push((unsafe { File::from_raw_fd(event.fd) }, event.pid));
        }
        let len = usize::try_from(event.event_len).unwrap_or(0).max(SIZE);
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
    fn writes_are_reported_and_reads_that_take_nothing_are_not() {
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
        let touches = watch.drain();
        let seen: Vec<_> = touches.iter().map(|it| (it.file.as_str(), it.access)).collect();
        assert_eq!(
            seen,
            [
                ("events/sched/enable", InstanceAccess::Written),
                ("trace_pipe", InstanceAccess::Opened),
                ("tracing_on", InstanceAccess::Written),
            ]
        );
        // Without CAP_SYS_ADMIN nobody says who it was.
        let me = i32::try_from(std::process::id()).unwrap();
        let pids: Vec<_> = touches.iter().filter_map(|touch| touch.pid).collect();
        assert!(pids.is_empty() || pids == [me, me], "{pids:?}");
        assert_eq!(watch.drain(), []);
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn a_directory_that_goes_is_reported() {
        let dir = scratch("gone");
        let host = Host::recorded(&dir).unwrap();
        let dirs = ["events/sched".to_owned()];
        let mut watch = InstanceWatch::start(&host, "/mine", &dirs).unwrap();
        fs::remove_dir_all(dir.join("mine/events/sched")).unwrap();
        assert!(fs::metadata(dir.join("mine/events/sched")).is_err());
        // The directory is still held open, so that only its files are gone for inotify.
        drop(std::mem::take(&mut watch._held));
        assert!(watch.drain().iter().any(|touch| touch.access == InstanceAccess::Removed));
        fs::remove_dir_all(dir).unwrap();
    }
}
