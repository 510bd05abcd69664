//! Other processes of this program. A [`WorkerProcess`] is started with hidden arguments and
//! exchanges lines with its parent; it exists where a job needs separate memory or a cgroup. A
//! [`ChildCommand`] runs a subcommand next to this one, and is only started, observed and ended.
//!
//! Elsewhere: what the lines or arguments mean.

use crate::host::Host;
use crate::processes::open_files::new_command;
use crate::processes::orphans::{LeftBehind, OrphanTracker};
use crate::processes::process;
use crate::sys::input_poll::wait_for_input;
use crate::sys::signal;
use rustix::process::{Signal, set_parent_process_death_signal};
use std::ffi::OsString;
use std::io::{self, BufRead, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// The maximum length of a line; a line is one small document.
const LINE_BYTES_MAX: usize = 16 << 20;

/// How long to wait for a reply after this process was asked to stop. What was measured until then
/// should still arrive; a worker that hangs must not hold up the end.
const STOPPED_WAIT: Duration = Duration::from_secs(10);

/// How often a wait looks for a stop request, which may arrive on another thread.
const STOP_CHECK: Duration = Duration::from_secs(1);

/// The parent's end of a worker process.
#[derive(Debug)]
pub struct WorkerProcess {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: ChildStdout,
    received: Vec<u8>,
}

impl WorkerProcess {
    /// Starts this program again with these arguments. It gets a separate process group, so that a
    /// Ctrl-C for its parent does not end it before it has sent its results.
    ///
    /// # Errors
    /// The program cannot be started.
    pub fn start(host: &Host, words: &[OsString]) -> io::Result<WorkerProcess> {
        let started = new_command("/proc/self/exe")
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .process_group(0)
            .spawn();
        host.log_own_command(words, started.as_ref().err());
        let mut child = started?;
        match (child.stdin.take(), child.stdout.take()) {
            (stdin @ Some(_), Some(stdout)) => {
                Ok(WorkerProcess { child, stdin, stdout, received: Vec::new() })
            }
            _ => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    /// Its process ID.
    #[must_use]
    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap_or(i32::MAX)
    }

    /// Sends one line.
    ///
    /// # Errors
    /// It is gone.
    pub fn send(&mut self, line: &str) -> io::Result<()> {
        match &mut self.stdin {
            Some(stdin) => stdin.write_all(format!("{line}\n").as_bytes()),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    /// Waits for a line from the process; at most ten seconds after this process was asked to stop.
    ///
    /// # Errors
    /// It is gone, or sends no line in that time (`TimedOut`).
    pub fn receive(&mut self, wait: Duration) -> io::Result<String> {
        let mut until = Instant::now() + wait;
        let mut stopping = false;
        let mut chunk = vec![0; 64 << 10];
        loop {
            if let Some(end) = self.received.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.received.drain(..=end).collect();
                return Ok(String::from_utf8_lossy(&line).trim_end().to_owned());
            }
            let now = Instant::now();
            if !stopping && signal::stopped_by().is_some() {
                stopping = true;
                until = until.min(now + STOPPED_WAIT);
            }
            let left = until.saturating_duration_since(now);
            if left.is_zero() || self.received.len() > LINE_BYTES_MAX {
                return Err(io::ErrorKind::TimedOut.into());
            }
            if is_readable(&self.stdout, left.min(STOP_CHECK))? {
                match self.stdout.read(&mut chunk)? {
                    0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                    n => self.received.extend_from_slice(chunk.get(..n).unwrap_or_default()),
                }
            }
        }
    }
}

impl Drop for WorkerProcess {
    fn drop(&mut self) {
        // A process that does not end at the end of its input is killed.
        self.stdin = None;
        for _ in 0..100 {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        // It is our child and was not waited for, so the process ID is still its own.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A subcommand that runs next to this one, with all processes that it starts.
#[derive(Debug)]
pub struct ChildCommand {
    child: Child,
    orphans: OrphanTracker,
}

impl ChildCommand {
    /// Starts this program again with these arguments. Its standard output goes to standard error,
    /// because standard output is for the result of this process. It gets a separate process group,
    /// so that it does not end with Ctrl-C before the other witnesses were read.
    ///
    /// # Errors
    /// The program cannot be started.
    pub fn start(host: &Host, words: &[OsString]) -> io::Result<ChildCommand> {
        let started = ChildCommand::spawn(words);
        host.log_own_command(words, started.as_ref().err());
        started
    }

    fn spawn(words: &[OsString]) -> io::Result<ChildCommand> {
        let errors = io::stderr().as_fd().try_clone_to_owned()?;
        let orphans = OrphanTracker::adopt()?;
        let child = new_command("/proc/self/exe")
            .args(words)
            .stdin(Stdio::null())
            .stdout(errors)
            .process_group(0)
            .spawn()?;
        Ok(ChildCommand { child, orphans })
    }

    /// Its process ID.
    #[must_use]
    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap_or(i32::MAX)
    }

    /// The threads of it and of all processes that it started.
    #[must_use]
    pub fn threads(&self, host: &Host) -> Vec<i32> {
        self.orphans.threads(host)
    }

    /// How it ended; `None` while it runs.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.orphans.reap(self.pid());
        self.child.try_wait().ok().flatten()
    }
}

impl ChildCommand {
    /// Ends it, together with the processes that it started and left behind.
    pub fn end(&mut self) -> LeftBehind {
        self.end_child();
        self.orphans.end()
    }

    fn end_child(&mut self) {
        if self.ended().is_some() {
            return;
        }
        // It was not waited for yet, so the process ID is still its own.
        let _ = process::terminate(self.pid());
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

/// Waits until there is something to read; returns false after this time or an interrupting signal.
fn is_readable(file: &impl AsFd, wait: Duration) -> io::Result<bool> {
    match wait_for_input(file, wait) {
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(false),
        seen => Ok(!seen?.is_empty()),
    }
}

/// The worker's own end.
#[derive(Debug, Default)]
pub struct WorkerEnd(());

impl WorkerEnd {
    /// Makes this process end with its parent.
    #[must_use]
    pub fn start() -> WorkerEnd {
        let _ = set_parent_process_death_signal(Some(Signal::KILL));
        WorkerEnd(())
    }

    /// The next line from the parent; `None` if there will be no more.
    #[must_use]
    pub fn next(&self) -> Option<String> {
        let mut line = String::new();
        match io::stdin().lock().read_line(&mut line) {
            Ok(n) if n > 0 => Some(line.trim_end().to_owned()),
            _ => None,
        }
    }

    /// Sends one line to the parent.
    ///
    /// # Errors
    /// The parent is gone.
    pub fn answer(&self, line: &str) -> io::Result<()> {
        let mut out = io::stdout().lock();
        out.write_all(format!("{line}\n").as_bytes())?;
        out.flush()
    }
}
