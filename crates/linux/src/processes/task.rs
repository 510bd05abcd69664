//! Tasks: their identity, affinity and scheduling policy.
//!
//! A task is identified by its ID *and* its start time, because IDs are reused.

use crate::cpuset::CpuSet;
use crate::error::{Error, Operation, Result, present};
use crate::host::Host;
use crate::sys::sched_policy::SchedPolicy;
use procfs_core::FromRead;
use serde::{Deserialize, Serialize};

/// `PF_KTHREAD` and `PF_NO_SETAFFINITY` (include/linux/sched.h, 4.17 to 6.18: unchanged values).
const PF_KTHREAD: u32 = 0x0020_0000;
const PF_NO_SETAFFINITY: u32 = 0x0400_0000;

/// The identity of a task: its thread ID and its start time (field 22 of `stat`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TaskId {
    /// The thread ID.
    pub tid: i32,
    /// The start time in clock ticks after boot.
    pub started: u64,
}

/// One thread of the machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Task {
    /// Its identity.
    pub id: TaskId,
    /// The process it belongs to.
    pub pid: i32,
    /// The parent process.
    pub parent: i32,
    /// The command name (at most 15 bytes).
    pub comm: String,
    /// Whether it is a kernel thread.
    pub kthread: bool,
    /// Whether the kernel refuses to change its affinity (`PF_NO_SETAFFINITY`).
    pub bound: bool,
    /// The CPU it last ran on.
    pub cpu: usize,
    /// The state letter of `stat` (R running, S sleeping, …).
    pub state: char,
    /// Nice value.
    pub nice: i64,
    /// Real-time priority; 0 without one.
    pub rt_priority: u32,
    /// The kernel's number of the policy.
    pub policy: u32,
}

impl Task {
    /// Whether it never runs again. Its parent has not waited for it yet, so it keeps its ID and
    /// its priority (states Z and X of proc_pid_stat(5)).
    #[must_use]
    pub fn has_ended(&self) -> bool {
        matches!(self.state, 'Z' | 'X')
    }
}

/// Parses the `stat` of a process or thread.
fn parse_stat(path: &str, text: &[u8]) -> Result<procfs_core::process::Stat> {
    let malformed = || {
        let found = String::from_utf8_lossy(text);
        Error::malformed(path, 1, "the fields of proc_pid_stat(5)", &found)
    };
    // The library panics where the name ends before it begins.
    let name = text.iter().position(|byte| *byte == b'(');
    let name_end = text.iter().rposition(|byte| *byte == b')');
    let stat = name.filter(|begin| Some(*begin) < name_end);
    let stat = stat.and_then(|_| procfs_core::process::Stat::from_read(text).ok());
    stat.ok_or_else(malformed)
}

impl Host {
    /// Reads one thread's `stat`.
    ///
    /// # Errors
    /// The task is gone, or the text does not have the format of `stat`.
    pub fn task(&self, pid: i32, tid: i32) -> Result<Task> {
        self.task_and_siblings(pid, tid).map(|(task, _)| task)
    }

    /// Reads one thread's `stat`; also returns the number of threads of its process.
    fn task_and_siblings(&self, pid: i32, tid: i32) -> Result<(Task, i64)> {
        let path = format!("/proc/{pid}/task/{tid}/stat");
        let text = match self.read_bytes(&path) {
            Err(error) if error.is_absent() && pid == tid && !self.is_live() => {
                self.read_bytes(&format!("/proc/{pid}/stat"))?
            }
            other => other?,
        };
        let stat = parse_stat(&path, &text)?;
        let task = Task {
            id: TaskId { tid, started: stat.starttime },
            pid,
            parent: stat.ppid,
            // A task chooses its name, which may contain control characters for a terminal.
            comm: stat.comm.replace(char::is_control, "?"),
            kthread: stat.flags & PF_KTHREAD != 0,
            bound: stat.flags & PF_NO_SETAFFINITY != 0,
            cpu: stat.processor.and_then(|cpu| usize::try_from(cpu).ok()).unwrap_or(0),
            state: stat.state,
            nice: stat.nice,
            rt_priority: stat.rt_priority.unwrap_or(0),
            policy: stat.policy.unwrap_or(0),
        };
        Ok((task, stat.num_threads))
    }

