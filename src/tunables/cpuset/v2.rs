//! The shield as a cgroup v2 partition, made by cpushield or by systemd. Pure.
//!
//! The group gets the memory nodes of its CPUs. They are set before the partition exists, so before
//! a program can enter: an empty group has no pages that the kernel would move. A machine with one
//! memory node needs no such write, because the group inherits that node from its parent. On other
//! machines the nodes are always written, even all of them: a change of the shield then replaces
//! the value of its old version.

use super::super::WantedChange;
use super::super::want::setting;
use super::{group_of, leave_closed, overlapping, take_residents};
use crate::change::{Change, ValueComparison, WrittenFile};
use crate::documents::machine::{CpusetGroup, Machine};
use crate::documents::plan::Shield;
use cpushield_linux::CpuSet;
use cpushield_linux::text::first_releases::EXCLUSIVE_CPUS;

/// The file with the memory nodes of a group.
const MEMS: &str = "cpuset.mems";

/// The directory of the shield's group.
pub(super) fn dir(machine: &Machine, shield: &Shield, mount: &str) -> String {
    let end = if machine.cgroup.systemd { ".slice" } else { "" };
    format!("{mount}/{}{end}", shield.group())
}

/// The group with the programs that are on its CPUs already. Others may still enter these CPUs.
pub(super) fn wants_group(machine: &Machine, shield: &Shield, dir: &str) -> Vec<WantedChange> {
    let group = group_of(machine, dir);
    let mut wanted = Vec::new();
    if machine.cgroup.systemd {
        wanted.push(make_slice(machine, shield, group));
    } else {
        let (mount, _) = dir.rsplit_once('/').unwrap_or_default();
        wanted.extend(make_group(machine, shield, mount, dir, group));
        wanted.extend(set_mems(machine, shield, dir));
    }
    wanted.extend(take_residents(machine, shield, dir));
    wanted
}

pub(super) fn wants(machine: &Machine, shield: &Shield, mount: &str) -> Vec<WantedChange> {
    let dir = dir(machine, shield, mount);
    let group = group_of(machine, &dir);
    let mut wanted = shrink_siblings(machine, shield, mount);
    wanted.extend(wants_group(machine, shield, &dir));
    if shield.evict {
        wanted.extend(leave_closed(machine, shield));
    }
    let cpus = shield.cpus.to_string();
    let path = format!("{dir}/cpuset.cpus.exclusive");
    let now = setting(machine, &path).map(str::to_owned);
    // An existing group without this file means an older kernel.
    let can = machine.kernel.version.is_none_or(|version| version >= EXCLUSIVE_CPUS);
    if now.is_some() || (group.is_none() && can) {
        let reason = "no other group can then use these CPUs";
        let write = WantedChange::write(now, &path, &cpus, ValueComparison::List, reason);
        wanted.push(write.of_cpuset(WrittenFile::CpusetCpus));
    }
    let now = group.and_then(|group| group.partition.clone());
    let path = format!("{dir}/cpuset.cpus.partition");
    let (kind, reason) = match shield.balanced {
        true => ("root", "programs outside the shield cannot use these CPUs"),
        false => (
            "isolated",
            "programs outside the shield cannot use these CPUs, and the scheduler does not balance \
             load there",
        ),
    };
    let write = WantedChange::write(now, &path, kind, ValueComparison::Text, reason);
    wanted.push(write.of_cpuset(WrittenFile::CpusetPartition).required());
    wanted
}

/// Removes the CPUs from sibling groups: up to 6.19 a partition is invalid while a sibling's
/// `cpuset.cpus` has one of them (commit 2a3602030d80), even when `cpuset.cpus.exclusive` is set.
/// Deeper groups cannot have more CPUs than their parents.
fn shrink_siblings(machine: &Machine, shield: &Shield, mount: &str) -> Vec<WantedChange> {
    let mut wanted = Vec::new();
    for group in overlapping(machine, shield) {
        if group.path.rsplit_once('/').is_none_or(|(parent, _)| parent != mount) {
            continue;
        }
        // An empty list is fine: the group then has the CPUs of its parent.
        let remaining = group.cpus.difference(&shield.cpus).to_string();
        let now = Some(group.cpus.to_string());
        let path = format!("{}/cpuset.cpus", group.path);
        let reason = "this group has CPUs of the shield, which must be exclusive";
        let write = WantedChange::write(now, &path, &remaining, ValueComparison::List, reason);
        wanted.push(write.of_cpuset(WrittenFile::CpusetCpus));
    }
    wanted
}

