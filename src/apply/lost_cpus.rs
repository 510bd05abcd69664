//! The CPUs that the housekeeping cpuset of cgroup v1 has lost. The kernel removes a CPU that goes
//! offline from the cpusets of v1 and does not give it back (`cpuset1_hotplug_update_tasks()`,
//! kernel/cgroup/cpuset-v1.c, 6.12). So a mask without it was not set by another process.

use super::journal::ApplyJournal;
use super::moves;
use crate::change::Change;
use cpushield_linux::{CpuSet, Host, TaskId};
use std::collections::BTreeSet;

/// The files with the CPUs of a cpuset of v1, with and without the prefix.
const FILES: [&str; 2] = ["cpuset.cpus", "cpus"];

/// What the housekeeping cpuset has lost since it was made.
#[derive(Debug, Default)]
pub(super) struct LostCpus {
    /// The lost CPUs; empty without such a cpuset.
    lost: CpuSet,
    /// The CPUs that it has now.
    rest: CpuSet,
    /// The tasks in it. Other cpusets lose the CPUs too, and do not get them back with undo.
    members: BTreeSet<i32>,
}

impl LostCpus {
    /// Compares the cpuset, to which the shields have moved all programs, with its last step. An
    /// undo that was interrupted may have left it as any step did, so nothing counts as lost then.
    pub(super) fn read(host: &Host, journal: &ApplyJournal) -> LostCpus {
        if journal.undoing.is_some() {
            return LostCpus::default();
        }
        let groups = journal.changes().filter_map(|change| match change {
            Change::MoveTasks { to, .. } => Some(to),
            _ => None,
        });
        let mut files =
            groups.flat_map(|group| FILES.map(|file| (group, format!("{group}/{file}"))));
        let found = files.find_map(|(group, file)| Some((group, host.read_value(&file)?, file)));
        let Some((group, rest, file)) = found else { return LostCpus::default() };
        let lost = wanted_cpus(journal, &file).unwrap_or_default().difference(&rest);
        if lost.is_empty() {
            return LostCpus::default();
        }
        let members = moves::read_numbers(host, group).unwrap_or_default();
        LostCpus { lost, rest, members: members.into_iter().collect() }
    }

    /// Whether the kernel may have made `now` of the mask that apply left to a task. Before 6.2,
    /// and where nothing would be left of a mask, a task gets all CPUs of the cpuset.
    pub(super) fn may_have_narrowed(
        &self,
        id: TaskId,
        left: Option<&CpuSet>,
        now: &CpuSet,
    ) -> bool {
        let of_mask =
            |left: &CpuSet| left.intersects(&self.lost) && *now == left.difference(&self.lost);
        self.members.contains(&id.tid) && (*now == self.rest || left.is_some_and(of_mask))
    }
}

/// The CPUs that the last step about a file gave it.
fn wanted_cpus(journal: &ApplyJournal, file: &str) -> Option<CpuSet> {
    let made = journal.intents.iter().rev().filter(|intent| journal.may_be_made(intent.step));
    made.filter_map(|intent| journal.step(intent)).find_map(|step| match &step.change {
        Change::Write { path, value, .. } if path == file => value.parse().ok(),
        _ => None,
    })
}
