//! Restores the affinities of tasks as undo decided ([`super::affinities::decide`]): writes a mask
//! only where a task still has the mask that was seen then, or one that the kernel made of it.

use super::affinities::{follows_interrupt, is_widened};
use super::journal::UndoDecision;
use super::offline_cpus::offline_shield;
use super::task_masks::TaskMasks;
use super::undo_scope::UndoScope;
use cpushield_linux::error::present;
use cpushield_linux::{CpuSet, Host, Result, TaskId};
use std::collections::{BTreeMap, BTreeSet};

/// The result of restoring affinities.
#[derive(Debug, Default)]
pub struct RestoredAffinities {
    /// Tasks whose mask was restored.
    pub restored: BTreeSet<TaskId>,
    /// Tasks whose mask could not be restored, with the kernel's answer.
    pub failed: BTreeMap<TaskId, String>,
    /// Tasks whose mask another process changed since undo began.
    pub drifted: Vec<TaskId>,
    /// Tasks that keep the mask of the shield, because they asked for it.
    pub asked: Vec<TaskId>,
    /// Tasks that may have asked for it; unknown until cpusets are restored.
    pub waiting: Vec<TaskId>,
}

/// Whether everything but the affinities was restored.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum OtherSettings {
    Restored,
    /// Some are not, such as a cpuset, so a mask may still change.
    Pending,
}

/// Gives every task the decided mask, where it still has the mask of the time of the decision, or
/// one that the kernel made of it.
///
/// # Errors
/// Only when a test stopped the host.
pub(super) fn restore(
    host: &Host,
    scope: &UndoScope,
    undoing: &UndoDecision,
    others: OtherSettings,
) -> Result<RestoredAffinities> {
    let (closed, foreign) = (&scope.closed, scope.foreign_cpus_now(host));
    let online = host.online_cpus().ok();
    let offline = offline_shield(&scope.shield.cpus, online.as_ref());
    let scan = AffinityScan { host, closed, foreign, online, offline };
    let mut done = RestoredAffinities::default();
    let kept = undoing.kept.0.iter().map(|(id, cpus)| (id, cpus, Some(cpus)));
    let ours = undoing.masks.0.iter().map(|(id, cpus)| (id, cpus, undoing.was.0.get(id)));
    let limited: BTreeSet<&TaskId> = undoing.limited.iter().collect();
    for (id, cpus, was) in ours.chain(kept) {
        match scan.restore_task(*id, cpus, was, limited.contains(id)) {
            Ok(FoundAffinity::Narrow) => match others {
                OtherSettings::Restored => done.asked.push(*id),
                OtherSettings::Pending => done.waiting.push(*id),
            },
            Ok(FoundAffinity::Written) => drop(done.restored.insert(*id)),
            Ok(FoundAffinity::Theirs) => done.drifted.push(*id),
            Ok(FoundAffinity::Impossible(reason)) => drop(done.failed.insert(*id, reason)),
            Ok(FoundAffinity::Unchanged) => {}
            Err(error) if error.is_stop() => return Err(error),
            Err(error) => drop(done.failed.insert(*id, error.reason())),
        }
    }
    Ok(done)
}

/// The tasks that an undo leaves to the next one, with their current masks.
pub fn pending(host: &Host, restored: &RestoredAffinities) -> TaskMasks {
    let tasks = restored.failed.keys().chain(&restored.waiting);
    TaskMasks(tasks.filter_map(|id| Some((*id, host.affinity(id.tid).ok()?))).collect())
}

fn has_ended(host: &Host, tid: i32) -> bool {
    host.task(tid, tid).map_or(true, |task| task.has_ended())
}

/// What [`restore`] found and did about one task.
enum FoundAffinity {
    /// Its mask was written.
    Written,
    /// It has its mask already, or is gone.
    Unchanged,
    /// Another process changed its mask since.
    Theirs,
    /// It kept its narrow mask, though only our cpusets can have narrowed it.
    Narrow,
    /// It cannot get its CPUs now; the reason.
    Impossible(String),
}

