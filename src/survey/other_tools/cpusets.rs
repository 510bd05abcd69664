//! The cpusets of cset and partrt. `cset shield` makes the exclusive sets `user` and `system`
//! (cpuset/commands/shield.py, 1.6); with its options and with `cset set --cpu_exclusive` they have
//! other names. partrt makes an exclusive set `rt` without load balancing, and `nrt`
//! (partrt/partrt, 1.2).

use super::{
    Machine, OtherTool, SettingPlace, SetupError, ToolSetup, ToolShield, settings_in_force,
};
use crate::survey::CpusetGroup;
use cpushield_linux::Host;

/// The files that `partrt create` writes, and the value it writes where that is fixed.
const PARTRT_FILES: &[(&str, Option<&str>)] = &[
    ("/proc/sys/kernel/sched_rt_runtime_us", Some("-1")),
    ("/sys/kernel/debug/sched_tick_max_deferment", Some("-1")),
    ("/proc/sys/vm/stat_interval", Some("1000")),
    ("/sys/bus/workqueue/devices/writeback/numa", Some("0")),
    ("/proc/sys/kernel/watchdog", Some("0")),
    ("/sys/bus/workqueue/devices/writeback/cpumask", None),
    ("/sys/devices/system/machinecheck/machinecheck0/check_interval", Some("0")),
];

/// Reads the shield of cset: the set `user` next to `system`, or else every exclusive set.
pub(super) fn read_cset(machine: &Machine) -> Result<ToolSetup, SetupError> {
    let (groups, tool) = (foreign_groups(machine), OtherTool::Cset);
    let user = groups.iter().find(|group| {
        let sibling = parent(group).map(|parent| format!("{parent}/system"));
        group.name() == "user" && sibling.is_some_and(|path| groups.iter().any(|g| g.path == path))
    });
    let mut remarks = Vec::new();
    let mut sets: Vec<&CpusetGroup> = match user {
        Some(user) => vec![*user],
        None => groups.into_iter().filter(|group| group.is_exclusive()).collect(),
    };
    sets.retain(|group| !group.cpus.is_empty() && group.cpus != machine.topology.online);
    // A set inside an exclusive set has no CPUs of its own.
    let outer = sets.clone();
    sets.retain(|group| {
        !outer.iter().any(|outer| group.path.starts_with(&format!("{}/", outer.path)))
    });
    let boot = machine.topology.boot_cpu();
    let has_boot = |group: &&CpusetGroup| boot.is_some_and(|cpu| group.cpus.contains(cpu));
    if sets.len() > 1
        && let Some(rest) = sets.iter().find(|group| has_boot(group))
    {
        remarks.push(format!(
            "{} contains the boot CPU, so it is treated as the cpuset of all other programs",
            rest.path
        ));
        sets.retain(|group| !has_boot(group));
    }
    if sets.is_empty() {
        let why = "there is no cpuset `user` next to `system`, and no other exclusive cpuset";
        return Err(nothing(machine, tool, why.to_owned()));
    }
    let shields = sets.iter().map(|group| shield_of(machine, group)).collect();
    Ok(ToolSetup { tool, name: None, shields, settings: Vec::new(), remarks })
}

/// Reads the partition of partrt, and the files that it writes.
pub(super) fn read_partrt(host: &Host, machine: &Machine) -> Result<ToolSetup, SetupError> {
    let (groups, tool) = (foreign_groups(machine), OtherTool::Partrt);
    let mount = machine.cgroup.mount.clone().unwrap_or_default();
    let find = |name: &str| groups.iter().find(|group| group.path == format!("{mount}/{name}"));
    let (Some(rt), Some(_)) = (find("rt").filter(|rt| !rt.cpus.is_empty()), find("nrt")) else {
        let why = "there are no cpusets `rt` and `nrt`; to read cpusets with other names, such as \
                   those of `partrt -r`, use --from cset";
        return Err(nothing(machine, tool, why.to_owned()));
    };
    let settings = settings_in_force(host, PARTRT_FILES).collect();
    let shields = vec![shield_of(machine, rt)];
    Ok(ToolSetup { tool, name: None, shields, settings, remarks: Vec::new() })
}

/// The cpusets that cpushield did not make.
fn foreign_groups(machine: &Machine) -> Vec<&CpusetGroup> {
    let groups = machine.cgroup.groups.iter();
    groups.filter(|group| !group.name().starts_with("cpushield")).collect()
}

fn parent(group: &CpusetGroup) -> Option<&str> {
    group.path.rsplit_once('/').map(|(parent, _)| parent)
}

fn shield_of(machine: &Machine, group: &CpusetGroup) -> ToolShield {
    ToolShield {
        name: group.name().to_owned(),
        cpus: group.cpus.clone(),
        what: format!("the cpuset {}", group.path),
        place: SettingPlace::file(&format!("{}/{}cpus", group.path, machine.cgroup.prefix)),
    }
}

/// The error that the cpusets of this machine show no setup of the tool.
fn nothing(machine: &Machine, tool: OtherTool, why: String) -> SetupError {
    let looked_in = match &machine.cgroup.mount {
        Some(mount) => vec![mount.clone()],
        None => vec!["/proc/self/mountinfo (no cpusets are mounted)".to_owned()],
    };
    SetupError::NothingFound { tool, why, looked_in }
}
