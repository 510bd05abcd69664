//! Finds steps that would wait forever because a real-time task keeps a CPU busy. Some
//! writes make the kernel wait for an ordinary thread on a certain CPU, and on PREEMPT_RT nearly
//! everything waits for RCU. The writing process would then be in state D, hold locks that others
//! need, and be unkillable. So such a write is not made. This module gives the reason; the executor
//! and undo decide.

use super::blocking_writes::{CPU, value_to_replace};
use super::kinds::kind_of;
use super::memory_moves::cpus_of_move;
use super::original::OriginalState;
use super::thread_servers::ThreadServer;
use crate::change::Change;
use crate::documents::plan::Plan;
use cpushield_linux::{CpuSet, Host, Result, RtHog, Task};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

const RT_RUNTIME: &str = "/proc/sys/kernel/sched_rt_runtime_us";

/// How long a scan of all tasks stays valid.
const SCAN_VALID: Duration = Duration::from_secs(1);

/// The real-time tasks that keep a CPU busy, found when a step needs them.
#[derive(Debug, Default)]
pub struct RtHogs {
    found: Option<(Instant, Vec<RtHog>)>,
}

/// A real-time task that must end first, and a hint about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockedBy {
    /// The task, its CPU, and what would wait for it.
    pub why: String,
    /// The hint.
    pub hint: String,
}

impl RtHogs {
    /// Finds the hogs in a fresh list of tasks.
    pub fn find_among(host: &Host, tasks: &[Task]) -> RtHogs {
        RtHogs { found: Some((Instant::now(), host.hogs_among(tasks))) }
    }

    fn find(&mut self, host: &Host) -> Result<&[RtHog]> {
        let fresh = self.found.as_ref().is_some_and(|(when, _)| when.elapsed() < SCAN_VALID);
        if !fresh {
            self.found = None;
        }
        let found = match self.found.take() {
            Some(found) => found,
            None => (Instant::now(), host.hogs()?),
        };
        Ok(&self.found.insert(found).1)
    }

    /// Forgets the scan, after a step that may have moved tasks to other CPUs.
    pub fn forget(&mut self) {
        self.found = None;
    }

    /// Finds a task that prevents RCU grace periods from ending: its priority is above that of
    /// `rcuc/N`, the thread that reports for its CPU on PREEMPT_RT and with `rcutree.use_softirq=0`
    /// (rcu_cpu_kthread() in kernel/rcu/tree.c, 6.12). Moving tasks between cgroups and removing a
    /// group wait for RCU. A CPU of `nohz_full=` needs no report while it runs in user mode.
    ///
    /// # Errors
    /// `/proc` cannot be read.
    pub fn above_rcu(&mut self, host: &Host) -> Result<Option<BlockedBy>> {
        let hogs = self.find(host)?;
        if hogs.is_empty() {
            return Ok(None);
        }
        let rcu = RcuThreads::find(host)?;
        let found = |hog: &RtHog| {
            rcu.blocked_by(
                host,
                hog,
                hog.task.cpu,
                "does not have a higher priority than that task",
            )
        };
        Ok(hogs.iter().find_map(found))
    }

    /// The same for a task that a plan would move to other CPUs, because it shields the task's CPU.
    ///
    /// # Errors
    /// `/proc` cannot be read.
    pub fn above_rcu_after_move(&mut self, host: &Host, plan: &Plan) -> Result<Option<BlockedBy>> {
        if !plan.steps.iter().any(|step| kind_of(&step.change).sets_cpuset()) {
            return Ok(None);
        }
        let shield = &plan.shield;
        let hogs = self.find(host)?.iter().filter(|hog| shield.cpus.contains(hog.task.cpu));
        let hogs: Vec<&RtHog> = hogs.collect();
        if hogs.is_empty() {
            return Ok(None);
        }
        let rcu = RcuThreads::find(host)?;
        let found = |hog: &&RtHog| {
            shield.housekeeping.iter().find_map(|cpu| {
                let words = format!(
                    "would not have a higher priority than that task after the shield has moved \
                     it to CPU {cpu}"
                );
                rcu.blocked_by(host, hog, cpu, &words)
            })
        };
        Ok(hogs.iter().find_map(found))
    }

    /// Returns why a change must not be made now.
    ///
    /// # Errors
    /// `/proc` cannot be read.
    pub fn refuse(&mut self, host: &Host, change: &Change) -> Result<Option<String>> {
        if let Some(cpus) = takes_time_from(host, change) {
            let hog = self.find(host)?.iter().find(|hog| cpus.contains(hog.task.cpu));
            return Ok(hog.map(|hog| {
                let words = "only this setting gives the other threads of that CPU time to run";
                format!("{}, and {words}; {}", describe_hog(hog), remedy(hog))
            }));
        }
        self.endless_wait(host, kind_of(change).waits_for(host))
    }