struct AffinityScan<'a> {
    host: &'a Host,
    /// CPUs that the cpusets of the shield kept from other tasks.
    closed: &'a CpuSet,
    /// The CPUs of the partitions of other programs, which the kernel leaves out of every mask.
    foreign: CpuSet,
    online: Option<CpuSet>,
    /// The CPUs of the shield that are offline.
    offline: CpuSet,
}

impl AffinityScan<'_> {
    /// The online CPUs of a mask. Two masks are compared by these, and by offline CPUs of the
    /// shield.
    fn online_part(&self, cpus: &CpuSet) -> CpuSet {
        self.online.as_ref().map_or_else(|| cpus.clone(), |online| cpus.intersection(online))
    }

    /// Whether a task has the CPUs of a mask that belong to the shield and are offline.
    fn has_offline(&self, id: TaskId, cpus: &CpuSet) -> Result<bool> {
        let missing = cpus.intersection(&self.offline);
        if missing.is_empty() {
            return Ok(true);
        }
        let now = present(self.host.affinity(id.tid))?;
        Ok(now.is_none_or(|now| missing.is_subset(&now)))
    }

    fn restore_task(
        &self,
        id: TaskId,
        cpus: &CpuSet,
        was: Option<&CpuSet>,
        limited: bool,
    ) -> Result<FoundAffinity> {
        let (host, target) = (self.host, self.online_part(cpus).difference(&self.foreign));
        let Some(now) = present(host.online_affinity(id.tid))?.map(|now| self.online_part(&now))
        else {
            return Ok(FoundAffinity::Unchanged);
        };
        let is_same = now == target || now == self.online_part(cpus);
        // Cpusets give a task their CPUs when they come online; another task must have them before.
        let is_same = is_same && (limited || self.has_offline(id, cpus)?);
        if is_same || !host.is_same_task(id) {
            return Ok(FoundAffinity::Unchanged);
        }
        let unchanged = was.is_none_or(|was| self.online_part(was) == now);
        if unchanged && limited {
            return Ok(FoundAffinity::Narrow);
        }
        let known = unchanged || is_widened(self.closed, &now, &target);
        let follows = || host.task(id.tid, id.tid).is_ok_and(|task| follows_interrupt(&task));
        if !known && !follows() {
            return Ok(FoundAffinity::Theirs);
        }
        if target.is_empty() {
            // Only the kernel itself may put it on a CPU of a partition, and does so at the next
            // interrupt (`irq_thread_check_affinity()`, kernel/irq/manage.c, 6.12).
            let is_in_partition = !self.online_part(cpus).is_empty();
            return match is_in_partition && follows() {
                true => Ok(FoundAffinity::Unchanged),
                false => Ok(self.explain_impossible(id, cpus)),
            };
        }
        match present(host.set_affinity(id.tid, cpus)) {
            Ok(Some(())) => {}
            Ok(None) => return Ok(FoundAffinity::Unchanged),
            // It has ended, and its parent has not waited for it yet.
            Err(error) if !error.is_stop() && has_ended(host, id.tid) => {
                return Ok(FoundAffinity::Unchanged);
            }
            Err(error) => return Err(error),
        }
        match present(host.online_affinity(id.tid))? {
            Some(now) if self.online_part(&now) == target => Ok(FoundAffinity::Written),
            Some(now) => {
                let reason = format!("the kernel set {now} instead of {cpus}");
                Ok(FoundAffinity::Impossible(reason))
            }
            None => Ok(FoundAffinity::Unchanged),
        }
    }

    /// Why a task cannot get these CPUs now; a later undo can give it them.
    fn explain_impossible(&self, id: TaskId, cpus: &CpuSet) -> FoundAffinity {
        let Ok(task) = self.host.task(id.tid, id.tid) else { return FoundAffinity::Unchanged };
        let noun = if cpus.len() == 1 { "CPU" } else { "CPUs" };
        let why = match (self.online_part(cpus).is_empty(), cpus.len()) {
            (true, 1) => "is offline",
            (true, _) => "are offline",
            (false, 1) => "is in the partition of another cgroup",
            (false, _) => "are offline or in the partition of another cgroup",
        };
        FoundAffinity::Impossible(format!(
            "{noun} {cpus} in the affinity mask of {} {why}",
            task.comm
        ))
    }
}
