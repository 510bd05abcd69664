//! The programs in a shield when it is replaced with another version: which of them would have no
//! CPU left, and which CPUs the others get.

use super::added::find_task;
use super::{RunError, ShieldPlacement};
use crate::documents::plan::Plan;
use crate::documents::process_note::ProcessNote;
use cpushield_linux::{CpuSet, Host, Task};
use std::fmt;

/// `SCHED_DEADLINE` (include/uapi/linux/sched.h, 6.12).
const DEADLINE: u32 = 6;

/// A thread that the new version of its shield has no place for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadInTheWay {
    /// Its number.
    pub tid: i32,
    /// Its name.
    pub comm: String,
    /// Why.
    pub reason: NoPlaceReason,
}

/// Why a thread has no place in the new version of its shield.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoPlaceReason {
    /// It may only run on CPUs that leave the shield.
    NoCpuLeft {
        /// Its CPUs.
        affinity: CpuSet,
    },
    /// The kernel has admitted it to the CPUs of the shield (`SCHED_DEADLINE`).
    Deadline,
    /// The new version does not keep programs apart.
    NoGroup,
}

impl fmt::Display for ThreadInTheWay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}) ", self.comm, self.tid)?;
        match &self.reason {
            NoPlaceReason::NoCpuLeft { affinity } => {
                write!(f, "may only run on CPU {affinity}, which leaves the shield")
            }
            NoPlaceReason::Deadline => {
                f.write_str("has SCHED_DEADLINE, and the kernel admitted it to the current CPUs")
            }
            NoPlaceReason::NoGroup => {
                f.write_str("would leave the shield: without cpuset, it has no group for programs")
            }
        }
    }
}

/// The threads in a shield, with the CPUs that each gets from the new version.
#[derive(Debug)]
pub struct VersionChange {
    threads: Vec<(Task, CpuSet)>,
    /// Threads that the new version has no place for.
    pub in_the_way: Vec<ThreadInTheWay>,
}

impl VersionChange {
    /// Looks at the threads in the shield of the old plan. The new plan is for the same shield.
    ///
    /// # Errors
    /// The threads cannot be read.
    pub fn new(host: &Host, old: &Plan, new: &Plan) -> Result<VersionChange, RunError> {
        let place = ShieldPlacement::new(host, old);
        let keeps_group = place.group.is_none() || has_group(new);
        let cpus = new.shield.cpus.difference(&new.shield.idle_siblings);
        let mut change = VersionChange { threads: Vec::new(), in_the_way: Vec::new() };
        for (task, affinity) in threads_in(host, &place, &old.shield.cpus)? {
            let left = affinity.intersection(&cpus);
            let reason = match () {
                () if !keeps_group => Some(NoPlaceReason::NoGroup),
                () if old.shield.cpus == new.shield.cpus => None,
                () if task.policy == DEADLINE => Some(NoPlaceReason::Deadline),
                () if left.is_empty() => {
                    Some(NoPlaceReason::NoCpuLeft { affinity: affinity.clone() })
                }
                () => None,
            };
            let in_the_way = reason.map(|reason| ThreadInTheWay {
                tid: task.id.tid,
                comm: task.comm.clone(),
                reason,
            });
            change.in_the_way.extend(in_the_way);
            // One that could use every CPU of the shield still can.
            let is_free = place.cpus.is_subset(&affinity) || left.is_empty();
            let wanted = if is_free { cpus.clone() } else { left };
            if keeps_group {
                change.threads.push((task, wanted));
            }
        }
        Ok(change)
    }

    /// Gives each thread its CPUs, after the new version was applied. Kernels before 6.2 forget the
    /// affinities of threads when their cpuset changes. Returns notes about what was refused.
    #[must_use]
    pub fn place_threads(&self, host: &Host) -> Vec<ProcessNote> {
        let mut notes = Vec::new();
        for (task, wanted) in &self.threads {
            let now = host.affinity(task.id.tid);
            if !host.is_same_task(task.id) || now.is_ok_and(|now| now == *wanted) {
                continue;
            }
            match host.set_affinity(task.id.tid, wanted) {
                Err(error) if !error.is_absent() => {
                    notes.push(ProcessNote::AffinityRefused {
                        comm: task.comm.clone(),
                        tid: task.id.tid,
                        answer: error.reason(),
                    });
                }
                Ok(()) | Err(_) => {}
            }
        }
        notes
    }
}

fn has_group(plan: &Plan) -> bool {
    let group = plan.shield.group();
    plan.steps.iter().any(|step| step.change.is_about_group(&group))
}

/// The threads in a shield with their affinities: those in its group, or without a group those that
/// may run on its CPUs only.
fn threads_in(
    host: &Host,
    place: &ShieldPlacement,
    cpus: &CpuSet,
) -> Result<Vec<(Task, CpuSet)>, RunError> {
    let tasks: Vec<Task> = match &place.group {
        Some(_) => {
            let members = place.members(host)?.into_iter();
            members.filter_map(|tid| find_task(host, tid).ok()).collect()
        }
        None => host.tasks()?.into_iter().filter(|task| !task.kthread).collect(),
    };
    let placed = tasks.into_iter().filter_map(|task| {
        let affinity = host.affinity(task.id.tid).ok()?;
        let inside = place.group.is_some() || affinity.is_subset(cpus);
        (inside && !affinity.is_empty()).then_some((task, affinity))
    });
    Ok(placed.collect())
}
