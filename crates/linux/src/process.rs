//! Processes: fork, exec, wait, signals passed on, and whose rights a program has.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProcessEnd {
    /// By itself, with this status.
    Exited(u8),
    /// By this signal.
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

/// Whose rights a program gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Credentials {
    /// The user.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// Supplementary groups.
    pub groups: Vec<u32>,
}

/// A signal that came in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReceivedSignal {
    /// Its number.
    pub signal: i32,
    /// Sent by a process (`kill`), not by the kernel: a key at the terminal reaches the whole
    /// process group, so it must not be passed on a second time.
    pub by_process: bool,
}

/// Signals that a waiting parent passes on to its child.
const PASSED_ON: &[libc::c_int] = &[
    libc::SIGINT,
    libc::SIGTERM,
    libc::SIGHUP,
    libc::SIGQUIT,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGWINCH,
];

fn answer(answer: libc::c_int) -> io::Result<libc::c_int> {
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(answer) }
}

/// Starts a child that runs `child` and ends with the status it returns. Its signals are those of
/// before the inbox was opened. All output must be written before: the child has a copy of what is
/// still buffered.
///
/// # Errors
/// The kernel's error; EBUSY when this process has more than one thread, because a lock held by
/// another thread would stay held in the child forever.
pub fn fork(inbox: &SignalForwarder, child: impl FnOnce() -> u8) -> io::Result<i32> {
    if std::fs::read_dir("/proc/self/task")?.count() != 1 {
        return Err(io::Error::from_raw_os_error(libc::EBUSY));
    }
    // SAFETY: there is one thread, so the child's copy of the memory is consistent and it may do
    // all that the parent may.
    match answer(unsafe { libc::fork() })? {
        0 => {
            inbox.restore();
            let status = child();
            // SAFETY: ends the child at once; nothing of the parent's is flushed twice.
            unsafe { libc::_exit(i32::from(status)) }
        }
        pid => Ok(pid),
    }
}

/// Whether there is such a program and it may be executed, as far as can be told without doing so.
/// The name is looked up as by [`exec`].
///
/// # Errors
/// ENOENT or EACCES, as [`exec`] would get.
pub fn executable(program: &OsStr) -> io::Result<()> {
    let path = std::env::var_os("PATH");
    executable_in(program, path.as_deref().unwrap_or(OsStr::new("/bin:/usr/bin")))
}

fn executable_in(program: &OsStr, path: &OsStr) -> io::Result<()> {
    let look = |at: &Path| {
        let found = std::fs::metadata(at)?;
        let runs = found.is_file() && found.permissions().mode() & 0o111 != 0;
        if runs { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::EACCES)) }
    };
    if program.as_encoded_bytes().contains(&b'/') {
        return look(Path::new(program));
    }
    let mut worst = io::Error::from_raw_os_error(libc::ENOENT);
    for dir in std::env::split_paths(path) {
        match look(&dir.join(program)) {
            Ok(()) => return Ok(()),
            // As execvp: what may not be executed is passed over, and told when nothing follows.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => worst = error,
            Err(_) => {}
        }
    }
    Err(worst)
}

/// Becomes another program; returns only when that fails. SIGPIPE, which this program ignores, is
/// not ignored there. The name is looked up in `PATH` when it has no slash.
#[must_use]
pub fn exec(command: &[impl AsRef<OsStr>], environment: &[(&str, String)]) -> io::Error {
    let Some((program, arguments)) = command.split_first() else {
        return io::Error::from_raw_os_error(libc::ENOENT);
    };
    // A zero byte can come from no command line; the library answers it with an error.
    let variables = environment.iter().map(|(name, value)| (*name, value.as_str()));
    Command::new(program).args(arguments).envs(variables).exec()
}

/// Takes the rights of this user, for good.
///
/// # Errors
/// The kernel's error: EPERM without the right to.
pub fn become_user(user: &Credentials) -> io::Result<()> {
    // SAFETY: the pointer is valid for as many entries as the call is told.
    answer(unsafe { libc::setgroups(user.groups.len(), user.groups.as_ptr()) })?;
    // SAFETY: the call takes no pointers.
    answer(unsafe { libc::setresgid(user.gid, user.gid, user.gid) })?;
    // SAFETY: the call takes no pointers.
    answer(unsafe { libc::setresuid(user.uid, user.uid, user.uid) }).map(drop)
}

/// Whether texts are shown in UTF-8, by the locale: the first of these variables that is not empty
/// counts (locale(7)). Without any the locale is `C`, which is not.
#[must_use]
pub fn speaks_utf8() -> bool {
    let names = ["LC_ALL", "LC_CTYPE", "LANG"];
    let set = names.iter().filter_map(|name| std::env::var(name).ok());
    let locale = set.into_iter().find(|value| !value.is_empty()).unwrap_or_default();
    let locale = locale.to_ascii_lowercase();
    locale.ends_with("utf-8") || locale.ends_with("utf8")
}

/// The words this process was started with, as one line.
#[must_use]
pub fn command_line() -> String {
    let words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
    words.collect::<Vec<_>>().join(" ")
}

/// The effective user of this process.
#[must_use]
pub fn effective_user() -> u32 {
    // SAFETY: the call takes no pointers and cannot fail.
    unsafe { libc::geteuid() }
}