    /// Returns why a file cannot be restored now.
    ///
    /// # Errors
    /// `/proc` cannot be read.
    pub fn delay(
        &mut self,
        host: &Host,
        change: &Change,
        was: &OriginalState,
    ) -> Result<Option<String>> {
        self.endless_wait(host, kind_of(change).waits_for_revert(host, was))
    }

    /// Returns why a wait for a thread on one of these CPUs would never end.
    ///
    /// # Errors
    /// `/proc` cannot be read.
    pub fn endless_wait(&mut self, host: &Host, cpus: Option<CpuSet>) -> Result<Option<String>> {
        let Some(cpus) = cpus else { return Ok(None) };
        let mut hogs = self.find(host)?.iter().filter(|hog| cpus.contains(hog.task.cpu));
        let starves = hogs.find(|hog| !is_served(host, hog.task.cpu));
        Ok(starves.map(|hog| {
            let words = "the kernel would wait forever for a thread of this CPU";
            format!("{}, and {words}; {}", describe_hog(hog), remedy(hog))
        }))
    }
}

/// Whether the pages of a program move when it enters or leaves a group. The kernel then runs a
/// thread on every CPU.
#[must_use]
pub fn moves_memory(host: &Host, group: &str) -> bool {
    cpus_of_move(host, group).is_some()
}

/// Returns why no program can enter or leave a group now, because the write would never return.
///
/// # Errors
/// `/proc` cannot be read.
pub fn refuse_move(host: &Host, group: &str) -> Result<Option<String>> {
    RtHogs::default().endless_wait(host, cpus_of_move(host, group))
}

/// The kernel threads that report the end of RCU read sections, by their CPU.
struct RcuThreads {
    threads: BTreeMap<usize, Task>,
    /// The CPUs of `nohz_full=`.
    nohz_full: CpuSet,
}

impl RcuThreads {
    fn find(host: &Host) -> Result<RcuThreads> {
        let tasks = host.tasks()?.into_iter().filter(|task| task.kthread);
        let threads = tasks.filter_map(|task| {
            let cpu = task.comm.strip_prefix("rcuc/")?.parse().ok()?;
            Some((cpu, task))
        });
        let nohz_full: CpuSet = host.read_value(&format!("{CPU}/nohz_full")).unwrap_or_default();
        Ok(RcuThreads { threads: threads.collect(), nohz_full })
    }

    /// Returns why a task blocks RCU on a CPU.
    fn blocked_by(&self, host: &Host, hog: &RtHog, cpu: usize, words: &str) -> Option<BlockedBy> {
        let rcu = self.threads.get(&cpu).filter(|_| !self.nohz_full.contains(cpu))?;
        let policy = host.scheduling(rcu.id.tid).ok()?;
        let priority = hog.policy.rt_priority();
        if priority > 0 && policy.is_above(priority) {
            return None;
        }
        let above = (priority + 1).min(99);
        Some(BlockedBy {
            why: format!(
                "{}, and {} ({policy}) {words}: then this kernel cannot finish an RCU grace \
                 period, and a task that waits for one would wait forever",
                describe_hog(hog),
                rcu.comm
            ),
            hint: format!(
                "{}; or give the kernel thread a higher priority: chrt -f -p {above} {} \
                 (`cpushield run --fifo` does that)",
                remedy(hog),
                rcu.id.tid
            ),
        })
    }
}

fn describe_hog(hog: &RtHog) -> String {
    format!("CPU {} is busy with {hog}, which does not sleep", hog.task.cpu)
}

fn remedy(hog: &RtHog) -> String {
    format!("stop it, or make it an ordinary task (chrt -o -p 0 {})", hog.task.id.tid)
}

/// Whether ordinary threads get some time on a CPU despite real-time tasks: from a deadline server
/// where its file exists, else from throttling. Since 6.12 throttling does nothing in most kernels,
/// but where debugfs is not mounted, no process can have disabled the server.
fn is_served(host: &Host, cpu: usize) -> bool {
    match ThreadServer::of_kernel_threads(host).runtime_ns(host, cpu) {
        Some(runtime) => runtime > 0,
        None => host.read_line(RT_RUNTIME).is_ok_and(|runtime| runtime != "-1"),
    }
}

/// The CPUs on which a change takes the time of [`is_served`] from ordinary threads.
fn takes_time_from(host: &Host, change: &Change) -> Option<CpuSet> {
    let Change::Write { path, value, compare, .. } = change else { return None };
    let cpus = match ThreadServer::of_runtime_file(path) {
        Some((server, cpu)) if value == "0" => {
            (server == ThreadServer::of_kernel_threads(host)).then(|| CpuSet::single(cpu))
        }
        None if path == RT_RUNTIME && value == "-1" => host.read_value(&format!("{CPU}/online")),
        _ => None,
    };
    cpus.filter(|_| value_to_replace(host, path, value, *compare).is_some())
}
