//! Moves a process into the group of the shield, before other programs lose its CPUs: it is what
//! the shield is for. Undo moves it back to where it was; the affinities of its threads are
//! restored with those of all tasks (`restore_affinities`).

use super::super::groups::end_partition;
use super::super::kind::{
    ChangeKind, NOTHING, PerformedChange, RevertedChange, ShieldChanges, check_same_task,
};
use super::super::memory_moves::cpus_of_move;
use super::super::original::OriginalState;
use super::slice_dir;
use crate::change::Change;
use crate::documents::applied::{ChangeFate, DriftedValue, StepDone};
use cpushield_linux::error::present;
use cpushield_linux::text::task_cgroup::cpuset_group;
use cpushield_linux::{CpuSet, Host, Result, TaskId};
use std::collections::{BTreeMap, BTreeSet};

/// A process, and the directory of the group that it joins.
pub struct ProcessMove<'a> {
    pub task: TaskId,
    pub to: &'a str,
}

impl ChangeKind for ProcessMove<'_> {
    fn read_original(&self, host: &Host) -> Result<OriginalState> {
        let groups = check_same_task(host, self.task).and_then(|()| self.groups(host));
        Ok(OriginalState::from_reading(groups.map(|groups| match (groups.first(), groups.len()) {
            (Some(group), 1) => OriginalState::Text { text: group.clone() },
            _ => OriginalState::Unreadable { reason: "its threads are in several groups".into() },
        })))
    }

    fn perform(&self, host: &Host, was: &OriginalState) -> Result<PerformedChange> {
        if !host.is_same_task(self.task) {
            return Ok(PerformedChange::already_so());
        }
        if matches!(was, OriginalState::Text { text } if text == self.to) {
            return Ok(PerformedChange::already_so());
        }
        let masks = self.masks(host)?;
        join(host, self.to, self.task)?;
        for (tid, mask) in masks {
            // Before 6.2 a thread gets all CPUs of the cpuset that it joins.
            let Some(now) = present(host.affinity(tid))? else { continue };
            let kept = mask.intersection(&now);
            if kept.is_empty() || kept == now {
                continue;
            }
            match host.set_affinity(tid, &kept) {
                Err(error) if error.is_stop() => return Err(error),
                // Then it may run on all CPUs of the shield.
                _ => {}
            }
        }
        Ok(PerformedChange::changed(self.to.to_owned()))
    }

    fn revert(
        &self,
        host: &Host,
        shield: &ShieldChanges<'_>,
        was: &OriginalState,
        _: Option<&StepDone>,
    ) -> Result<RevertedChange> {
        let OriginalState::Text { text: from } = was else { return Ok(NOTHING) };
        // An undo that could not move it has removed its group, so it is in the group above.
        let above = self.to.rsplit_once('/').map_or("", |(above, _)| above);
        let is_left = shield.undone_before && self.is_in(host, above);
        if !self.is_in(host, self.to) && !is_left {
            return Ok(ChangeFate::Gone.into());
        }
        // Its CPUs are open to it again, unless another version of the shield has the group.
        let makes = |change: &&&Change| match change {
            Change::MakeDir { path } => path == self.to,
            Change::Slice { unit, .. } => slice_dir(unit) == self.to,
            _ => false,
        };
        if shield.changes.iter().filter(makes).count() < 2 {
            end_partition(host, self.to)?;
        }
        let is_there = host.exists(&format!("{from}/cgroup.procs"));
        join(host, if is_there { from } else { above }, self.task)?;
        Ok(ChangeFate::Restored.into())
    }

    fn waits_for(&self, host: &Host) -> Option<CpuSet> {
        cpus_of_move(host, self.to)
    }

    fn waits_for_revert(&self, host: &Host, _: &OriginalState) -> Option<CpuSet> {
        cpus_of_move(host, self.to).filter(|_| self.is_in(host, self.to))
    }

    fn find_drift(&self, host: &Host, _: Option<&str>) -> Option<DriftedValue> {
        let has_left = host.is_same_task(self.task) && !self.is_in(host, self.to);
        has_left.then(|| DriftedValue { left: self.to.to_owned(), now: None })
    }
}

impl ProcessMove<'_> {
    /// The masks of its threads.
    fn masks(&self, host: &Host) -> Result<BTreeMap<i32, CpuSet>> {
        let mut masks = BTreeMap::new();
        for tid in host.thread_ids(self.task.tid)? {
            masks.extend(present(host.affinity(tid))?.map(|mask| (tid, mask)));
        }
        Ok(masks)
    }

    /// The groups of its threads.
    fn groups(&self, host: &Host) -> Result<BTreeSet<String>> {
        let mut groups = BTreeSet::new();
        for tid in host.thread_ids(self.task.tid)? {
            let path = format!("/proc/{tid}/cgroup");
            groups.extend(present(host.read(&path))?.and_then(|text| self.group_in(host, &text)));
        }
        Ok(groups)
    }

    /// The directory of the group that the text of a `cgroup` file names.
    fn group_in(&self, host: &Host, text: &str) -> Option<String> {
        let (mount, _) = self.to.rsplit_once('/')?;
        let v2 = host.exists(&format!("{mount}/cgroup.controllers"));
        Some(format!("{mount}{}", cpuset_group(text, v2)?))
    }

    fn is_in(&self, host: &Host, group: &str) -> bool {
        let text = host.read(&format!("/proc/{}/cgroup", self.task.tid)).unwrap_or_default();
        host.is_same_task(self.task) && self.group_in(host, &text).as_deref() == Some(group)
    }
}

/// Moves a process with all its threads.
fn join(host: &Host, group: &str, task: TaskId) -> Result<()> {
    host.write(&format!("{group}/cgroup.procs"), &task.tid.to_string())
}
