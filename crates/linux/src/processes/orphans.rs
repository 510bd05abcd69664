//! Processes whose parent ended before them. A program that forks twice leaves a process behind
//! that nothing waits for. Here it becomes a child of this process (`PR_SET_CHILD_SUBREAPER`,
//! prctl(2)), which ends it together with the program. This works with and without cgroups of any
//! version.
//!
//! Elsewhere: what is reported to the user.

use crate::host::Host;
use crate::process;
use crate::task::Task;
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::time::Duration;

/// How long a process may take to end after SIGTERM.
const TERM_TIME: Duration = Duration::from_secs(2);
/// How long SIGKILL is repeated after that: a process that waits for a disk or a device may take a
/// while to end.
const KILL_TIME: Duration = Duration::from_secs(3);
const PAUSE: Duration = Duration::from_millis(20);

/// The processes that a program left behind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LeftBehind {
    /// Those that were ended: process ID and name.
    pub ended: Vec<(i32, String)>,
    /// Those that still run.
    pub running: Vec<(i32, String)>,
}

/// Tracks the descendants of this process that it did not start itself.
#[derive(Debug)]
pub struct OrphanTracker {
    /// Children that existed before, and are left alone.
    before: BTreeSet<i32>,
}

impl OrphanTracker {
    /// Makes this process the parent of all its descendants that lose theirs from now on.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn adopt() -> io::Result<OrphanTracker> {
        // Any process ID enables it.
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
        let before = descendants(&Host::live()).into_iter().map(|task| task.pid).collect();
        Ok(OrphanTracker { before })
    }

    /// Reaps orphans that have ended, so that they do not use up process IDs in a long run. `child`
    /// is left to its own waiter.
    pub fn reap(&self, child: i32) {
        while let Some(pid) =
            ended_child().filter(|pid| *pid != child && !self.before.contains(pid))
        {
            if process::try_wait(pid).is_err() {
                return;
            }
        }
    }

    /// Ends all orphans, by SIGTERM and then by SIGKILL. Returns after some seconds at most.
    #[must_use]
    pub fn end(&self) -> LeftBehind {
        let host = Host::live();
        let mut signalled: Vec<(i32, String)> = Vec::new();
        for round in 0..rounds(TERM_TIME + KILL_TIME) {
            let orphans = self.orphans(&host);
            if orphans.is_empty() {
                break;
            }
            for task in orphans {
                let is_new = signalled.iter().all(|(pid, _)| *pid != task.pid);
                if round >= rounds(TERM_TIME) {
                    let _ = process::kill(task.pid, libc::SIGKILL);
                } else if is_new {
                    let _ = process::kill(task.pid, libc::SIGTERM);
                    // A stopped process handles the signal only when it continues.
                    let _ = process::kill(task.pid, libc::SIGCONT);
                }
                if is_new {
                    signalled.push((task.pid, task.comm));
                }
            }
            std::thread::sleep(PAUSE);
        }
        let left = self.orphans(&host);
        let (running, ended) =
            signalled.into_iter().partition(|(pid, _)| left.iter().any(|task| task.pid == *pid));
        LeftBehind { ended, running }
    }

    /// The orphans that run, except for processes of this program.
    fn orphans(&self, host: &Host) -> Vec<Task> {
        let program = fs::read_link("/proc/self/exe").ok();
        let mut found = descendants(host);
        for task in found.iter().filter(|task| task.has_ended()) {
            // Only a child can be waited for; for all others this does nothing.
            let _ = process::try_wait(task.pid);
        }
        found.retain(|task| {
            !task.has_ended()
                && !self.before.contains(&task.pid)
                && fs::read_link(format!("/proc/{}/exe", task.pid)).ok() != program
        });
        found
    }
}

fn rounds(span: Duration) -> u128 {
    span.as_millis() / PAUSE.as_millis()
}

/// The descendants of this process.
fn descendants(host: &Host) -> Vec<Task> {
    let tasks = host.tasks().unwrap_or_default();
    let mut parents = BTreeSet::from([i32::try_from(std::process::id()).unwrap_or(i32::MAX)]);
    let mut found: Vec<Task> = Vec::new();
    loop {
        let more: Vec<Task> = tasks
            .iter()
            .filter(|task| task.pid == task.id.tid && parents.contains(&task.parent))
            .filter(|task| found.iter().all(|known| known.pid != task.pid))
            .cloned()
            .collect();
        if more.is_empty() {
            return found;
        }
        parents.extend(more.iter().map(|task| task.pid));
        found.extend(more);
    }
}

/// A child that has ended and was not waited for.
fn ended_child() -> Option<i32> {
    // `WaitIdStatus` of rustix does not have the process ID.
    // SAFETY: an all-zero siginfo is a valid value; the call writes at most that one.
    let (answer, pid) = unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
        (libc::waitid(libc::P_ALL, 0, &raw mut info, flags), info.si_pid())
    };
    (answer == 0 && pid != 0).then_some(pid)
}