    /// Reads the user and system time of a process, in clock ticks of user space. On CPUs without a
    /// tick, the kernel computes it on each read (kernel/sched/cputime.c).
    ///
    /// # Errors
    /// The process is gone, or the text does not have the format of `stat`.
    pub fn cpu_ticks(&self, pid: i32) -> Result<u64> {
        let path = format!("/proc/{pid}/stat");
        let stat = parse_stat(&path, &self.read_bytes(&path)?)?;
        Ok(stat.utime.saturating_add(stat.stime))
    }

    /// Reads every thread of the machine, in the order of their IDs; those that end during the
    /// read are left out.
    ///
    /// # Errors
    /// `/proc` cannot be listed, or a `stat` is malformed.
    pub fn tasks(&self) -> Result<Vec<Task>> {
        let mut tasks = Vec::new();
        for name in self.list("/proc")? {
            let Ok(pid) = name.parse::<i32>() else { continue };
            if self.is_live() {
                match present(self.task_and_siblings(pid, pid))? {
                    // Most processes have one thread, so that listing it is not necessary.
                    Some((task, 0 | 1)) => {
                        tasks.push(task);
                        continue;
                    }
                    Some(_) => {}
                    None => continue,
                }
            }
            let threads = present(self.list(&format!("/proc/{pid}/task")))?;
            let threads = threads.unwrap_or_else(|| vec![name]);
            for tid in threads.iter().filter_map(|name| name.parse().ok()) {
                tasks.extend(present(self.task(pid, tid))?);
            }
        }
        tasks.sort_by_key(|task| task.id.tid);
        Ok(tasks)
    }

    /// The threads of a process, or of the process of a thread.
    ///
    /// # Errors
    /// It is gone.
    pub fn thread_ids(&self, pid: i32) -> Result<Vec<i32>> {
        let names = self.list(&format!("/proc/{pid}/task"))?;
        Ok(names.iter().filter_map(|name| name.parse().ok()).collect())
    }

    /// Whether the thread ID still belongs to the same task.
    #[must_use]
    pub fn is_same_task(&self, id: TaskId) -> bool {
        self.start_time(id.tid) == Some(id.started)
    }

    /// The start time of the thread with this ID; `None` if there is none.
    #[must_use]
    pub fn start_time(&self, tid: i32) -> Option<u64> {
        // /proc/<tid> resolves for threads too, though it is not listed (proc(5)).
        self.task(tid, tid).ok().map(|task| task.id.started)
    }

    /// The CPUs a thread may run on, from `Cpus_allowed_list` of its `status`.
    ///
    /// # Errors
    /// The task is gone, or the text is malformed.
    pub fn affinity(&self, tid: i32) -> Result<CpuSet> {
        self.affinity_at(&self.status_path(tid))
    }

    /// Like [`Host::affinity`], for a thread whose process is known.
    ///
    /// # Errors
    /// The task is gone, or the text is malformed.
    pub fn thread_affinity(&self, pid: i32, tid: i32) -> Result<CpuSet> {
        let path = format!("/proc/{pid}/task/{tid}/status");
        if !self.is_live() && !self.exists(&path) {
            return self.affinity(tid);
        }
        self.affinity_at(&path)
    }

    /// The path of a thread's `status`. The kernel has `/proc/<tid>` for every thread, although it
    /// lists only leaders. A recording has only the files that were read, below the leader.
    #[must_use]
    pub fn status_path(&self, tid: i32) -> String {
        let direct = format!("/proc/{tid}/status");
        if self.is_live() || self.exists(&direct) {
            return direct;
        }
        // Most threads are the only one of their process.
        let main_thread = format!("/proc/{tid}/task/{tid}/status");
        if self.exists(&main_thread) {
            return main_thread;
        }
        let listed = self.list("/proc").unwrap_or_default();
        let mut below = listed.iter().map(|pid| format!("/proc/{pid}/task/{tid}/status"));
        below.find(|path| self.exists(path)).unwrap_or(direct)
    }