/// How the child ended, if it has; it is then gone for good.
///
/// # Errors
/// The kernel's error: ECHILD when it is no child.
pub fn ended(pid: i32) -> io::Result<Option<ProcessEnd>> {
    let mut status = 0;
    // SAFETY: the pointer is valid for the write of one status.
    match answer(unsafe { libc::waitpid(pid, &raw mut status, libc::WNOHANG) })? {
        0 => Ok(None),
        _ if libc::WIFSIGNALED(status) => Ok(Some(ProcessEnd::Killed(libc::WTERMSIG(status)))),
        _ => {
            let code = libc::WEXITSTATUS(status) & 0xff;
            Ok(Some(ProcessEnd::Exited(u8::try_from(code).unwrap_or(u8::MAX))))
        }
    }
}

/// Sends a signal to one process.
///
/// # Errors
/// The kernel's error.
pub fn kill(pid: i32, signal: i32) -> io::Result<()> {
    // SAFETY: the call takes no pointers.
    answer(unsafe { libc::kill(pid, signal) }).map(drop)
}

/// Signals that wait to be asked for, from now until the value is dropped: those that are passed on
/// to a child, and the end of a child.
#[derive(Debug)]
pub struct SignalForwarder {
    set: libc::sigset_t,
    before: libc::sigset_t,
}

impl SignalForwarder {
    /// Opens it. To be done before the child starts, so that none is missed.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn open() -> io::Result<SignalForwarder> {
        // SAFETY: all-zero signal sets are valid values, and the calls write only to them.
        let (set, before) = unsafe {
            let mut set: libc::sigset_t = std::mem::zeroed();
            let mut before: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&raw mut set);
            for signal in PASSED_ON.iter().chain(&[libc::SIGCHLD]) {
                libc::sigaddset(&raw mut set, *signal);
            }
            answer(libc::sigprocmask(libc::SIG_BLOCK, &raw const set, &raw mut before))?;
            (set, before)
        };
        Ok(SignalForwarder { set, before })
    }

    /// The next signal, or `None` after the time, when a child has ended or stopped, or when
    /// another signal was handled meanwhile.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn next(&self, wait: Duration) -> io::Result<Option<ReceivedSignal>> {
        // SAFETY: an all-zero timespec and siginfo are valid values; the pointers are valid for the
        // call, which writes at most one siginfo.
        let (signal, code) = unsafe {
            let mut time: libc::timespec = std::mem::zeroed();
            // A day is as good as forever: the caller asks again.
            time.tv_sec = wait.as_secs().try_into().unwrap_or(86_400);
            time.tv_nsec = wait.subsec_nanos().into();
            let mut info: libc::siginfo_t = std::mem::zeroed();
            let set = &raw const self.set;
            (libc::sigtimedwait(set, &raw mut info, &raw const time), info.si_code)
        };
        match answer(signal) {
            Ok(libc::SIGCHLD) => Ok(None),
            // Codes of the kernel are positive, those of processes are not (sigaction(2)).
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

/// Starts this very program once more with these arguments, in a process group of its own, with
/// nothing to read and nowhere to write.
///
/// # Errors
/// The kernel's error.
pub fn spawn_self(arguments: &[&str]) -> io::Result<Child> {
    Command::new("/proc/self/exe")
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
}

/// The words of this program's command line, its name first.
#[must_use]
pub fn arguments() -> Vec<OsString> {
    std::env::args_os().collect()
}

/// This process is killed when its parent ends. False when the parent has ended already.
///
/// # Errors
/// The kernel's error.
pub fn die_with_parent(parent: i32) -> io::Result<bool> {
    // SAFETY: this operation takes a number and no pointers.
    answer(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) })?;
    // SAFETY: the call takes no pointers and cannot fail.
    Ok(unsafe { libc::getppid() } == parent)
}

/// Before 5.3 there is no `pidfd_open(2)`: looks now and then whether the process is there.
fn poll_for_end(pid: i32, most: Duration) -> bool {
    let until = std::time::Instant::now() + most;
    loop {
        // SAFETY: signal 0 is not sent; the call takes numbers and no pointers.
        if unsafe { libc::kill(pid, 0) } != 0 {
            return true;
        }
        if std::time::Instant::now() >= until {
            return false;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Waits until a process has ended. True when it did, false when `most` went by first. A process
/// that is not there has ended.
///
/// # Errors
/// The kernel's error.
pub fn wait_for_end(pid: i32, most: Duration) -> io::Result<bool> {
    // SAFETY: the call takes numbers and no pointers.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    if fd < 0 {
        let error = io::Error::last_os_error();
        return match error.raw_os_error() {
            Some(libc::ESRCH) => Ok(true),
            Some(libc::ENOSYS) => Ok(poll_for_end(pid, most)),
            _ => Err(error),
        };
    }
    let fd = i32::try_from(fd).map_err(io::Error::other)?;
    // SAFETY: the kernel has just given this descriptor to us, and nobody else knows it.
    let pidfd = unsafe { OwnedFd::from_raw_fd(fd) };
    let mut poll = libc::pollfd { fd: pidfd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    let ms = i32::try_from(most.as_millis()).unwrap_or(i32::MAX);
    // SAFETY: `poll` is valid for reads and writes of the one entry the call is told of.
    Ok(answer(unsafe { libc::poll(&raw mut poll, 1, ms) })? > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_found_as_exec_finds_it() {
        let path = OsStr::new("/nonexistent:/proc/self:/bin:/usr/bin");
        let answer = |program: &str| {
            executable_in(OsStr::new(program), path).err().and_then(|error| error.raw_os_error())
        };
        assert_eq!(answer("sh"), None);
        assert_eq!(answer("/proc/self/exe"), None);
        for program in ["no-such-program", "/nonexistent/sh", "status", "/proc/self/status", "/"] {
            let told = Command::new(program).env("PATH", path).spawn().unwrap_err();
            assert_eq!(answer(program), told.raw_os_error(), "{program}");
        }
    }
}
