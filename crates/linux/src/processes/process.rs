//! Processes: fork, exec, wait, forwarded signals, and credentials.

use crate::error::{Error, Operation};
use crate::host::Host;
use crate::processes::open_files::new_command;
use rustix::io::{Errno, retry_on_intr};
use rustix::process::{
    Pid, Signal, WaitOptions, WaitStatus, set_parent_process_death_signal, waitpid,
};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProcessEnd {
    /// It exited with this status.
    Exited(u8),
    /// This signal killed it.
    Killed(i32),
}

impl ProcessEnd {
    /// The status that a shell shows: 128 + n for signal n.
    #[must_use]
    pub fn status(self) -> u8 {
        match self {
            ProcessEnd::Exited(status) => status,
            ProcessEnd::Killed(signal) => u8::try_from(128 + signal).unwrap_or(u8::MAX),
        }
    }
}

/// The user and groups of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Credentials {
    /// The user.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// Supplementary groups.
    pub groups: Vec<u32>,
}

/// A received signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReceivedSignal {
    /// The number of the signal.
    pub signal: i32,
    /// Whether a process sent it (`kill`) and not the kernel. A key at the terminal reaches the
    /// whole process group, so such a signal must not be forwarded as well.
    pub by_process: bool,
}

impl ReceivedSignal {
    /// Whether it asks the program to end.
    #[must_use]
    pub fn asks_to_end(&self) -> bool {
        [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT].contains(&self.signal)
    }
}

/// Signals that a waiting parent forwards to its child.
const FORWARDED: &[libc::c_int] = &[
    libc::SIGINT,
    libc::SIGTERM,
    libc::SIGHUP,
    libc::SIGQUIT,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGWINCH,
];

/// Makes a panic end this process with this status, after its message.
#[expect(clippy::exit, reason = "the caller of what panics cannot go on")]
pub fn exit_on_panic(status: u8) {
    let show = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        show(panic);
        std::process::exit(i32::from(status));
    }));
}

fn check(answer: libc::c_int) -> io::Result<libc::c_int> {
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(answer) }
}

fn check_one_thread() -> io::Result<()> {
    match std::fs::read_dir("/proc/self/task")?.count() {
        1 => Ok(()),
        _ => Err(io::Error::from_raw_os_error(libc::EBUSY)),
    }
}

/// Forks a child that runs `child` and exits with the status it returns. Its signal mask is that
/// from before `signals` was opened. All output must be flushed before: the child has a copy of the
/// buffers.
///
/// # Errors
/// The kernel's error; EBUSY if this process has more than one thread, because a lock held by
/// another thread would stay held in the child forever.
pub fn fork(signals: &SignalForwarder, child: impl FnOnce() -> u8) -> io::Result<i32> {
    check_one_thread()?;
    let child = || {
        signals.restore();
        child()
    };
    // SAFETY: there is one thread, so the child's copy of the memory is consistent, and it may do
    // everything that the parent may.
    Ok(unsafe { fork_child(child) }?.as_raw_nonzero().get())
}

/// Runs `observe` in a process that this one does not have to wait for, with its standard error
/// only.
///
/// # Errors
/// The kernel's error; EBUSY if this process has more than one thread.
pub fn start_observer(observe: impl FnOnce()) -> io::Result<()> {
    check_one_thread()?;
    let close = || {
        // SAFETY: nothing in the child uses these files.
        unsafe {
            libc::close(libc::STDIN_FILENO);
            libc::close(libc::STDOUT_FILENO);
        }
    };
    // SAFETY: there is one thread, so the copies of the memory are consistent.
    unsafe { fork_detached(close, observe) }
}

/// Forks a child of a child, which belongs to the first process and so is never left a zombie.
/// `prepare` runs in the child, `run` in its child.
///
/// # Errors
/// The kernel's error.
///
/// # Safety
/// As [`fork_child`].
pub(crate) unsafe fn fork_detached(prepare: impl FnOnce(), run: impl FnOnce()) -> io::Result<()> {
    let child = || {
        prepare();
        let run = || {
            run();
            0
        };
        // SAFETY: the caller promises that it may do what it does.
        u8::from(unsafe { fork_child(run) }.is_err())
    };
    // SAFETY: the same.
    match wait_for_child(unsafe { fork_child(child) }?)? {
        ProcessEnd::Exited(0) => Ok(()),
        _ => Err(io::Error::from_raw_os_error(libc::EAGAIN)),
    }
}

