//! Real-time tasks of user space that never sleep. They starve the ordinary threads of their CPU,
//! including kworkers, and every task that waits for one of those.

use crate::error::Result;
use crate::host::Host;
use crate::processes::task::Task;
use crate::sys::sched_policy::SchedPolicy;
use std::fmt;
use std::time::Duration;

/// The time between two checks of a task: many periods of any cyclic task.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// A real-time task that did not sleep between two checks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RtHog {
    /// The task; its `cpu` is the one it occupies.
    pub task: Task,
    /// Its policy.
    pub policy: SchedPolicy,
}

impl fmt::Display for RtHog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}, {})", self.task.comm, self.task.id.tid, self.policy)
    }
}

impl Host {
    /// The tasks that occupy a CPU: runnable at two checks, on the same CPU, and not asleep in
    /// between. Takes no time if no real-time task runs.
    ///
    /// # Errors
    /// `/proc` cannot be read.
    pub fn hogs(&self) -> Result<Vec<RtHog>> {
        self.tasks().map(|tasks| self.hogs_among(&tasks))
    }

    /// Like [`Host::hogs`], for tasks that were listed a moment ago.
    #[must_use]
    pub fn hogs_among(&self, tasks: &[Task]) -> Vec<RtHog> {
        let mut seen = Vec::new();
        for task in tasks {
            if let Some(policy) = self.endless_policy(task) {
                let slept = self.times_slept(task);
                seen.push((RtHog { task: task.clone(), policy }, slept));
            }
        }
        if !seen.is_empty() && self.is_live() {
            std::thread::sleep(LOOK_AGAIN);
        }
        seen.retain(|(hog, slept)| {
            let now = self.task(hog.task.pid, hog.task.id.tid);
            now.is_ok_and(|now| {
                now.id == hog.task.id && now.state == 'R' && now.cpu == hog.task.cpu
            }) && self.times_slept(&hog.task) == *slept
        });
        seen.into_iter().map(|(hog, _)| hog).collect()
    }

    /// The policy of a runnable task if it may run without end. A deadline task may not, unless its
    /// budget is its whole period.
    fn endless_policy(&self, task: &Task) -> Option<SchedPolicy> {
        // SCHED_FIFO, SCHED_RR and SCHED_DEADLINE (include/uapi/linux/sched.h, 6.12).
        if task.kthread || task.state != 'R' || !matches!(task.policy, 1 | 2 | 6) {
            return None;
        }
        match self.scheduling(task.id.tid).ok()? {
            SchedPolicy::Deadline { runtime_ns, period_ns, .. } if runtime_ns < period_ns => None,
            policy => Some(policy),
        }
    }

    /// How often a task has gone to sleep by itself. Preemptions do not count, because kernel
    /// threads of a higher priority cause them too.
    fn times_slept(&self, task: &Task) -> Option<u64> {
        let listed = format!("/proc/{}/task/{}/status", task.pid, task.id.tid);
        let path = if self.exists(&listed) { listed } else { self.status_path(task.id.tid) };
        let text = self.read(&path).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        line?.trim().parse().ok()
    }
}
