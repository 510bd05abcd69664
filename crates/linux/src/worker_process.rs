//! Further processes of this program. A [`WorkerProcess`] is started with hidden words and talked
//! to in lines; it exists where a job needs memory or a cgroup of its own. A [`ChildCommand`] runs
//! a subcommand beside this one and is only started, looked at and ended.
//!
//! Elsewhere: what the lines or words say.

use crate::orphans::{LeftBehind, OrphanTracker};
use std::ffi::OsString;
use std::io::{self, BufRead, Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// One line may not be longer: a line is one small document.
const LINE_BYTES_MAX: usize = 16 << 20;

/// The other process, as its maker sees it.
#[derive(Debug)]
pub struct WorkerProcess {
    child: Child,
    to: Option<ChildStdin>,
    from: ChildStdout,
    heard: Vec<u8>,
}

impl WorkerProcess {
    /// Starts this program again with these words. It gets a process group of its own, so that a
    /// Ctrl-C meant for its maker does not end it before it has told what it knows.
    ///
    /// # Errors
    /// The program cannot be started.
    pub fn start(words: &[&str]) -> io::Result<WorkerProcess> {
        let mut child = Command::new("/proc/self/exe")
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .process_group(0)
            .spawn()?;
        match (child.stdin.take(), child.stdout.take()) {
            (to @ Some(_), Some(from)) => Ok(WorkerProcess { child, to, from, heard: Vec::new() }),
            _ => Err(io::Error::from(io::ErrorKind::BrokenPipe)),
        }
    }

    /// Its process number.
    #[must_use]
    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap_or(i32::MAX)
    }

    /// Says one line.
    ///
    /// # Errors
    /// It is gone.
    pub fn tell(&mut self, line: &str) -> io::Result<()> {
        match &mut self.to {
            Some(to) => to.write_all(format!("{line}\n").as_bytes()),
            None => Err(io::Error::from(io::ErrorKind::BrokenPipe)),
        }
    }

    /// Waits for one line.
    ///
    /// # Errors
    /// It is gone, or says nothing in that time (`TimedOut`).
    pub fn hear(&mut self, wait: Duration) -> io::Result<String> {
        let until = Instant::now() + wait;
        let mut chunk = vec![0; 64 << 10];
        loop {
            if let Some(end) = self.heard.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.heard.drain(..=end).collect();
                return Ok(String::from_utf8_lossy(&line).trim_end().to_owned());
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || self.heard.len() > LINE_BYTES_MAX {
                return Err(io::Error::from(io::ErrorKind::TimedOut));
            }
            if readable(self.from.as_raw_fd(), left)? {
                match self.from.read(&mut chunk)? {
                    0 => return Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
                    n => self.heard.extend_from_slice(chunk.get(..n).unwrap_or_default()),
                }
            }
        }
    }
}

impl Drop for WorkerProcess {
    fn drop(&mut self) {
        // The end of its input tells it to end; what does not listen is killed.
        self.to = None;
        for _ in 0..100 {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        // It is our child and was not waited for, so the number is still its own.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A subcommand that runs beside this one, with all that it starts.
#[derive(Debug)]
pub struct ChildCommand {
    child: Child,
    orphans: OrphanTracker,
}

impl ChildCommand {
    /// Starts this program again with these words. Its standard output goes to standard error, as
    /// standard output is for this process's result; it gets a process group of its own, so that
    /// whoever ends it can hear the other witnesses first.
    ///
    /// # Errors
    /// The program cannot be started.
    pub fn start(words: &[OsString]) -> io::Result<ChildCommand> {
        let errors = io::stderr().as_fd().try_clone_to_owned()?;
        let orphans = OrphanTracker::adopt()?;
        let child = Command::new("/proc/self/exe")
            .args(words)
            .stdin(Stdio::null())
            .stdout(errors)
            .process_group(0)
            .spawn()?;
        Ok(ChildCommand { child, orphans })
    }

    /// Its process number.
    #[must_use]
    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap_or(i32::MAX)
    }

    /// How it ended, in words; `None` while it runs.
    pub fn ended(&mut self) -> Option<String> {
        self.orphans.reap(self.pid());
        self.child.try_wait().ok().flatten().map(|status| status.to_string())
    }
}

impl ChildCommand {
    /// Ends it, and all that it started and left behind.
    pub fn end(&mut self) -> LeftBehind {
        self.end_child();
        self.orphans.end()
    }

    fn end_child(&mut self) {
        if self.ended().is_some() {
            return;
        }
        // SAFETY: a system call without pointers, on a child that was not waited for yet.
        unsafe { libc::kill(self.pid(), libc::SIGTERM) };
        for _ in 0..400 {
            if self.ended().is_some() {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for ChildCommand {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

/// Whether there is something to read, within this time; an interrupting signal counts as no.
fn readable(fd: i32, wait: Duration) -> io::Result<bool> {
    let mut asked = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    let wait = libc::c_int::try_from(wait.as_millis().max(1)).unwrap_or(libc::c_int::MAX);
    // SAFETY: one pollfd, valid for reads and writes.
    match unsafe { libc::poll(&raw mut asked, 1, wait) } {
        -1 if io::Error::last_os_error().kind() != io::ErrorKind::Interrupted => {
            Err(io::Error::last_os_error())
        }
        n => Ok(n > 0),
    }
}

/// The companion's own side.
#[derive(Debug, Default)]
pub struct WorkerEnd(());

impl WorkerEnd {
    /// Takes up the duty: this process ends when its maker does.
    #[must_use]
    pub fn take_up() -> WorkerEnd {
        // SAFETY: a system call without pointers.
        unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0) };
        WorkerEnd(())
    }

    /// The next line from the maker; `None` when there will be no more.
    #[must_use]
    pub fn next(&self) -> Option<String> {
        let mut line = String::new();
        match io::stdin().lock().read_line(&mut line) {
            Ok(n) if n > 0 => Some(line.trim_end().to_owned()),
            _ => None,
        }
    }

    /// Answers with one line.
    ///
    /// # Errors
    /// The maker is gone.
    pub fn answer(&self, line: &str) -> io::Result<()> {
        let mut out = io::stdout().lock();
        out.write_all(format!("{line}\n").as_bytes())?;
        out.flush()
    }
}
