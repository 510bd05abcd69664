//! [`Host`]: the machine as a parameter. It is opened once and passed first to every function that
//! touches the machine: the live one, or a recorded directory on which reads and writes land
//! instead. Nothing else in the project opens a kernel file.

mod writer;

pub use writer::FileWriter;

use crate::cpuset::CpuSet;
use crate::error::{Error, ErrorCause, Operation, Result, errno_name};
use crate::event_log::EventLog;
use crate::fast_read::{comes_at_once, open};
use crate::record::MachineRecorder;
use crate::root_dir::{self, Listed, RootDir, parse_errors};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The file of a recording that holds the errors the kernel answered: `verb<TAB>path<TAB>errno`.
pub const ERRORS_FILE: &str = "errors.tsv";

/// What git needs to keep an empty directory of a recording; no kernel has a file of that name.
const KEPT_EMPTY: &str = ".gitkeep";

/// One file read whole may not be longer: the largest kernel texts (kallsyms apart) are a few MiB.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// One large first read: tracefs files such as events/header_page give only the part that the first
/// read asked for (seen on 6.1 and 6.12), so growing by small steps loses text.
const CHUNK_BYTES: usize = 64 << 10;

thread_local! {
    /// Kept between reads: to get and clear fresh memory costs more than to read a small file.
    static CHUNK: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// The machine: the live one or a recorded directory.
#[derive(Debug)]
pub struct Host {
    root: PathBuf,
    /// The directory of a recorded machine; `None` for the live one.
    recorded: Option<RootDir>,
    live: bool,
    /// Whether the errors of a recorded machine are known.
    has_errors: bool,
    /// Errors that a recorded machine answers, as the live one did.
    errors: Mutex<BTreeMap<(Operation, String), i32>>,
    recorder: Option<MachineRecorder>,
    /// Where every access is noted.
    pub(crate) log: Option<EventLog>,
    fault: Option<InjectedFault>,
    writes: AtomicUsize,
    operations: AtomicUsize,
    /// Who answers for the programs of a recorded machine.
    pub(crate) answers: crate::programs::FakePrograms,
}

/// What a test wants to happen at the n-th write (counted from 0).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InjectedFault {
    /// That write is refused with this error number, later ones are not.
    Refuse {
        /// Which write.
        at: usize,
        /// The kernel's error.
        errno: i32,
    },
    /// The process dies before that write: it and all later ones fail with [`ErrorCause::Stopped`].
    Stop {
        /// Which write.
        at: usize,
    },
}

impl Host {
    /// The machine this runs on.
    #[must_use]
    pub fn live() -> Host {
        Host::at(PathBuf::from("/"), None)
    }

    /// A directory made by `survey --record` (or any copy of `/proc` and `/sys`).
    ///
    /// # Errors
    /// The directory is not there, or its `errors.tsv` is malformed.
    pub fn recorded(dir: &Path) -> Result<Host> {
        let name = dir.display().to_string();
        let root = dir.canonicalize().map_err(|e| Error::io(Operation::Read, &name, e))?;
        let dir = RootDir::open(&root).map_err(|e| Error::io(Operation::Read, &name, e))?;
        let mut host = Host::at(root, Some(dir));
        match host.read_file(ERRORS_FILE) {
            Ok(text) => {
                *host.lock_errors() = parse_errors(&String::from_utf8_lossy(&text))?;
                host.has_errors = true;
            }
            Err(error) if error.is_absent() => {}
            Err(error) => return Err(error),
        }
        Ok(host)
    }

    fn at(root: PathBuf, recorded: Option<RootDir>) -> Host {
        Host {
            root,
            live: recorded.is_none(),
            recorded,
            has_errors: false,
            errors: Mutex::default(),
            recorder: None,
            log: None,
            fault: None,
            writes: AtomicUsize::new(0),
            operations: AtomicUsize::new(0),
            answers: crate::programs::FakePrograms::default(),
        }
    }

    /// The same host; everything it reads from now on is also saved below `dir`.
    ///
    /// # Errors
    /// `dir` cannot be made or is not empty.
    pub fn recording(mut self, dir: &Path) -> Result<Host> {
        let tried = self.live || self.has_errors;
        self.recorder = Some(MachineRecorder::new(dir, &self.root, tried)?);
        Ok(self)
    }