/// Forks a child that runs `child` and exits with the status it returns.
///
/// # Errors
/// The kernel's error.
///
/// # Safety
/// In a process with other threads, `child` only does what is allowed in a signal handler
/// (signal-safety(7)): a lock held by another thread stays held in the child forever.
pub(crate) unsafe fn fork_child(child: impl FnOnce() -> u8) -> io::Result<Pid> {
    // SAFETY: the caller promises that the child may do what it does.
    match check(unsafe { libc::fork() })? {
        0 => {
            let status = child();
            // SAFETY: ends the child at once; no buffer of the parent is flushed twice.
            unsafe { libc::_exit(i32::from(status)) }
        }
        pid => Ok(existing(pid)?),
    }
}

/// A process ID; ESRCH for a number that no process has.
fn existing(pid: i32) -> Result<Pid, Errno> {
    Pid::from_raw(pid.max(0)).ok_or(Errno::SRCH)
}

/// Makes a program get this signal when the thread that starts it ends.
pub(crate) fn signal_at_parent_death(command: &mut Command, signal: Signal) {
    let request = move || Ok(set_parent_process_death_signal(Some(signal))?);
    // SAFETY: between fork and exec it makes one system call and allocates nothing.
    unsafe { command.pre_exec(request) };
}

/// Checks that a program exists and may be executed, as far as is possible without executing it.
/// The name is looked up as by [`exec`].
///
/// # Errors
/// ENOENT or EACCES, as [`exec`] would get.
pub fn executable(program: &OsStr) -> io::Result<()> {
    let path = std::env::var_os("PATH");
    executable_in(program, path.as_deref().unwrap_or(OsStr::new("/bin:/usr/bin")))
}

fn executable_in(program: &OsStr, path: &OsStr) -> io::Result<()> {
    if program.as_encoded_bytes().contains(&b'/') {
        return check_executable(Path::new(program));
    }
    let mut worst = io::Error::from_raw_os_error(libc::ENOENT);
    for dir in std::env::split_paths(path) {
        match check_executable(&dir.join(program)) {
            Ok(()) => return Ok(()),
            // Like execvp: EACCES is returned only if no later directory has the program.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => worst = error,
            Err(_) => {}
        }
    }
    Err(worst)
}

fn check_executable(path: &Path) -> io::Result<()> {
    let metadata = std::fs::metadata(path)?;
    let is_executable = metadata.is_file() && metadata.permissions().mode() & 0o111 != 0;
    if is_executable { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::EACCES)) }
}

impl Host {
    /// Executes another program in this process; returns only if that fails. SIGPIPE, which this
    /// program ignores, is not ignored there. The name is looked up in `PATH` if it has no slash.
    #[must_use]
    pub fn exec(&self, command: &[impl AsRef<OsStr>], environment: &[(&str, String)]) -> io::Error {
        // A success does not return, so the line comes before it.
        if let Some(log) = &self.log {
            log.note("exec", &join_words(command));
        }
        let error = exec(command, environment);
        self.log_command(command, Some(&error));
        error
    }

    /// Starts this program again with these arguments, in a separate process group, with empty
    /// input and discarded output.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn spawn_self(&self, arguments: &[OsString]) -> io::Result<Child> {
        let mut command = new_command("/proc/self/exe");
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let started = command.process_group(0).spawn();
        self.log_own_command(arguments, started.as_ref().err());
        started
    }

    /// Logs another process of this program, or why it could not be started.
    pub(crate) fn log_own_command(&self, arguments: &[OsString], error: Option<&io::Error>) {
        self.log_command(&[&[OsString::from("cpushield")], arguments].concat(), error);
    }

    /// Logs a started program, or why it could not be started.
    pub(crate) fn log_command(&self, command: &[impl AsRef<OsStr>], error: Option<&io::Error>) {
        let Some(log) = &self.log else { return };
        let line = join_words(command).escape_debug().to_string();
        let answer = match error {
            None => Ok(()),
            Some(error) => {
                Err(Error::os(Operation::Call, &line, error.raw_os_error().unwrap_or(libc::EIO)))
            }
        };
        log.access(Operation::Call, &line, None, &answer);
    }
}