fn make_slice(machine: &Machine, shield: &Shield, group: Option<&CpusetGroup>) -> WantedChange {
    let change = Change::Slice {
        unit: format!("{}.slice", shield.group()),
        cpus: shield.cpus.clone(),
        mems: written_mems(machine, shield),
    };
    let reason = "systemd owns the cgroup tree; a slice keeps systemd from removing the shield";
    let already = group.is_some_and(|group| {
        let mems = written_mems(machine, shield);
        let now = setting(machine, &format!("{}/{MEMS}", group.path)).unwrap_or_default();
        group.cpus == shield.cpus && ValueComparison::List.already(now, &mems.to_string())
    });
    WantedChange::new(change, reason).already_if(already).required()
}

fn make_group(
    machine: &Machine,
    shield: &Shield,
    mount: &str,
    dir: &str,
    group: Option<&CpusetGroup>,
) -> [WantedChange; 3] {
    let control = format!("{mount}/cgroup.subtree_control");
    let reason = "groups below the root can then have their own CPUs";
    let compare = ValueComparison::Member;
    let enable = WantedChange::write_setting(machine, &control, "+cpuset", compare, reason);
    let make =
        WantedChange::new(Change::MakeDir { path: dir.to_owned() }, "the group of the shield");
    let now = group.map(|group| group.cpus.to_string());
    let path = format!("{dir}/cpuset.cpus");
    let list = shield.cpus.to_string();
    let reason = "the CPUs of the shield";
    let cpus = WantedChange::write(now, &path, &list, ValueComparison::List, reason)
        .of_cpuset(WrittenFile::CpusetCpus);
    [enable.required(), make.already_if(group.is_some()).required(), cpus.required()]
}

/// The memory nodes that the group gets; none on a machine with one memory node.
fn written_mems(machine: &Machine, shield: &Shield) -> CpuSet {
    match has_memory_nodes(machine) {
        true => shield.mems.clone(),
        false => CpuSet::new(),
    }
}

/// Whether cpusets can have different memory nodes here. Without the root's list, the nodes that
/// have memory count.
fn has_memory_nodes(machine: &Machine) -> bool {
    let with_memory = machine.topology.nodes.iter().filter(|node| node.memory_kib != Some(0));
    match machine.cgroup.mems.len() {
        0 => with_memory.count() > 1,
        usable => usable > 1,
    }
}

/// Not required: without it, programs only have slower memory.
fn set_mems(machine: &Machine, shield: &Shield, dir: &str) -> Option<WantedChange> {
    let mems = written_mems(machine, shield);
    let path = format!("{dir}/{MEMS}");
    let reason = "the memory nodes of its CPUs; the group is empty, so the kernel moves no pages";
    let (list, compare) = (mems.to_string(), ValueComparison::List);
    let write = WantedChange::write_setting(machine, &path, &list, compare, reason);
    (!mems.is_empty()).then(|| write.of_cpuset(WrittenFile::CpusetMems))
}

#[cfg(test)]
mod tests {
    use crate::documents::machine::{CgroupMode, Machine};
    use crate::plan::fake::set;
    use crate::tunables::tests::{busy, shell};

    #[test]
    fn the_group_gets_the_memory_nodes_of_its_cpus_before_it_is_a_partition() {
        let mut m = busy(CgroupMode::V2);
        let is_about = |line: &String| line.contains("mems") || line.contains("AllowedMemoryNodes");
        let mems = |m: &Machine| -> Vec<String> {
            shell(m, "cpuset").into_iter().filter(is_about).collect()
        };
        assert_eq!(mems(&m), ["echo 1 > /sys/fs/cgroup/cpushield/cpuset.mems"]);
        let lines = shell(&m, "cpuset");
        let place = |word: &str| lines.iter().position(|line| line.contains(word)).unwrap();
        assert!(place("cpuset.mems") < place("partition"), "{lines:#?}");
        m.cgroup.systemd = true;
        assert_eq!(
            mems(&m),
            [
                "systemctl set-property --runtime cpushield.slice AllowedCPUs=3 AllowedMemoryNodes=1 \
              && systemctl start cpushield.slice"
            ]
        );
        // Memory of the CPU's node that cpusets may not use: every usable node.
        m.topology.nodes[1].memory_kib = Some(0);
        assert!(mems(&m)[0].contains("AllowedMemoryNodes=0-1"), "{:?}", mems(&m));
        // One memory node: the group inherits it.
        m.cgroup.mems = set("0");
        assert_eq!(mems(&m), Vec::<String>::new());
        m.cgroup.systemd = false;
        assert_eq!(mems(&m), Vec::<String>::new());
        // The root's list is not known: the nodes with memory count.
        m.cgroup.mems = set("");
        assert_eq!(mems(&m), Vec::<String>::new());
        m.topology.nodes[1].memory_kib = None;
        assert_eq!(mems(&m), ["echo 1 > /sys/fs/cgroup/cpushield/cpuset.mems"]);
    }
}
