//! [`Host`]: the machine as a parameter. It is opened once and passed first to every function that
//! accesses the machine. It is the live machine, or a recorded directory that takes its place.
//! Nothing else in the project opens a kernel file.

mod cpuset_file;
mod logging;
mod optional_reader;
mod regular_reader;
mod simulated_kernel;
mod writer;

pub use simulated_kernel::SimulatedKernel;
pub use writer::FileWriter;

use crate::cpuset::CpuSet;
use crate::error::{Error, Operation, Result, errno_name, present};
use crate::files::event_log::EventLog;
use crate::files::fast_read::open;
use crate::files::local_files::{LocalFiles, MachineFiles};
use crate::recording::record::{MachineRecorder, PresentKind};
use crate::recording::root_dir::{ERRORS_FILE, Listed, RecordedOutcome, parse_errors};
use rustix::fs::OFlags;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The file by which git keeps an empty directory of a recording; no kernel has a file of that
/// name.
const GIT_KEEP: &str = ".gitkeep";

/// The machine: the live one or a recorded directory.
#[derive(Debug)]
pub struct Host {
    root: PathBuf,
    /// Its files.
    pub files: Box<dyn MachineFiles>,
    live: bool,
    /// Whether the recording has an `errors.tsv`.
    has_errors: bool,
    /// The errors that the kernel of a recorded machine returned.
    errors: Mutex<BTreeMap<(Operation, String), i32>>,
    recorder: Option<MachineRecorder>,
    /// The log of every access.
    pub(crate) log: Option<EventLog>,
    writes: AtomicUsize,
    operations: AtomicUsize,
    /// What answers changes instead of the running kernel, in tests. A recording has none.
    pub kernel: Option<Box<dyn SimulatedKernel>>,
}

impl Host {
    /// The machine that this program runs on.
    #[must_use]
    pub fn live() -> Host {
        Host::new(PathBuf::from("/"), Box::new(LocalFiles::live()), true)
    }

    /// A directory written by `survey --record`, or any copy of `/proc` and `/sys`.
    ///
    /// # Errors
    /// The directory does not exist, or its `errors.tsv` is malformed.
    pub fn recorded(dir: &Path) -> Result<Host> {
        let name = dir.display().to_string();
        let root = dir.canonicalize().map_err(|e| Error::io(Operation::Read, &name, e))?;
        let files =
            LocalFiles::recorded(root.clone()).map_err(Error::on(Operation::Read, &name))?;
        Host::of_files(root, Box::new(files))
    }

    /// A machine with these files, which is not the one that this program runs on. `root` is where
    /// its files would be.
    ///
    /// # Errors
    /// Its `errors.tsv` cannot be read or is malformed.
    pub fn of_files(root: PathBuf, files: Box<dyn MachineFiles>) -> Result<Host> {
        let mut host = Host::new(root, files, false);
        if let Some(text) = present(host.read_file(ERRORS_FILE))? {
            *host.lock_errors() = parse_errors(&String::from_utf8_lossy(&text))?;
            host.has_errors = true;
        }
        Ok(host)
    }

    fn new(root: PathBuf, files: Box<dyn MachineFiles>, live: bool) -> Host {
        Host {
            root,
            files,
            live,
            has_errors: false,
            errors: Mutex::default(),
            recorder: None,
            log: None,
            writes: AtomicUsize::new(0),
            operations: AtomicUsize::new(0),
            kernel: None,
        }
    }

    /// The same host, which also saves everything that it reads from now on below `dir`.
    ///
    /// # Errors
    /// `dir` cannot be created or is not empty.
    pub fn recording(mut self, dir: &Path) -> Result<Host> {
        let knows_errors = self.live || self.has_errors;
        self.recorder = Some(MachineRecorder::new(dir, &self.root, knows_errors)?);
        Ok(self)
    }