    fn affinity_at(&self, path: &str) -> Result<CpuSet> {
        let text = self.read_bytes(path)?;
        let text = String::from_utf8_lossy(&text);
        for (i, line) in text.lines().enumerate() {
            if let Some(list) = line.strip_prefix("Cpus_allowed_list:") {
                return list.parse().map_err(|_| Error::malformed(path, i + 1, "a CPU list", line));
            }
        }
        Err(Error::malformed(path, 0, "a line `Cpus_allowed_list:`", ""))
    }

    /// The online CPUs that a thread may run on, from `sched_getaffinity(2)`. It costs a tenth of
    /// [`Host::affinity`], which also returns CPUs that are not online.
    ///
    /// # Errors
    /// The task is gone.
    pub fn online_affinity(&self, tid: i32) -> Result<CpuSet> {
        if self.is_live() {
            return crate::sys::sched::affinity(tid)
                .map_err(|e| Error::io(Operation::Read, &format!("/proc/{tid}"), e));
        }
        let cpus = self.affinity(tid)?;
        Ok(match self.online_cpus() {
            Ok(online) => cpus.intersection(&online),
            Err(_) => cpus,
        })
    }

    /// Sets the CPUs that a thread may run on.
    ///
    /// # Errors
    /// The kernel's error: EINVAL for a bound kernel thread or CPUs outside its cpuset, ESRCH.
    pub fn set_affinity(&self, tid: i32, cpus: &CpuSet) -> Result<()> {
        let path = format!("/proc/{tid}");
        let list = cpus.to_string();
        self.before_write(Operation::SetAffinity, &path).map_err(|e| e.with_value(&list))?;
        if let Some(kernel) = &self.kernel {
            return kernel.set_affinity(self, tid, cpus);
        }
        let answer = crate::sys::sched::set_affinity(tid, cpus)
            .map_err(|e| Error::io(Operation::SetAffinity, &path, e).with_value(&list));
        self.log_result(Operation::SetAffinity, &path, Some(&list), answer)
    }

    /// The scheduling policy of a thread.
    ///
    /// # Errors
    /// The task is gone.
    pub fn scheduling(&self, tid: i32) -> Result<SchedPolicy> {
        if self.is_live() {
            return crate::sys::sched::policy(tid)
                .map_err(|e| Error::io(Operation::Read, &format!("/proc/{tid}"), e));
        }
        let task = self.task(tid, tid)?;
        Ok(policy_from_stat(&task))
    }

    /// Sets the scheduling policy of a thread.
    ///
    /// # Errors
    /// The kernel's error: EPERM without the privilege (or under RT_GROUP_SCHED without a budget).
    pub fn set_scheduling(&self, tid: i32, policy: SchedPolicy) -> Result<()> {
        let path = format!("/proc/{tid}");
        let value = policy.to_string();
        self.before_write(Operation::SetScheduling, &path).map_err(|e| e.with_value(&value))?;
        if let Some(kernel) = &self.kernel {
            return kernel.set_policy(self, tid, policy);
        }
        let answer = crate::sys::sched::set_policy(tid, policy)
            .map_err(|e| Error::io(Operation::SetScheduling, &path, e).with_value(&value));
        self.log_result(Operation::SetScheduling, &path, Some(&value), answer)
    }
}

/// The policy in a task's `stat`, which does not contain the times of a deadline policy.
#[must_use]
pub fn policy_from_stat(task: &Task) -> SchedPolicy {
    let nice = i32::try_from(task.nice).unwrap_or(0);
    let priority = task.rt_priority;
    match task.policy {
        0 => SchedPolicy::Other { nice },
        1 => SchedPolicy::Fifo { priority },
        2 => SchedPolicy::Rr { priority },
        3 => SchedPolicy::Batch { nice },
        5 => SchedPolicy::Idle,
        number => SchedPolicy::Unknown { number },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_stat_is_an_error() {
        for text in ["", "1 )(", "1 ) R 1 (", "1 (a", "1 a) R", "1 (a) R 1"] {
            assert!(parse_stat("/proc/1/stat", text.as_bytes()).is_err(), "{text:?}");
        }
    }
}
