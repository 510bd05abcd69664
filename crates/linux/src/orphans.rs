//! Processes whose parent ended before them. A program that forks twice leaves one behind that
//! nobody waits for; here it becomes a child of this process (`PR_SET_CHILD_SUBREAPER`, prctl(2)),
//! which ends it together with the program. Whether the kernel has cgroups of any version does not
//! matter.
//!
//! Elsewhere: what a person is told.

use crate::host::Host;
use crate::process;
use crate::task::Task;
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::time::Duration;

/// How long a process has for what it does when it is asked to end.
const ASKED: Duration = Duration::from_secs(2);
/// How long it is killed after that: one that waits for a disk or a device may take a while.
const KILLED: Duration = Duration::from_secs(3);
const PAUSE: Duration = Duration::from_millis(20);

/// What became of the processes that were left behind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LeftBehind {
    /// Those that were there and are ended: number and name.
    pub ended: Vec<(i32, String)>,
    /// Those that are still there.
    pub there: Vec<(i32, String)>,
}

/// The descendants of this process that were not its own doing.
#[derive(Debug)]
pub struct OrphanTracker {
    /// Children of before, which have nothing to do with it.
    before: BTreeSet<i32>,
}

impl OrphanTracker {
    /// From now on whoever loses its parent among the descendants of this process becomes its
    /// child.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn adopt() -> io::Result<OrphanTracker> {
        // SAFETY: this operation takes a number and no pointers.
        if unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1) } != 0 {
            return Err(io::Error::last_os_error());
        }
        let children = family(&Host::live()).into_iter();
        Ok(OrphanTracker { before: children.map(|task| task.pid).collect() })
    }

    /// Lets those go that have ended: their numbers would be missing in a long watch. `child` is
    /// waited for by somebody else.
    pub fn bury(&self, child: i32) {
        while let Some(pid) = has_ended().filter(|pid| *pid != child && !self.before.contains(pid))
        {
            if process::ended(pid).is_err() {
                return;
            }
        }
    }

    /// Ends all that are there, by SIGTERM and then by SIGKILL; returns within some seconds.
    #[must_use]
    pub fn end(&self) -> LeftBehind {
        let host = Host::live();
        let mut told: Vec<(i32, String)> = Vec::new();
        let rounds = |span: Duration| span.as_millis() / PAUSE.as_millis();
        for round in 0..rounds(ASKED + KILLED) {
            let there = self.there(&host);
            if there.is_empty() {
                break;
            }
            for task in there {
                let new = told.iter().all(|(pid, _)| *pid != task.pid);
                if round >= rounds(ASKED) {
                    let _ = process::kill(task.pid, libc::SIGKILL);
                } else if new {
                    let _ = process::kill(task.pid, libc::SIGTERM);
                    // One that was stopped hears it when it goes on.
                    let _ = process::kill(task.pid, libc::SIGCONT);
                }
                if new {
                    told.push((task.pid, task.comm));
                }
            }
            std::thread::sleep(PAUSE);
        }
        let there = self.there(&host);
        let is_there = |(pid, _): &(i32, String)| there.iter().any(|task| task.pid == *pid);
        let (there, ended) = told.into_iter().partition(is_there);
        LeftBehind { ended, there }
    }

    /// Those that run, this program's own processes left out.
    fn there(&self, host: &Host) -> Vec<Task> {
        let own = fs::read_link("/proc/self/exe").ok();
        let is_own = |pid: i32| fs::read_link(format!("/proc/{pid}/exe")).ok() == own;
        let mut found = family(host);
        for task in found.iter().filter(|task| task.has_ended()) {
            // Only a child can be waited for; for all others this does nothing.
            let _ = process::ended(task.pid);
        }
        found.retain(|task| {
            !task.has_ended() && !self.before.contains(&task.pid) && !is_own(task.pid)
        });
        found
    }
}

/// The descendants of this process.
fn family(host: &Host) -> Vec<Task> {
    let tasks = host.tasks().unwrap_or_default();
    let mut parents = BTreeSet::from([i32::try_from(std::process::id()).unwrap_or(i32::MAX)]);
    let mut found: Vec<Task> = Vec::new();
    loop {
        let more: Vec<Task> = tasks
            .iter()
            .filter(|it| it.pid == it.id.tid && parents.contains(&it.parent))
            .filter(|it| found.iter().all(|known| known.pid != it.pid))
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
fn has_ended() -> Option<i32> {
    // SAFETY: an all-zero siginfo is a valid value; the call writes at most that one.
    let (answer, pid) = unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        let how = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
        (libc::waitid(libc::P_ALL, 0, &raw mut info, how), info.si_pid())
    };
    (answer == 0 && pid != 0).then_some(pid)
}