    /// The same host, failing on purpose; for tests of failure and roll-back.
    #[must_use]
    pub fn failing(mut self, fault: InjectedFault) -> Host {
        self.fault = Some(fault);
        self
    }

    /// Whether this is the machine the program runs on.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.live
    }

    /// The architecture this program was built for, which is that of a live machine; for kernels
    /// before 6.1, which have no `/proc/sys/kernel/arch`.
    #[must_use]
    pub fn own_arch(&self) -> Option<String> {
        if !self.live {
            return None;
        }
        if let Some(recorder) = &self.recorder {
            recorder.save_file("/proc/sys/kernel/arch", std::env::consts::ARCH.as_bytes());
        }
        Some(std::env::consts::ARCH.to_owned())
    }

    /// The first thing that a recording could not save, and why; nothing when all went well or
    /// nothing is recorded.
    #[must_use]
    pub fn recording_failure(&self) -> Option<String> {
        self.recorder.as_ref()?.failure()
    }

    /// How many writes (of all kinds) were tried so far.
    #[must_use]
    pub fn writes(&self) -> usize {
        self.writes.load(Ordering::Relaxed)
    }

    /// How often the machine was asked or told something so far: files and links read, looked for
    /// or written, and directories listed.
    #[must_use]
    pub fn operations(&self) -> usize {
        self.operations.load(Ordering::Relaxed)
    }

    fn count_operation(&self) {
        self.operations.fetch_add(1, Ordering::Relaxed);
    }

    /// Where `path` of the machine lies for this process.
    pub(crate) fn place(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    fn lock_errors(&self) -> std::sync::MutexGuard<'_, BTreeMap<(Operation, String), i32>> {
        self.errors.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn recorded_error(&self, verb: Operation, path: &str) -> Result<()> {
        if self.live {
            return Ok(());
        }
        match self.lock_errors().get(&(verb, path.to_owned())) {
            Some(errno) => Err(Error::os(verb, path, *errno)),
            None => Ok(()),
        }
    }

    /// What a recording knows of an access that its machine was asked for: `None` for a live host
    /// and for a directory that this program did not record, which has no `errors.tsv`.
    #[must_use]
    pub fn tried(&self, verb: Operation, path: &str) -> Option<Result<()>> {
        if self.live || !self.has_errors {
            return None;
        }
        Some(self.recorded_error(verb, path))
    }

    /// `MSR_SMI_COUNT` (0x34) of a CPU: how often system management mode took it since power-on.
    /// Reading it interrupts that CPU.
    ///
    /// # Errors
    /// No MSR device, no right, or no such register (EIO).
    pub fn smi_count(&self, cpu: usize) -> Result<u64> {
        const MSR_SMI_COUNT: u64 = 0x34;
        let path = format!("/dev/cpu/{cpu}/msr");
        let answer = self.recorded_error(Operation::Read, &path).and_then(|()| {
            let fail = |e| Error::io(Operation::Read, &path, e);
            let file = self.open_to_read(&path).map_err(fail)?;
            let mut bytes = [0; 8];
            // A recording keeps the eight bytes alone.
            let offset = if self.live { MSR_SMI_COUNT } else { 0 };
            file.read_exact_at(&mut bytes, offset).map_err(fail)?;
            Ok(bytes)
        });
        match (&answer, &self.recorder) {
            (Ok(bytes), Some(recorder)) => recorder.save_file(&path, bytes),
            (Err(error), Some(_)) if !error.is_absent() => self.note_error(error),
            _ => {}
        }
        answer.map(u64::from_le_bytes)
    }

    /// Notes in the recording that the kernel answered `verb` on `path` with this error.
    pub fn note_error(&self, error: &Error) {
        if let (Some(recorder), Some(errno)) = (&self.recorder, error.errno()) {
            recorder.note_error(error.verb, &error.path, &errno_name(errno));
        }
    }

    /// Reads a kernel file whole, as text (bytes that are not UTF-8 are replaced).
    ///
    /// # Errors
    /// The kernel's error.
    pub fn read(&self, path: &str) -> Result<String> {
        self.read_bytes(path).map(|bytes| match String::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
        })
    }

    /// Reads a kernel file whole.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn read_bytes(&self, path: &str) -> Result<Vec<u8>> {
        let answer = self.recorded_error(Operation::Read, path).and_then(|()| self.read_file(path));
        let answer = self.logged(Operation::Read, path, None, answer);
        match (&answer, &self.recorder) {
            (Ok(bytes), Some(recorder)) => recorder.save_file(path, bytes),
            (Err(error), Some(_)) if !error.is_absent() => self.note_error(error),
            _ => {}
        }
        answer
    }

    /// Text without the white space at its end: what one-line kernel files hold.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn read_line(&self, path: &str) -> Result<String> {
        self.read(path).map(|text| text.trim_end_matches(['\n', ' ', '\0']).to_owned())
    }

    /// A file of `/proc/<pid>` that the kernel gives whole at the first read: there are thousands
    /// of them, so asking a second time for nothing counts.
    pub(crate) fn read_task_file(&self, path: &str) -> Result<Vec<u8>> {
        if !self.live || self.recorder.is_some() {
            return self.read_bytes(path);
        }
        let answer = CHUNK.with_borrow_mut(|chunk| {
            chunk.resize(CHUNK_BYTES, 0);
            let mut file = self.open_to_read(path)?;
            file.read(chunk).map(|n| chunk[..n].to_vec())
        });
        self.logged(
            Operation::Read,
            path,
            None,
            answer.map_err(|e| Error::io(Operation::Read, path, e)),
        )
    }

    fn read_file(&self, path: &str) -> Result<Vec<u8>> {
        let fail = |e| Error::io(Operation::Read, path, e);
        let mut file = self.open_to_read(path).map_err(fail)?;
        // A recording has plain files, of which a short read is the end.
        let at_once = !self.live || comes_at_once(path);
        CHUNK.with_borrow_mut(|chunk| {
            chunk.resize(CHUNK_BYTES, 0);
            let mut bytes = Vec::new();
            loop {
                match file.read(chunk) {
                    Ok(0) => return Ok(bytes),
                    Ok(n) => {
                        bytes.extend_from_slice(&chunk[..n]);
                        if at_once && n < chunk.len() {
                            return Ok(bytes);
                        }
                    }
                    Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                    Err(e) => return Err(fail(e)),
                }
                if bytes.len() as u64 > FILE_BYTES_MAX {
                    return Err(fail(io::Error::from_raw_os_error(libc::EFBIG)));
                }
            }
        })
    }

    fn open_to_read(&self, path: &str) -> io::Result<fs::File> {
        self.count_operation();
        match &self.recorded {
            Some(dir) => dir.read(path),
            None => open(&self.place(path), libc::O_RDONLY),
        }
    }

    /// The names in a directory, sorted.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn list(&self, path: &str) -> Result<Vec<String>> {
        let names = self.entries(path, Listed::All);
        let mut names = self.logged(Operation::Read, path, None, names)?;
        if !self.live {
            names.retain(|name| name != KEPT_EMPTY);
        }
        if let Some(recorder) = &self.recorder {
            recorder.save_dir(path);
        }
        Ok(names)
    }

    /// The names of the directories in a directory of groups, sorted.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn groups_below(&self, path: &str) -> Result<Vec<String>> {
        self.entries(path, Listed::Directories)
    }

    /// The names in a directory, sorted.
    fn entries(&self, path: &str, listed: Listed) -> Result<Vec<String>> {
        self.recorded_error(Operation::Read, path)?;
        self.count_operation();
        let names = match &self.recorded {
            Some(dir) => dir.list(path, listed),
            None => open(&self.place(path), libc::O_RDONLY | libc::O_DIRECTORY)
                .and_then(|dir| root_dir::names(dir.into(), listed)),
        };
        let mut names = names.map_err(|e| Error::io(Operation::Read, path, e))?;
        names.sort();
        Ok(names)
    }

    /// What a symbolic link says.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn link(&self, path: &str) -> Result<String> {
        self.recorded_error(Operation::Read, path)?;
        self.count_operation();
        let target =
            fs::read_link(self.place(path)).map_err(|e| Error::io(Operation::Read, path, e));
        let target = self.logged(Operation::Read, path, None, target)?;
        let target = target.to_string_lossy().into_owned();
        if let Some(recorder) = &self.recorder {
            recorder.save_link(path);
        }
        Ok(target)
    }

    /// The CPUs that are online.
    ///
    /// # Errors
    /// The kernel's error, or its file is not a list of CPUs.
    pub fn online_cpus(&self) -> Result<CpuSet> {
        let path = "/sys/devices/system/cpu/online";
        let text = self.read_line(path)?;
        text.parse().map_err(|_| Error::malformed(path, 1, "a CPU list", &text))
    }

    /// Whether something is there.
    #[must_use]
    pub fn exists(&self, path: &str) -> bool {
        self.count_operation();
        let there = match &self.recorded {
            Some(dir) => dir.has(path),
            None => self.place(path).exists(),
        };
        if there && let Some(recorder) = &self.recorder {
            recorder.save_presence(path, self.place(path).is_dir());
        }
        there
    }

    /// Every write of any kind passes here first: it counts, and a test's fault strikes.
    pub(crate) fn before_write(&self, verb: Operation, path: &str) -> Result<()> {
        self.count_operation();
        let n = self.writes.fetch_add(1, Ordering::Relaxed);
        match self.fault {
            Some(InjectedFault::Refuse { at, errno }) if n == at => {
                Err(Error::os(verb, path, errno))
            }
            Some(InjectedFault::Stop { at }) if n >= at => {
                Err(Error { verb, path: path.to_owned(), value: None, cause: ErrorCause::Stopped })
            }
            _ => self.recorded_error(verb, path),
        }
    }

    /// Writes a value to a kernel file that exists, in one write. Empty text is written as a line
    /// end, because a write of no bytes changes nothing.
    ///
    /// # Errors
    /// The kernel's error, with the value.
    pub fn write(&self, path: &str, value: &str) -> Result<()> {
        self.before_write(Operation::Write, path).map_err(|e| e.with_value(value))?;
        let answer =
            if self.live { self.write_live(path, value) } else { self.simulate(path, value) };
        self.logged(Operation::Write, path, Some(value), answer.map_err(|e| e.with_value(value)))
    }

    fn write_live(&self, path: &str, value: &str) -> Result<()> {
        let fail = |e| Error::io(Operation::Write, path, e);
        let bytes = if value.is_empty() { "\n" } else { value };
        let mut file = open(&self.place(path), libc::O_WRONLY).map_err(fail)?;
        file.write_all(bytes.as_bytes()).map_err(fail)
    }

    /// A kernel file to which many values are written, one write each.
    #[must_use]
    pub fn writer<'a>(&'a self, path: &'a str) -> FileWriter<'a> {
        FileWriter { host: self, path, file: None }
    }

    /// Makes a directory (a cgroup, a tracing instance); its parent must be there.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn make_dir(&self, path: &str) -> Result<()> {
        self.before_write(Operation::MakeDir, path)?;
        let made = fs::create_dir(self.place(path));
        let made = made.map_err(|e| Error::io(Operation::MakeDir, path, e));
        self.logged(Operation::MakeDir, path, None, made)?;
        if self.live { Ok(()) } else { self.simulate_make_dir(path) }
    }

    /// Removes an empty directory (a cgroup without tasks counts as empty).
    ///
    /// # Errors
    /// The kernel's error.
    pub fn remove_dir(&self, path: &str) -> Result<()> {
        self.before_write(Operation::Remove, path)?;
        if !self.live {
            self.simulate_remove_dir(path)?;
        }
        let removed = fs::remove_dir(self.place(path));
        let removed = removed.map_err(|e| Error::io(Operation::Remove, path, e));
        self.logged(Operation::Remove, path, None, removed)
    }

    /// Removes a file that this project made (a systemd drop-in, a state file).
    ///
    /// # Errors
    /// The kernel's error.
    pub fn remove_file(&self, path: &str) -> Result<()> {
        self.before_write(Operation::Remove, path)?;
        let removed = fs::remove_file(self.place(path));
        let removed = removed.map_err(|e| Error::io(Operation::Remove, path, e));
        self.logged(Operation::Remove, path, None, removed)
    }
}
