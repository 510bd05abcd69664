//! The shield as a pair of cgroup v1 cpusets. Pure.

use super::super::WantedChange;
use super::{HOUSEKEEPING, group_of, leave_closed, movable_threads, overlapping, take_residents};
use crate::change::{Change, ValueComparison, WrittenFile};
use crate::documents::machine::Machine;
use crate::documents::plan::{CpusetWarning, Shield};
use cpushield_linux::CpuSet;

pub(super) fn wants(machine: &Machine, shield: &Shield, mount: &str) -> Vec<WantedChange> {
    let prefix = &machine.cgroup.prefix;
    let housekeeping_dir = format!("{mount}/{HOUSEKEEPING}");
    let shield_dir = format!("{mount}/{}", shield.group());
    // Undo gives their CPUs back last: before that, the shield's own cpuset has them exclusively.
    let mut wanted = shrink_others(machine, shield);
    let housekeeping = V1Cpuset {
        dir: &housekeeping_dir,
        title: "housekeeping programs",
        cpus: &shield.housekeeping,
    };
    wanted.extend(housekeeping.wants(machine, &machine.cgroup.mems));
    // The kernel would remove a CPU that goes offline.
    let cpus = &shield.online_cpus();
    let shielded = V1Cpuset { dir: &shield_dir, title: "the shield", cpus };
    wanted.extend(shielded.wants(machine, &shield.mems));
    wanted.extend(take_residents(machine, shield, &shield_dir));
    let exclusive =
        group_of(machine, &shield_dir).map(|group| u8::from(group.exclusive).to_string());
    let up = exclusive.as_deref() == Some("1");
    let path = format!("{shield_dir}/{prefix}cpu_exclusive");
    let reason = "no other cpuset may have these CPUs";
    let write = WantedChange::write(exclusive, &path, "1", ValueComparison::Text, reason);
    wanted.push(write.of_cpuset(WrittenFile::CpusetFlag));
    let (balance, reason) = match shield.balanced {
        true => ("1", "the scheduler balances the programs of the shield among its CPUs"),
        false => ("0", "the scheduler does not balance load among the CPUs of the shield"),
    };
    for (dir, value, reason) in [
        (shield_dir.as_str(), balance, reason),
        (mount, "0", "otherwise load balancing of the root cpuset spans the shield"),
    ] {
        let path = format!("{dir}/{prefix}sched_load_balance");
        let compare = ValueComparison::Text;
        let write = WantedChange::write_setting(machine, &path, value, compare, reason);
        wanted.push(write.of_cpuset(WrittenFile::CpusetFlag).required());
    }
    wanted.extend(leave_closed(machine, shield));
    let (from, to) = (mount.to_owned(), housekeeping_dir);
    let change = Change::MoveTasks { from, to, keep: shield.kept_programs() };
    let reason = "every program of the root cpuset moves to the housekeeping CPUs";
    let moved = up && movable_threads(machine, shield).next().is_none();
    wanted.push(WantedChange::new(change, reason).already_if(moved).required());
    wanted
}

/// Warns about cpusets that keep shielded CPUs because they have no others: a v1 cpuset with tasks
/// cannot be empty.
pub(super) fn warnings(machine: &Machine, shield: &Shield) -> Vec<CpusetWarning> {
    let stuck = overlapping(machine, shield).into_iter().filter(|g| g.cpus.is_subset(&shield.cpus));
    stuck
        .map(|group| {
            let (path, cpus) = (group.path.clone(), group.cpus.clone());
            CpusetWarning::CpusetKeepsCpus { path, cpus }
        })
        .collect()
}

fn shrink_others(machine: &Machine, shield: &Shield) -> Vec<WantedChange> {
    let name = format!("{}cpus", machine.cgroup.prefix);
    let shrinks = overlapping(machine, shield).into_iter().filter_map(|group| {
        let remaining = group.cpus.difference(&shield.cpus);
        let reason = "this cpuset has CPUs of the shield, which must be exclusive";
        let now = Some(group.cpus.to_string());
        let path = format!("{}/{name}", group.path);
        (!remaining.is_empty()).then(|| {
            WantedChange::write(now, &path, &remaining.to_string(), ValueComparison::List, reason)
                .of_cpuset(WrittenFile::CpusetCpus)
        })
    });
    shrinks.collect()
}

/// One of the two cpusets.
struct V1Cpuset<'a> {
    dir: &'a str,
    title: &'a str,
    cpus: &'a CpuSet,
}

impl V1Cpuset<'_> {
    /// The directory first, then CPUs and memory: a cpuset accepts no task before it has both.
    fn wants(&self, machine: &Machine, mems: &CpuSet) -> [WantedChange; 3] {
        let (dir, title, prefix) = (self.dir, self.title, &machine.cgroup.prefix);
        let group = group_of(machine, dir);
        let change = Change::MakeDir { path: dir.to_owned() };
        let make = WantedChange::new(change, &format!("the cpuset of {title}"));
        let now = group.map(|group| group.cpus.to_string());
        let (path, value) = (format!("{dir}/{prefix}cpus"), self.cpus.to_string());
        let reason = format!("the CPUs of {title}");
        let cpus = WantedChange::write(now, &path, &value, ValueComparison::List, &reason)
            .of_cpuset(WrittenFile::CpusetCpus);
        let path = format!("{dir}/{prefix}mems");
        let (mems, compare) = (mems.to_string(), ValueComparison::List);
        let reason = format!("the memory nodes of {title}");
        let mems = WantedChange::write_setting(machine, &path, &mems, compare, &reason)
            .of_cpuset(WrittenFile::CpusetMems);
        [make.already_if(group.is_some()).required(), cpus.required(), mems.required()]
    }
}
