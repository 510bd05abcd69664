//! [`UndoScope`]: the shield that an undo is about, and the ones that stay.

use super::foreign_partitions::ForeignPartitions;
use super::journal::ApplyJournal;
use super::lost_cpus::LostCpus;
use crate::change::Change;
use crate::documents::plan::Shield;
use cpushield_linux::{CpuSet, Host};

/// A shield that is undone, and the ones that stay.
#[derive(Debug)]
pub(super) struct UndoScope {
    /// The shield, with the CPUs that are in no shield after it. Its housekeeping CPUs are in none
    /// now.
    pub(super) shield: Shield,
    /// The other active shields.
    pub(super) others: Vec<Shield>,
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
        let shields = journal.shields.iter().map(|live| &live.plan.shield);
        let others: Vec<Shield> = shields.filter(|shield| shield.name != name).cloned().collect();
        let shield = journal.shield(name)?;
        let cpus = shield.cpus.difference(&journal.cpus_of_others(name));
        let mut same = others.iter().filter(|other| other.group() == shield.group());
        let other_version = same.find(|other| journal.has_group(&other.name)).cloned();
        let foreign = ForeignPartitions::read(host, &own_cpus(journal));
        let (shield, lost) = (Shield { cpus, ..shield }, LostCpus::read(host, journal));
        Some(UndoScope { shield, others, other_version, foreign, lost })
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
        self.others.iter().fold(CpuSet::new(), |all, shield| all.union(&shield.cpus))
    }

    /// The CPUs that are in no shield after the undo.
    pub(super) fn free_cpus(&self) -> CpuSet {
        self.shield.housekeeping.union(&self.shield.cpus)
    }

    /// `cpus` without those of the shields that stay; the free CPUs if none would be left.
    pub(super) fn keep_off_others(&self, cpus: &CpuSet) -> CpuSet {
        let rest = cpus.difference(&self.cpus_of_others());
        if rest.is_empty() { self.free_cpus() } else { rest }
    }
}

/// The CPUs of all active shields, with the siblings that they keep idle or offline.
fn own_cpus(journal: &ApplyJournal) -> CpuSet {
    let shields = journal.shields.iter().map(|live| &live.plan.shield);
    shields.fold(CpuSet::new(), |all, shield| {
        let siblings = shield.idle_siblings.union(&shield.offline_siblings);
        all.union(&shield.cpus).union(&siblings)
    })
}
