//! `cpuset`: a partition of its own for the shield, which nobody else can enter. Pure.

mod v1;
mod v2;

use super::want::away;
use super::{Tunable, UnresolvedCause, WantedChange, WantedChanges};
use crate::causes::Cause;
use crate::change::{Change, Risk};
use crate::plan::{Plan, Shield, Step};
use crate::survey::{CgroupMode, CpusetGroup, Machine, PlacedThread};

#[derive(Debug)]
pub(super) struct Cpuset;

const PAGE: &str = "\
A cpuset partition takes CPUs away from every other program: the scheduler places no task there,
does not balance load there, and refuses with EINVAL a program that asks for these CPUs. Nothing
else keeps others out; an affinity or `isolcpus=` does not.

cgroup v2: the group `cpushield` gets the CPUs, alone (`cpuset.cpus.exclusive`, since 6.7), and
becomes an `isolated` partition. The kernel's answer is read back; `isolated invalid (reason)`
fails the shield with that reason. Where systemd owns the tree, it makes the slice
`cpushield.slice`, for this boot only, so that it does not take the shield apart.

cgroup v1 and hybrid: two cpusets, the shield (exclusive, no load balancing) and
`cpushield_housekeeping`, into which every program of the root is moved; load balancing of the
root is switched off, because its domain would span the shield.

Other cpusets that hold CPUs of the shield (containers, slices with AllowedCPUs=) lose them and
get them back by undo.

CPUs of `isolcpus=` can be a partition too, before 6.7 and from 6.17.3 on. Kernels between them
refuse it by mistake (`partition config conflicts with housekeeping setup`). apply asks; where the
kernel refuses it puts everything back and begins again without. Then, as on a machine without
cpusets, programs are moved away one by one and nothing keeps them out.

Cost: others have fewer CPUs. On v1, programs that pinned themselves have the affinity of their
cpuset meanwhile.

Source: kernel/cgroup/cpuset.c, validate_partition() (6.12); commits 4a74e418881f (6.7) and
216217ebee16 (6.18, 6.17.3) about isolcpus=, tried on 6.1, 6.12.107 and 7.2.13;
Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/cpusets.rst; systemd.resource-control(5).";

impl Tunable for Cpuset {
    fn name(&self) -> &'static str {
        "cpuset"
    }

    fn summary(&self) -> &'static str {
        "close the shield to all other programs and stop load balancing there"
    }

    fn page(&self) -> &'static str {
        PAGE
    }

    fn reads(&self) -> &'static [&'static str] {
        &[
            "/sys/fs/cgroup/cgroup.subtree_control",
            "/sys/fs/cgroup/cpushield*/cpuset.cpus.exclusive",
            "/sys/fs/cgroup/cpuset/cpuset.sched_load_balance",
            "/sys/fs/cgroup/cpuset/cpushield*/cpuset.sched_load_balance",
            "/sys/fs/cgroup/cpuset/cpushield*/cpuset.mems",
        ]
    }

    fn removes(&self) -> &'static [Cause] {
        &[Cause::UserTask, Cause::IpiReschedule]
    }

    fn risk(&self) -> Risk {
        Risk::Low
    }

    fn wants(&self, machine: &Machine, shield: &Shield) -> WantedChanges {
        WantedChanges::Changes(match (way(machine, shield), machine.cgroup.mount.as_deref()) {
            (ExclusionMethod::V2, Some(mount)) => v2::wants(machine, shield, mount),
            (ExclusionMethod::V1, Some(mount)) => v1::wants(machine, shield, mount),
            _ => by_affinity(machine, shield),
        })
    }

    fn remains(&self, machine: &Machine, shield: &Shield) -> UnresolvedCause {
        let mut warnings = match way(machine, shield) {
            ExclusionMethod::V1 => v1::warnings(machine, shield),
            ExclusionMethod::V2 => might_refuse(machine, shield).into_iter().collect(),
            ExclusionMethod::NoCpusets => vec![
                "this machine has no cpusets: programs are moved away once, but any program can \
                 move itself onto the shield"
                    .to_owned(),
            ],
            ExclusionMethod::Refused => vec![format!(
                "isolcpus= took CPU {} out of scheduling at boot, and this kernel makes no \
                 partition of it ({}): any program can move itself onto the shield. Boot without \
                 isolcpus= (or with isolcpus=managed_irq,… only) and the shield is closed",
                machine.isolation.isolcpus_domain.and(&shield.cpus),
                machine.cgroup.no_partition.as_deref().unwrap_or("no reason given")
            )],
        };
        let pinned = pinned(machine, shield);
        if matches!(way(machine, shield), ExclusionMethod::NoCpusets | ExclusionMethod::Refused)
            && pinned > 0
        {
            warnings.push(format!(
                "{pinned} thread(s) are pinned to CPU {} alone; they are left there, in case they \
                 are your workload",
                shield.cpus
            ));
        }
        UnresolvedCause { warnings, ..UnresolvedCause::default() }
    }
}