fn join_words(command: &[impl AsRef<OsStr>]) -> String {
    let words = command.iter().map(|word| word.as_ref().to_string_lossy());
    words.collect::<Vec<_>>().join(" ")
}

fn exec(command: &[impl AsRef<OsStr>], environment: &[(&str, String)]) -> io::Error {
    let Some((program, arguments)) = command.split_first() else {
        return io::Error::from_raw_os_error(libc::ENOENT);
    };
    // A command line cannot contain a zero byte; the standard library would return an error.
    let variables = environment.iter().map(|(name, value)| (*name, value.as_str()));
    new_command(program).args(arguments).envs(variables).exec()
}

/// Changes the user and groups of this process permanently.
///
/// # Errors
/// The kernel's error: EPERM without the privilege.
pub fn become_user(user: &Credentials) -> io::Result<()> {
    let Credentials { uid, gid, groups } = user;
    // By the C library, which changes all threads; the system calls change only the calling one.
    // SAFETY: the pointer is valid for as many entries as the call is given; the others take none.
    unsafe {
        check(libc::setgroups(groups.len(), groups.as_ptr()))?;
        check(libc::setresgid(*gid, *gid, *gid))?;
        check(libc::setresuid(*uid, *uid, *uid))?;
    }
    Ok(())
}

/// Whether the locale uses UTF-8. The first of these variables that is not empty counts
/// (locale(7)). Without any, the locale is `C`, which does not.
#[must_use]
pub fn locale_is_utf8() -> bool {
    let names = ["LC_ALL", "LC_CTYPE", "LANG"];
    let values = names.iter().filter_map(|name| std::env::var(name).ok());
    let locale = values.into_iter().find(|value| !value.is_empty()).unwrap_or_default();
    let locale = locale.to_ascii_lowercase();
    locale.ends_with("utf-8") || locale.ends_with("utf8")
}

/// The command line of this process, as one line.
#[must_use]
pub fn command_line() -> String {
    join_words(&arguments())
}

/// The variables of this process that choose the language of programs, as `NAME=VALUE`.
#[must_use]
pub fn locale_variables() -> Vec<String> {
    let names = ["LANG", "LANGUAGE", "LC_ALL", "LC_MESSAGES"].into_iter();
    names.filter_map(|name| Some(format!("{name}={}", std::env::var(name).ok()?))).collect()
}

/// Whether an environment variable of this process is set, also to nothing.
#[must_use]
pub fn has_variable(name: &str) -> bool {
    std::env::var_os(name).is_some()
}

/// The user that called this process through sudo(8); `None` without sudo.
#[must_use]
pub fn sudo_user() -> Option<u32> {
    std::env::var("SUDO_UID").ok()?.parse().ok()
}

/// The effective user of this process.
#[must_use]
pub fn effective_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// How a child ended, which is then reaped; `None` if it runs.
///
/// # Errors
/// The kernel's error: ECHILD if it is not a child.
pub fn try_wait(pid: i32) -> io::Result<Option<ProcessEnd>> {
    let pid = existing(pid).map_err(|_| Errno::CHILD)?;
    Ok(waitpid(Some(pid), WaitOptions::NOHANG)?.map(|(_, status)| process_end(status)))
}

/// Waits for the end of a child. Returns how it ended.
///
/// # Errors
/// The kernel's error: ECHILD if it is not a child.
pub(crate) fn wait_for_child(pid: Pid) -> io::Result<ProcessEnd> {
    let ended = retry_on_intr(|| waitpid(Some(pid), WaitOptions::empty()))?;
    // Without NOHANG there is always an answer.
    ended.map(|(_, status)| process_end(status)).ok_or_else(|| Errno::CHILD.into())
}

