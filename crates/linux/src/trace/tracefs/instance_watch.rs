//! Detects when another process writes to the control files of a tracing instance, or reads its
//! pages. inotify(7) reports each access to a file of some directories. fanotify(7) reports each
//! write in the file system, also to the thousands of events that are not recorded, whose triggers
//! can stop the recording; and it reports the process.
//!
//! inotify watches inodes, and tracefs may replace the inode of a directory that nothing holds open
//! (eventfs, fs/tracefs/event_inode.c, since 6.6). So each directory is kept open.

use crate::error::{Error, Operation, Result};
use crate::host::Host;
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::File;
use std::io::{self, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Opening one of these removes records, empties the buffer or stops the recording.
const CONSUMED_BY_OPENING: &[&str] =
    &["trace", "trace_pipe", "trace_pipe_raw", "snapshot", "snapshot_raw", "free_buffer"];

/// How many reports are read at a time: as many as the kernel keeps. Another process may write
/// faster than this one reads; then it has not seen every report.
const READS_MAX: usize = 16 << 10;

/// Writes to these files make and remove events.
const DYNAMIC_EVENTS: &[&str] =
    &["dynamic_events", "kprobe_events", "synthetic_events", "uprobe_events"];

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
    /// Reports every write; `None` without the privilege or the kernel option.
    writes: Option<FileSystemWrites>,
    /// The name of the instance's directory, as it appears in paths.
    name: String,
}

/// The writes of other processes to the files of a file system.
#[derive(Debug)]
pub struct FileSystemWrites {
    fanotify: File,
    /// Whether another process made or removed events.
    events_changed: bool,
    /// Whether the kernel dropped the report of a file that no longer exists.
    dropped: bool,
}

/// The writes since the last call: the process of each file, and whether some may be missing.
#[derive(Debug, Default)]
struct ReportedWrites {
    by_file: HashMap<String, i32>,
    incomplete: bool,
}

impl FileSystemWrites {
    /// Starts to watch the file system of a directory.
    ///
    /// # Errors
    /// EPERM without `CAP_SYS_ADMIN` in the first user namespace, ENOSYS without `CONFIG_FANOTIFY`.
    pub fn start(host: &Host, dir: &str) -> io::Result<FileSystemWrites> {
        let fanotify = fanotify_init()?;
        fanotify_mark(&fanotify, &host.local_path(dir))?;
        Ok(FileSystemWrites { fanotify, events_changed: false, dropped: false })
    }

    /// The writes below a directory of this name by other processes.
    fn drain(&mut self, name: &str) -> ReportedWrites {
        let mut reported = ReportedWrites::default();
        let own = i32::try_from(std::process::id()).unwrap_or(0);
        let mut whole_mounts = None;
        // One report at a time. The kernel drops the report of a file that it cannot open, and
        // returns the error only if it has no earlier report (`fanotify_read()`, 6.12).
        let mut buffer = [0_u8; size_of::<libc::fanotify_event_metadata>()];
        for _ in 0..READS_MAX {
            let filled = match self.fanotify.read(&mut buffer) {
                Ok(filled) => filled,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    // An event that was removed may have had a trigger. The files of another
                    // program's instance disappear with it.
                    reported.incomplete |= self.dropped && self.events_changed;
                    return reported;
                }
                Err(error) if is_gone(&error) => {
                    self.dropped = true;
                    continue;
                }
                Err(_) => {
                    reported.incomplete = true;
                    continue;
                }
            };
            for (file, pid) in parse_fanotify_events(&buffer[..filled]) {
                let Some(file) = file else {
                    reported.incomplete = true;
                    continue;
                };
                if pid == own {
                    continue;
                }
                let path = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()));
                let Ok(path) = path.map(|path| path.to_string_lossy().into_owned()) else {
                    reported.incomplete = true;
                    continue;
                };
                if let Some((_, below)) = path.split_once(&format!("/{name}/")) {
                    reported.by_file.insert(below.to_owned(), pid);
                    continue;
                }
                let whole_mounts = whole_mounts.get_or_insert_with(read_whole_mounts);
                reported.incomplete |= !has_whole_path(&file, whole_mounts);
                let file = path.rsplit('/').next().unwrap_or_default();
                self.events_changed |= DYNAMIC_EVENTS.contains(&file);
            }
        }
        reported.incomplete = true;
        reported
    }
}

