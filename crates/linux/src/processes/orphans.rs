//! Processes whose parent ended before them. A program that forks twice leaves a process behind
//! that nothing waits for. Here it becomes a child of this process (`PR_SET_CHILD_SUBREAPER`,
//! prctl(2)), which ends it together with the program. This works with and without cgroups of any
//! version.
//!
//! Elsewhere: what is reported to the user.

use crate::host::Host;
use crate::processes::process;
use crate::processes::task::Task;
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

    /// The threads of all descendants that were not there before, with any parent.
    #[must_use]
    pub fn threads(&self, host: &Host) -> Vec<i32> {
        let mut threads = Vec::new();
        let own = i32::try_from(std::process::id()).unwrap_or(i32::MAX);
        let mut left = child_processes(host, own).unwrap_or_else(|| {
            // The kernel has no such file without CONFIG_PROC_CHILDREN.
            descendants(host).into_iter().map(|task| task.pid).collect()
        });
        let mut known: BTreeSet<i32> = self.before.clone();
        while let Some(pid) = left.pop() {
            if known.insert(pid) {
                threads.extend(host.thread_ids(pid).unwrap_or_default());
                left.extend(child_processes(host, pid).unwrap_or_default());
            }
        }
        threads
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
                    let _ = process::terminate(task.pid);
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

/// The processes that the threads of a process have started (proc_tid_children(5)); `None` if the
/// kernel does not list them, or the process has ended.
fn child_processes(host: &Host, pid: i32) -> Option<Vec<i32>> {
    let mut children = Vec::new();
    let mut is_known = false;
    for tid in host.thread_ids(pid).unwrap_or_default() {
        if let Ok(text) = host.read(&format!("/proc/{pid}/task/{tid}/children")) {
            is_known = true;
            children.extend(text.split_whitespace().filter_map(|pid| pid.parse::<i32>().ok()));
        }
    }
    is_known.then_some(children)
}

fn rounds(span: Duration) -> u128 {
    span.as_millis() / PAUSE.as_millis()
}

/// Kills all descendants of this process.
pub fn kill_descendants(host: &Host) {
    for task in descendants(host) {
        // It may have ended just now.
        let _ = process::kill(task.pid, libc::SIGKILL);
    }
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
    // rustix 1.1 cannot answer this: the status of its `waitid` does not say which child ended, and
    // its `waitpid` has no WNOWAIT, so it would take the end of `child` from its own waiter.
    // SAFETY: an all-zero siginfo is a valid value; the call writes at most that one.
    let (answer, pid) = unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
        (libc::waitid(libc::P_ALL, 0, &raw mut info, flags), info.si_pid())
    };
    (answer == 0 && pid != 0).then_some(pid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn the_threads_of_children_of_a_wrapper_are_found() {
        let tracker = OrphanTracker::adopt().unwrap();
        let mut wrapper = Command::new("sh").args(["-c", "sleep 600 & wait"]).spawn().unwrap();
        let host = Host::live();
        let is_sleep = |tid: &i32| {
            host.read(&format!("/proc/{tid}/comm")).is_ok_and(|comm| comm.trim() == "sleep")
        };
        let mut sleep = None;
        for _ in 0..500 {
            sleep = tracker.threads(&host).into_iter().find(is_sleep);
            if sleep.is_some() {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let wrapper_id = i32::try_from(wrapper.id()).unwrap();
        assert!(tracker.threads(&host).contains(&wrapper_id));
        wrapper.kill().unwrap();
        wrapper.wait().unwrap();
        // It is an orphan now.
        let sleep = sleep.unwrap();
        assert!(tracker.threads(&host).contains(&sleep));
        process::kill(sleep, libc::SIGKILL).unwrap();
        process::try_wait(sleep).unwrap();
    }
}