    /// Whether this is the machine that the program runs on.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.live
    }

    /// The process of this program; `None` on a recorded machine, whose numbers name other tasks.
    #[must_use]
    pub fn own_pid(&self) -> Option<i32> {
        match &self.kernel {
            Some(kernel) => kernel.own_pid(),
            None => i32::try_from(std::process::id()).ok().filter(|_| self.live),
        }
    }

    /// The architecture this program was built for, which is that of a live machine; `None` for a
    /// recorded one. For kernels before 6.1, which have no `/proc/sys/kernel/arch`.
    #[must_use]
    pub fn build_arch(&self) -> Option<String> {
        if !self.live {
            return None;
        }
        if let Some(recorder) = &self.recorder {
            recorder.save_file("/proc/sys/kernel/arch", std::env::consts::ARCH.as_bytes());
        }
        Some(std::env::consts::ARCH.to_owned())
    }

    /// The first file that the recording could not save, and why; `None` if all were saved or
    /// nothing is recorded.
    #[must_use]
    pub fn recording_failure(&self) -> Option<String> {
        self.recorder.as_ref()?.failure()
    }

    /// How many writes (of all kinds) were tried.
    #[must_use]
    pub fn writes(&self) -> usize {
        self.writes.load(Ordering::Relaxed)
    }

    /// How many operations were made: files and links read, looked up or written, and directories
    /// listed.
    #[must_use]
    pub fn operations(&self) -> usize {
        self.operations.load(Ordering::Relaxed)
    }

    fn count_operation(&self) {
        self.operations.fetch_add(1, Ordering::Relaxed);
    }

    /// The path of a file of the machine for this process.
    #[must_use]
    pub fn local_path(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    fn lock_errors(&self) -> std::sync::MutexGuard<'_, BTreeMap<(Operation, String), i32>> {
        self.errors.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// The error that the kernel of a recorded machine returned for an access.
    ///
    /// # Errors
    /// That error.
    pub fn recorded_error(&self, verb: Operation, path: &str) -> Result<()> {
        if self.live {
            return Ok(());
        }
        match self.lock_errors().get(&(verb, path.to_owned())) {
            Some(errno) => Err(Error::os(verb, path, *errno)),
            None => Ok(()),
        }
    }

    /// The recorded outcome of an access.
    #[must_use]
    pub fn recorded_outcome(&self, verb: Operation, path: &str) -> RecordedOutcome {
        if self.live || !self.has_errors {
            return RecordedOutcome::NotRecorded;
        }
        match self.recorded_error(verb, path) {
            Ok(()) => RecordedOutcome::Succeeded,
            Err(error) => RecordedOutcome::Failed(error),
        }
    }

    /// `MSR_SMI_COUNT` (0x34) of a CPU: how often it entered system management mode since power-on.
    /// Reading it interrupts that CPU.
    ///
    /// # Errors
    /// No MSR device, no privilege, or no such register (EIO).
    pub fn smi_count(&self, cpu: usize) -> Result<u64> {
        const MSR_SMI_COUNT: u64 = 0x34;
        let path = format!("/dev/cpu/{cpu}/msr");
        let answer = self.recorded_error(Operation::Read, &path).and_then(|()| {
            let mut bytes = [0; 8];
            self.count_operation();
            match self.live {
                true => open(&self.local_path(&path), OFlags::RDONLY)
                    .and_then(|file| file.read_exact_at(&mut bytes, MSR_SMI_COUNT)),
                // A recording contains only the eight bytes of the register.
                false => self.files.read(&path).and_then(|all| (&*all).read_exact(&mut bytes)),
            }
            .map_err(Error::on(Operation::Read, &path))?;
            Ok(bytes)
        });
        self.finish_read(&path, answer).map(u64::from_le_bytes)
    }

    /// Saves an error of the kernel in the recording.
    pub fn note_error(&self, error: &Error) {
        if let (Some(recorder), Some(errno)) = (&self.recorder, error.errno()) {
            recorder.note_error(error.verb, &error.path, &errno_name(errno));
        }
    }

    /// Reads a whole kernel file as text (bytes that are not UTF-8 are replaced).
    ///
    /// # Errors
    /// The kernel's error.
    pub fn read(&self, path: &str) -> Result<String> {
        self.read_bytes(path).map(|bytes| match String::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
        })
    }

    /// Reads a whole kernel file.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn read_bytes(&self, path: &str) -> Result<Vec<u8>> {
        let answer = self.recorded_error(Operation::Read, path).and_then(|()| self.read_file(path));
        self.finish_read(path, answer)
    }

    /// Logs and records what a read returned.
    pub(crate) fn finish_read<T: AsRef<[u8]>>(&self, path: &str, answer: Result<T>) -> Result<T> {
        let answer = self.log_result(Operation::Read, path, None, answer);
        match (&answer, &self.recorder) {
            (Ok(bytes), Some(recorder)) => recorder.save_file(path, bytes.as_ref()),
            (Err(error), Some(_)) if !error.is_absent() => self.note_error(error),
            _ => {}
        }
        answer
    }

    /// Reads a kernel file without the white space at its end, as one-line files need.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn read_line(&self, path: &str) -> Result<String> {
        self.read(path).map(|text| text.trim_end_matches(['\n', ' ', '\0']).to_owned())
    }

    /// The value in a one-line file; `None` if it cannot be read, or has another format.
    #[must_use]
    pub fn read_value<T: FromStr>(&self, path: &str) -> Option<T> {
        self.read_line(path).ok()?.parse().ok()
    }

    fn read_file(&self, path: &str) -> Result<Vec<u8>> {
        self.count_operation();
        self.files.read(path).map_err(Error::on(Operation::Read, path))
    }

    /// Lists the names in a directory, sorted.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn list(&self, path: &str) -> Result<Vec<String>> {
        let names = self.entries(path, Listed::All);
        let mut names = self.log_result(Operation::Read, path, None, names)?;
        if !self.live {
            names.retain(|name| name != GIT_KEEP);
        }
        if let Some(recorder) = &self.recorder {
            recorder.save_dir(path);
        }
        Ok(names)
    }

    /// Lists the subdirectories of a directory of groups, sorted.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn list_directories(&self, path: &str) -> Result<Vec<String>> {
        let names = self.entries(path, Listed::Directories);
        self.log_result(Operation::Read, path, None, names)
    }

    /// Lists the names in a directory, sorted.
    fn entries(&self, path: &str, listed: Listed) -> Result<Vec<String>> {
        self.recorded_error(Operation::Read, path)?;
        self.count_operation();
        let names = self.files.list(path, listed);
        let mut names = names.map_err(Error::on(Operation::Read, path))?;
        names.sort();
        Ok(names)
    }

    /// Reads a symbolic link.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn read_link(&self, path: &str) -> Result<String> {
        self.count_operation();
        let target = self
            .recorded_error(Operation::Read, path)
            .and_then(|()| self.files.read_link(path).map_err(Error::on(Operation::Read, path)));
        let target = self.log_result(Operation::Read, path, None, target)?;
        if let Some(recorder) = &self.recorder {
            recorder.save_link(path);
        }
        Ok(target)
    }

    /// The online CPUs.
    ///
    /// # Errors
    /// The kernel's error, or the file does not contain a CPU list.
    pub fn online_cpus(&self) -> Result<CpuSet> {
        let path = "/sys/devices/system/cpu/online";
        let text = self.read_line(path)?;
        text.parse().map_err(|_| Error::malformed(path, 1, "a CPU list", &text))
    }

    /// Whether a path exists.
    #[must_use]
    pub fn exists(&self, path: &str) -> bool {
        self.count_operation();
        let found = self.files.is_dir(path);
        if let (Some(is_dir), Some(recorder)) = (found, &self.recorder) {
            let kind = if is_dir { PresentKind::Directory } else { PresentKind::File };
            recorder.save_presence(path, kind);
        }
        found.is_some()
    }

    /// Whether this machine can be changed. A recording cannot.
    #[must_use]
    pub fn can_change(&self) -> bool {
        self.live || self.kernel.is_some()
    }

    /// Counts a write and permits it. Every write of any kind calls this first.
    pub(crate) fn before_write(&self, verb: Operation, path: &str) -> Result<()> {
        self.count_operation();
        let n = self.writes.fetch_add(1, Ordering::Relaxed);
        let permitted = match &self.kernel {
            Some(kernel) => kernel.permit(self, n, verb, path),
            None if self.live => Ok(()),
            None => Err(Error::os(verb, path, libc::EROFS)),
        };
        match permitted {
            Ok(()) => Ok(()),
            refused => self.log_result(verb, path, None, refused),
        }
    }

    /// Writes a value to an existing kernel file, in one write. An empty value is written as a line
    /// end, because a write of no bytes changes nothing.
    ///
    /// # Errors
    /// The kernel's error, with the value.
    pub fn write(&self, path: &str, value: &str) -> Result<()> {
        self.before_write(Operation::Write, path).map_err(|e| e.with_value(value))?;
        let answer = self.write_permitted(path, value).map_err(|e| e.with_value(value));
        self.log_result(Operation::Write, path, Some(value), answer)
    }

    fn write_permitted(&self, path: &str, value: &str) -> Result<()> {
        if let Some(kernel) = &self.kernel {
            return kernel.write(self, path, value);
        }
        let bytes = if value.is_empty() { "\n" } else { value };
        let mut file = open(&self.local_path(path), OFlags::WRONLY)
            .map_err(Error::on(Operation::Write, path))?;
        file.write_all(bytes.as_bytes()).map_err(Error::on(Operation::Write, path))
    }

    /// A writer for many values to one kernel file, one write each.
    #[must_use]
    pub fn writer<'a>(&'a self, path: &'a str) -> FileWriter<'a> {
        FileWriter { host: self, path, file: None }
    }

    /// Creates a directory (a cgroup, a tracing instance); its parent must exist.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn make_dir(&self, path: &str) -> Result<()> {
        self.before_write(Operation::MakeDir, path)?;
        let created = self.files.make_dir(path).map_err(Error::on(Operation::MakeDir, path));
        self.log_result(Operation::MakeDir, path, None, created)?;
        self.kernel.as_ref().map_or(Ok(()), |kernel| kernel.fill_dir(self, path))
    }

    /// Removes an empty directory (a cgroup without tasks counts as empty).
    ///
    /// # Errors
    /// The kernel's error.
    pub fn remove_dir(&self, path: &str) -> Result<()> {
        self.before_write(Operation::Remove, path)?;
        self.kernel.as_ref().map_or(Ok(()), |kernel| kernel.empty_dir(self, path))?;
        let removed = self.files.remove_dir(path).map_err(Error::on(Operation::Remove, path));
        self.log_result(Operation::Remove, path, None, removed)
    }

    /// Removes a file of this project (a systemd drop-in, a state file).
    ///
    /// # Errors
    /// The kernel's error.
    pub fn remove_file(&self, path: &str) -> Result<()> {
        self.before_write(Operation::Remove, path)?;
        let removed = self.files.remove_file(path).map_err(Error::on(Operation::Remove, path));
        self.log_result(Operation::Remove, path, None, removed)
    }
}