/// Whether a file could not be opened because it, or what it controls, was removed
/// (`trace_array_get()`, `event_trigger_regex_open()`, kernel/trace, 6.12).
fn is_gone(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENODEV | libc::ENOENT))
}

/// The numbers of the mounts that show a file system from its root (proc_pid_mountinfo(5)).
fn read_whole_mounts() -> BTreeSet<String> {
    let text = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    text.lines()
        .filter_map(|line| {
            // Number, parent, device, root.
            let mut words = line.split(' ');
            let number = words.next()?;
            (words.nth(2)? == "/").then(|| number.to_owned())
        })
        .collect()
}

/// Whether the path of a file begins at the root of its file system. It does not where a directory
/// inside is mounted. Of a mount that this process does not see, that is unknown.
fn has_whole_path(file: &File, whole_mounts: &BTreeSet<String>) -> bool {
    let path = format!("/proc/self/fdinfo/{}", file.as_raw_fd());
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let number = text.lines().find_map(|line| line.strip_prefix("mnt_id:"));
    number.is_some_and(|number| whole_mounts.contains(number.trim()))
}

impl InstanceWatch {
    /// The files that the kernel takes a moment to close.
    pub fn into_files(self) -> impl Iterator<Item = File> {
        self.writes.into_iter().map(|writes| writes.fanotify).chain([File::from(self.inotify)])
    }

