//! The exclusive cpusets of other programs, and which of them cset has made. Pure.

use super::{CpusetGroup, Machine};

/// The cpusets that cpushield did not make and whose CPUs no other set may have: exclusive ones
/// (v1), and partitions that the kernel accepts (v2). The root of a v1 hierarchy is none of them.
pub fn exclusive_cpusets(machine: &Machine) -> impl Iterator<Item = &CpusetGroup> {
    let mount = machine.cgroup.mount.as_deref();
    let groups = machine.cgroup.groups.iter();
    groups.filter(move |group| {
        let exclusive = group.is_exclusive();
        exclusive && !group.name().starts_with("cpushield") && mount != Some(group.path.as_str())
    })
}

/// Whether `cset shield` has made this set: it makes `user` next to `system`
/// (cpuset/commands/shield.py, 1.6).
#[must_use]
pub fn is_of_cset(machine: &Machine, group: &CpusetGroup) -> bool {
    let Some((parent, name)) = group.path.rsplit_once('/') else { return false };
    let other = match name {
        "user" => "system",
        "system" => "user",
        _ => return false,
    };
    let other = format!("{parent}/{other}");
    machine.cgroup.groups.iter().any(|group| group.path == other)
}
