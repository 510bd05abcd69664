//! [`UndoScope`]: the shield that an undo is about, and the ones that stay.

use super::foreign_partitions::ForeignPartitions;
use super::journal::ApplyJournal;
use super::lost_cpus::LostCpus;
use crate::change::Change;
use crate::documents::plan::Shield;
use cpushield_linux::{CpuSet, Host, TaskId};
use std::collections::{BTreeMap, BTreeSet};

/// A shield that is undone, and the ones that stay.
#[derive(Debug)]
pub(super) struct UndoScope {
    /// The shield, with the CPUs that are in no shield after it. Its housekeeping CPUs are in none
    /// now.
    pub(super) shield: Shield,
    /// All CPUs that the cpusets of the shield kept from other tasks. Another version of it may
    /// keep the same CPUs in another way.
    pub(super) closed: CpuSet,
    /// The other active shields.
    pub(super) others: Vec<Shield>,
    /// The CPUs that their cpusets keep from other tasks.
    closed_by_others: CpuSet,
    /// The CPUs that their steps moved tasks off.
    moved_off: BTreeMap<TaskId, CpuSet>,
    /// The processes that steps have moved into shields.
    pub(super) moved_in: BTreeSet<i32>,
    /// The other version of a shield that is being replaced, if both have the same cgroup.
    pub(super) other_version: Option<Shield>,
    /// The partitions of other programs, before undo changes anything.
    pub(super) foreign: ForeignPartitions,
    /// What the housekeeping cpuset has lost before undo changes anything.
    pub(super) lost: LostCpus,
}

impl UndoScope {
    /// The scope of an undo; `None` if no active shield has this name.
    pub(super) fn new(host: &Host, journal: &ApplyJournal, name: &str) -> Option<UndoScope> {
        let others = journal.planned_shields();
        let others: Vec<Shield> = others.filter(|shield| shield.name != name).cloned().collect();
        let shield = journal.shield(name)?;
        let closed = shield.cpus.clone();
        let cpus = closed.difference(&journal.cpus_of_others(name));
        let closing = others.iter().filter(|other| journal.has_group(&other.name));
        let closed_by_others: CpuSet = closing.map(|other| &other.cpus).collect();
        let moved_off = find_moved_off(journal, name);
        let mut same = others.iter().filter(|other| other.group() == shield.group());
        let other_version = same.find(|other| journal.has_group(&other.name)).cloned();
        let foreign = ForeignPartitions::read(host, &own_cpus(journal));
        let (shield, lost) = (Shield { cpus, ..shield }, LostCpus::read(host, journal));
        Some(UndoScope {
            shield,
            closed,
            others,
            closed_by_others,
            moved_off,
            moved_in: find_moved_in(journal),
            other_version,
            foreign,
            lost,
        })
    }

    /// The CPUs of partitions of other programs that were there when undo began, and still are.
    /// A CPU that undo brings online joins the cpusets a moment later, so later ones do not count.
    pub(super) fn foreign_cpus_now(&self, host: &Host) -> CpuSet {
        if self.foreign.cpus.is_empty() {
            return CpuSet::new();
        }
        let own = self.shield.cpus.union(&self.cpus_of_others());
        ForeignPartitions::read(host, &own).cpus.intersection(&self.foreign.cpus)
    }

    /// Whether a change makes or configures the cgroup of both versions.
    pub(super) fn is_about_common_group(&self, change: &Change) -> bool {
        self.other_version.as_ref().is_some_and(|other| change.is_about_group(&other.group()))
    }

    /// The shielded CPUs of the shields that stay.
    pub(super) fn cpus_of_others(&self) -> CpuSet {
        self.others.iter().map(|shield| &shield.cpus).collect()
    }

    /// The CPUs that are in no shield after the undo.
    pub(super) fn free_cpus(&self) -> CpuSet {
        self.shield.housekeeping.union(&self.shield.cpus)
    }

    /// The mask `cpus` of a task without what the shields that stay keep from it: the CPUs that
    /// their cpusets close, and those that their steps moved it off. The free CPUs if none would be
    /// left. `id` is the task, or the ancestor from which it inherits its mask.
    pub(super) fn keep_off_others(&self, cpus: &CpuSet, id: TaskId) -> CpuSet {
        let moved_off = self.moved_off.get(&id).cloned().unwrap_or_default();
        let rest = cpus.difference(&self.closed_by_others).difference(&moved_off);
        let free = self.free_cpus();
        let choices = [rest, free.difference(&moved_off)];
        choices.into_iter().find(|cpus| !cpus.is_empty()).unwrap_or(free)
    }
}

fn find_moved_in(journal: &ApplyJournal) -> BTreeSet<i32> {
    let moved = journal.changes().filter_map(|change| match change {
        Change::MoveProcess { task, .. } => Some(task.tid),
        _ => None,
    });
    moved.collect()
}

/// The CPUs of the shields other than `name` that their steps moved tasks off.
fn find_moved_off(journal: &ApplyJournal, name: &str) -> BTreeMap<TaskId, CpuSet> {
    let mut moved: BTreeMap<TaskId, CpuSet> = BTreeMap::new();
    for other in journal.shields.iter().filter(|live| live.plan.shield.name != name) {
        for step in journal.steps_of(other) {
            if let Change::Affinity { task, cpus: left, .. } = &step.change {
                let Shield { cpus, closed, tickless, .. } = &other.plan.shield;
                let off = moved.entry(*task).or_default();
                *off = off.union(cpus).union(closed);
                if !left.intersects(tickless) {
                    *off = off.union(tickless);
                }
            }
        }
    }
    moved
}

/// The CPUs of all active shields, with the siblings that they keep idle or offline.
fn own_cpus(journal: &ApplyJournal) -> CpuSet {
    let shields = journal.planned_shields();
    shields
        .flat_map(|shield| [&shield.cpus, &shield.idle_siblings, &shield.offline_siblings])
        .collect()
}