    /// Starts to watch these directories below `root`; `""` is `root` itself. `writes` is about
    /// its file system, and may have been started before.
    ///
    /// # Errors
    /// The kernel's error: EMFILE or ENOSPC if this user has too many watches.
    pub fn start(
        host: &Host,
        root: &str,
        dirs: &[String],
        writes: Option<FileSystemWrites>,
    ) -> Result<InstanceWatch> {
        let inotify = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)
            .map_err(|e| Error::io(Operation::Call, "inotify", e.into()))?;
        let name = root.rsplit('/').next().unwrap_or_default().to_owned();
        let mut watch =
            InstanceWatch { inotify, dirs: HashMap::new(), _open_dirs: Vec::new(), writes, name };
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
        self.dirs.insert(descriptor, dir.to_owned());
        self._open_dirs.push(open_dir);
        Ok(())
    }

    /// Whether the kernel reports every write since before the instance existed.
    #[must_use]
    pub fn reports_every_write(&self) -> bool {
        self.writes.is_some()
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
        let name = &self.name;
        let reported = self.writes.as_mut().map(|writes| writes.drain(name)).unwrap_or_default();
        for file in reported.by_file.keys() {
            let known = touched.entry(file.clone()).or_insert(InstanceAccess::Written);
            *known = InstanceAccess::Written.max(*known);
        }
        if reported.incomplete {
            touched.insert(String::new(), InstanceAccess::Unknown);
        }
        touched
            .into_iter()
            .map(|(file, access)| {
                // 0 is a process of another PID namespace.
                let pid = reported.by_file.get(&file).copied().filter(|pid| *pid > 0);
                TouchedFile { file, access, pid }
            })
            .collect()
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

/// Makes the group report writes to the files of a file system. It does not report opening: the
/// kernel hands over each file open, and opening a pipe of the trace again would do harm.
fn fanotify_mark(group: &File, dir: &Path) -> io::Result<()> {
    let path = std::ffi::CString::new(dir.as_os_str().as_bytes()).map_err(io::Error::other)?;
    let flags = libc::FAN_MARK_ADD | libc::FAN_MARK_FILESYSTEM;
    let mask = libc::FAN_MODIFY | libc::FAN_CLOSE_WRITE;
    let (fd, cwd) = (group.as_raw_fd(), libc::AT_FDCWD);
    // SAFETY: the path is a C string that lives through the call.
    match unsafe { libc::fanotify_mark(fd, flags, mask, cwd, path.as_ptr()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The files in a buffer of `struct fanotify_event_metadata` (include/uapi/linux/fanotify.h), each
/// open, with the process that wrote to it. `None` for lost reports, and for a file that cannot be
/// opened.
fn parse_fanotify_events(mut bytes: &[u8]) -> Vec<(Option<File>, i32)> {
    const SIZE: usize = size_of::<libc::fanotify_event_metadata>();
    let mut found = Vec::new();
    while let Some(event) = bytes.first_chunk::<SIZE>() {
        // Length (32 bits), versions and mask (96 bits), file descriptor, process.
        let (words, _) = event.as_chunks::<4>();
        let word = |at: usize| words.get(at).map_or(0, |word| i32::from_ne_bytes(*word));
        let (len, fd, pid) = (word(0), word(4), word(5));
        // SAFETY: the kernel opened this file for this process, once for each event.
        let file = (fd >= 0).then(|| unsafe { File::from_raw_fd(fd) });
        found.push((file, pid));
        let len = usize::try_from(len).unwrap_or(0).max(SIZE);
        bytes = bytes.get(len..).unwrap_or_default();
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::not_run::not_run;
    use std::fs;
    use std::path::PathBuf;
    use std::process::Command;

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
        let mut watch = InstanceWatch::start(&host, "/mine", &dirs, None).unwrap();
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
        assert_eq!(watch.drain(), []);
        fs::remove_dir_all(dir).unwrap();
    }

    /// Runs a command of a shell in a directory, and returns its number.
    fn shell(dir: &Path, command: &str) -> i32 {
        let mut child = Command::new("sh").args(["-c", command]).current_dir(dir).spawn().unwrap();
        child.wait().unwrap();
        i32::try_from(child.id()).unwrap()
    }

    #[test]
    fn writes_to_files_that_are_not_recorded_are_reported_with_the_process() {
        let dir = scratch("file-system");
        let host = Host::recorded(&dir).unwrap();
        let mounted = rustix::mount::mount(
            "none",
            dir.join("mine"),
            "tmpfs",
            rustix::mount::MountFlags::empty(),
            None,
        );
        let writes = mounted.map_err(io::Error::from);
        let writes = writes.and_then(|()| FileSystemWrites::start(&host, "/mine"));
        if let Err(why) = &writes {
            not_run(&format!("a file system of its own cannot be watched: {why}"));
        }
        if let Ok(writes) = writes {
            let root = dir.join("mine/instances/cpushield-1");
            fs::create_dir_all(root.join("events/task/task_rename")).unwrap();
            let early = shell(&root, "echo traceoff > events/task/task_rename/trigger");
            fs::write(root.join("tracing_on"), "1\n").unwrap();
            let start = |writes| {
                let name = "/mine/instances/cpushield-1";
                InstanceWatch::start(&host, name, &[String::new()], Some(writes)).unwrap()
            };
            let mut watch = start(writes);
            let trigger = |pid| TouchedFile {
                file: "events/task/task_rename/trigger".to_owned(),
                access: InstanceAccess::Written,
                pid: Some(pid),
            };
            assert_eq!(
                watch.drain(),
                [trigger(early)],
                "before the watch; this process does not count"
            );
            let late = shell(&root, "echo '!traceoff' > events/task/task_rename/trigger");
            shell(&dir.join("mine"), "echo 1 > elsewhere");
            assert_eq!(watch.drain(), [trigger(late)]);
            assert_eq!(watch.drain(), []);

            // The path does not show that a file belongs to the instance.
            let inner = dir.join("inner");
            fs::create_dir_all(&inner).unwrap();
            rustix::mount::mount_bind(root.join("events"), &inner).unwrap();
            shell(&inner, "echo traceoff > task/task_rename/trigger");
            rustix::mount::unmount(&inner, rustix::mount::UnmountFlags::DETACH).unwrap();
            let unknown =
                TouchedFile { file: String::new(), access: InstanceAccess::Unknown, pid: None };
            assert_eq!(watch.drain(), [unknown]);
        }
        let _ = rustix::mount::unmount(dir.join("mine"), rustix::mount::UnmountFlags::DETACH);
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn a_removed_directory_is_reported() {
        let dir = scratch("gone");
        let host = Host::recorded(&dir).unwrap();
        let dirs = ["events/sched".to_owned()];
        let mut watch = InstanceWatch::start(&host, "/mine", &dirs, None).unwrap();
        fs::remove_dir_all(dir.join("mine/events/sched")).unwrap();
        assert!(fs::metadata(dir.join("mine/events/sched")).is_err());
        // The directory is still open, so inotify reports only that its files are gone.
        drop(std::mem::take(&mut watch._open_dirs));
        assert!(watch.drain().iter().any(|file| file.access == InstanceAccess::Removed));
        fs::remove_dir_all(dir).unwrap();
    }
}