fn process_end(status: WaitStatus) -> ProcessEnd {
    match status.terminating_signal() {
        Some(signal) => ProcessEnd::Killed(signal),
        None => {
            let code = status.exit_status().unwrap_or_default();
            ProcessEnd::Exited(u8::try_from(code).unwrap_or(u8::MAX))
        }
    }
}

/// Sends a signal to one process.
///
/// # Errors
/// The kernel's error; EINVAL for a real-time signal.
pub fn kill(pid: i32, signal: i32) -> io::Result<()> {
    let signal = Signal::from_named_raw(signal).ok_or(Errno::INVAL)?;
    Ok(rustix::process::kill_process(existing(pid)?, signal)?)
}

/// Asks one process to end, with SIGTERM.
///
/// # Errors
/// The kernel's error.
pub fn terminate(pid: i32) -> io::Result<()> {
    kill(pid, libc::SIGTERM)
}

/// A queue of signals, from its opening until it is dropped: those that are forwarded to a child,
/// and SIGCHLD.
#[derive(Debug)]
pub struct SignalForwarder {
    set: libc::sigset_t,
    before: libc::sigset_t,
}

impl SignalForwarder {
    /// Opens the queue. Call this before the child starts, so that no signal is missed.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn open() -> io::Result<SignalForwarder> {
        // SAFETY: all-zero signal sets are valid values, and the calls write only to them.
        let (set, before) = unsafe {
            let mut set: libc::sigset_t = std::mem::zeroed();
            let mut before: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&raw mut set);
            for signal in FORWARDED.iter().chain(&[libc::SIGCHLD]) {
                libc::sigaddset(&raw mut set, *signal);
            }
            check(libc::sigprocmask(libc::SIG_BLOCK, &raw const set, &raw mut before))?;
            (set, before)
        };
        Ok(SignalForwarder { set, before })
    }

    /// Waits for the next signal. `None` after this time, when a child has ended or stopped, or
    /// when another signal was handled during the wait.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn next(&self, wait: Duration) -> io::Result<Option<ReceivedSignal>> {
        // SAFETY: an all-zero timespec and siginfo are valid values; the pointers are valid for the
        // call, which writes at most one siginfo.
        let (signal, code) = unsafe {
            let mut time: libc::timespec = std::mem::zeroed();
            // Any long time will do, because the caller waits again.
            time.tv_sec = wait.as_secs().try_into().unwrap_or(86_400);
            time.tv_nsec = wait.subsec_nanos().into();
            let mut info: libc::siginfo_t = std::mem::zeroed();
            let set = &raw const self.set;
            (libc::sigtimedwait(set, &raw mut info, &raw const time), info.si_code)
        };
        match check(signal) {
            Ok(libc::SIGCHLD) => Ok(None),
            // Codes of the kernel are positive, codes of processes are not (sigaction(2)).
            Ok(signal) => Ok(Some(ReceivedSignal { signal, by_process: code <= 0 })),
            Err(e) if matches!(e.raw_os_error(), Some(libc::EAGAIN | libc::EINTR)) => Ok(None),
            Err(e) => Err(e),
        }
    }
}

impl SignalForwarder {
    fn restore(&self) {
        // SAFETY: the pointer is valid for the read of one set. It cannot fail with SIG_SETMASK.
        unsafe {
            libc::sigprocmask(libc::SIG_SETMASK, &raw const self.before, std::ptr::null_mut())
        };
    }
}

impl Drop for SignalForwarder {
    fn drop(&mut self) {
        self.restore();
    }
}

/// The arguments of this program, its name first.
#[must_use]
pub fn arguments() -> Vec<OsString> {
    std::env::args_os().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_looked_up_as_by_exec() {
        let path = OsStr::new("/nonexistent:/proc/self:/bin:/usr/bin");
        let errno = |program: &str| {
            executable_in(OsStr::new(program), path).err().and_then(|error| error.raw_os_error())
        };
        assert_eq!(errno("sh"), None);
        assert_eq!(errno("/proc/self/exe"), None);
        for program in ["no-such-program", "/nonexistent/sh", "status", "/proc/self/status", "/"] {
            let error = Command::new(program).env("PATH", path).spawn().unwrap_err();
            assert_eq!(errno(program), error.raw_os_error(), "{program}");
        }
    }
}