/// How programs are kept out on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ExclusionMethod {
    V2,
    V1,
    /// The kernel was asked for a partition with CPUs of `isolcpus=` and refused.
    Refused,
    NoCpusets,
}

fn has_isolcpus(machine: &Machine, shield: &Shield) -> bool {
    machine.isolation.isolcpus_domain.intersects(&shield.cpus)
}

fn way(machine: &Machine, shield: &Shield) -> ExclusionMethod {
    let refused = machine.cgroup.no_partition.is_some() && has_isolcpus(machine, shield);
    match machine.cgroup.mode {
        _ if machine.cgroup.mount.is_none() => ExclusionMethod::NoCpusets,
        CgroupMode::None => ExclusionMethod::NoCpusets,
        CgroupMode::V2 if refused => ExclusionMethod::Refused,
        CgroupMode::V2 => ExclusionMethod::V2,
        CgroupMode::V1 | CgroupMode::Hybrid => ExclusionMethod::V1,
    }
}

/// Kernels of these versions are known to refuse a partition with CPUs of `isolcpus=`: commit
/// 4a74e418881f (6.7) checks the new kind of partition before it is set, 216217ebee16 (6.18, also
/// in 6.17.3) corrects that. What a kernel really does apply finds out.
const REFUSING: std::ops::Range<(u32, u32)> = (6, 7)..(6, 18);

/// What a plan says before the kernel was asked.
fn might_refuse(machine: &Machine, shield: &Shield) -> Option<String> {
    let known = machine.kernel.version.is_some_and(|version| !REFUSING.contains(&version));
    if known || !has_isolcpus(machine, shield) {
        return None;
    }
    Some(format!(
        "isolcpus= took CPU {} out of scheduling at boot; kernels from 6.7 to 6.17.2 make no \
         partition of such a CPU. If this one refuses, apply begins again without, and any program \
         can move itself onto the shield. Boot without isolcpus= (or with isolcpus=managed_irq,… \
         only) and the shield is closed",
        machine.isolation.isolcpus_domain.and(&shield.cpus)
    ))
}

/// Tells a machine that was surveyed beside a shield that the kernel refused it a partition: the
/// plan that was applied then has none.
pub(super) fn recall(machine: &mut Machine, plan: &Plan) {
    let partition = |step: &Step| match &step.change {
        Change::Write { path, .. } => path.ends_with("/cpuset.cpus.partition"),
        _ => false,
    };
    let without = !plan.steps.iter().any(partition)
        && !plan.already.contains_key("cpuset")
        && !plan.skipped.iter().any(|it| it.tunable == "cpuset");
    if without
        && way(machine, &plan.shield) == ExclusionMethod::V2
        && has_isolcpus(machine, &plan.shield)
    {
        let answer = "it refused when the shield was made".to_owned();
        machine.cgroup.no_partition = Some(answer);
    }
}

/// Other cpusets that have CPUs of the shield, deepest first: a child must lie within its parent.
fn overlapping<'a>(machine: &'a Machine, shield: &Shield) -> Vec<&'a CpusetGroup> {
    let ours = shield.group();
    let rest = format!("{ours}_housekeeping");
    let is_ours = |name: &str| {
        name == ours || name == rest || name.strip_suffix(".slice") == Some(ours.as_str())
    };
    let mut groups: Vec<&CpusetGroup> = machine
        .cgroup
        .groups
        .iter()
        .filter(|group| group.cpus.intersects(&shield.cpus))
        .filter(|group| !group.path.split('/').any(is_ours))
        .collect();
    groups.sort_by_key(|group| std::cmp::Reverse(group.path.matches('/').count()));
    groups
}

fn group_of<'a>(machine: &'a Machine, path: &str) -> Option<&'a CpusetGroup> {
    machine.cgroup.groups.iter().find(|group| group.path == path)
}

/// User threads that may run on both sides.
fn strays<'a>(machine: &'a Machine, shield: &'a Shield) -> impl Iterator<Item = &'a PlacedThread> {
    machine.tasks.iter().filter(|placed| {
        !placed.task.kthread
            && placed.affinity.intersects(&shield.cpus)
            && !placed.affinity.is_subset(&shield.cpus)
    })
}

/// How many user threads are pinned to the shield alone.
fn pinned(machine: &Machine, shield: &Shield) -> usize {
    let there = |placed: &&PlacedThread| {
        !placed.task.kthread
            && !placed.affinity.is_empty()
            && placed.affinity.is_subset(&shield.cpus)
    };
    machine.tasks.iter().filter(there).count()
}

/// Without a partition programs are moved one by one; nothing keeps them out.
fn by_affinity(machine: &Machine, shield: &Shield) -> Vec<WantedChange> {
    let reason = "this program may run on the shield, and no cpuset keeps it out";
    strays(machine, shield)
        .map(|placed| WantedChange::affinity(placed, away(&placed.affinity, shield), reason))
        .collect()
}
