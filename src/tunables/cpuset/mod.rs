//! `cpuset`: a separate partition for the shield, which no other program can enter. Pure.

mod v1;
mod v2;

use super::want::keep_program_off;
use super::{Tunable, UnresolvedCause, WantedChange, WantedChanges};
use crate::causes::{Cause, Culprit};
use crate::change::{Change, EffectTime, Risk, WrittenFile};
use crate::documents::machine::{CgroupMode, CpusetGroup, Machine, PlacedThread};
use crate::documents::plan::{BootLine, CpusetWarning, Plan, PlanWarning, Shield, Step};
use crate::documents::remedy::Remedy;
use cpushield_linux::Task;
use std::collections::BTreeSet;

/// The cgroup v1 cpuset of all programs that are in no shield.
pub const HOUSEKEEPING: &str = "cpushield_housekeeping";

const PAGE: &str = "\
A cpuset partition takes CPUs away from every other program: the scheduler places no other task on
them and does not balance load among them. A program that requests only these CPUs gets EINVAL. Only
a partition keeps other programs out; an affinity or `isolcpus=` does not. Kernel threads that are
bound to one of the CPUs stay there (`kthreads`).

A program that a user has pinned to CPUs of the shield before is a program of the shield: its whole
process moves into the group before others lose these CPUs. Undo moves it back, and its threads get
their masks again. A program that only its own cpuset keeps there (a container, AllowedCPUs=) stays.

cgroup v2: the group `cpushield` gets the CPUs exclusively (`cpuset.cpus.exclusive`, since 6.7) and
becomes an `isolated` partition (since 6.1). apply reads back the kernel's answer; if it is
`isolated invalid (reason)`, apply fails with that reason. If systemd owns the cgroup tree,
cpushield asks systemd to create the slice `cpushield.slice` for this boot only. Otherwise systemd
would remove the shield.

cgroup v1 and hybrid: cpushield creates two cpusets, the shield (exclusive, no load balancing) and
`cpushield_housekeeping`. It moves every program and every movable kernel thread of the root cpuset
into the second. It also switches off load balancing in the root cpuset, because the scheduling
domain of the root would span the shield.

On a machine with several memory nodes, programs of the shield get memory only from the nodes of its
CPUs (`cpuset.mems`; AllowedMemoryNodes= for a slice). If those nodes have no memory that cpusets
may use, the programs get all usable nodes, and a warning says so. cpushield sets the nodes while
the group is empty. Since 5.15 the kernel moves the pages of a program that enters a group of cgroup
v2 or leaves it. It also moves the pages of the programs in the group when the group's nodes change.
Some pages may stay where they are. All of them do if the program leaves a group that existed before
its cpuset controller was enabled, as under systemd (tried on 6.12). A program that starts in the
shield has its pages on these nodes from the beginning. While the kernel moves pages, it may also
run a work item once on each CPU, the CPUs of other shields included.

With `--balance` the partition is of type `root` (v1: with load balancing): other programs still
cannot enter, but the scheduler moves the programs of the shield among its CPUs. This causes
interruptions, which `verify` reports.

Other cpusets with CPUs of the shield (containers, slices with AllowedCPUs=) lose these CPUs; undo
gives them back. On v1, a cpuset that has no other CPUs keeps them, and the plan warns of it.

CPUs in `isolcpus=` can be a partition too, before 6.7 and from 6.17.3 on. Kernels in between have a
bug and refuse the partition (`partition config conflicts with housekeeping setup`). apply tries it
on every kernel. If the kernel refuses, apply restores everything and starts again without a
partition. Then the group is for `run` and `add` only: as on a machine without cpusets, apply moves
programs off the shield one by one, but nothing keeps them out.

`/sys/devices/system/cpu/isolated` lists only the CPUs that were isolated at boot, and LinuxCNC 2.10
looks for its CPU only there. So `run` sets RTAPI_CPU_NUMBER to the highest of the program's CPUs.
It does not change a value that you have set.

Cost: other programs have fewer CPUs. Before 6.2, programs that pinned themselves get the affinity
of their cpuset while the shield is active. Since 6.2 this is true only of programs that are pinned
to shielded CPUs alone (`keep-affinities`).

Source: kernel/cgroup/cpuset.c, prstate_housekeeping_conflict() (6.12); commits 4a74e418881f (6.7)
and 216217ebee16 (6.18, 6.17.3) about isolcpus=, tried on 6.1, 6.12.107 and 7.2.13; cpuset_attach(),
which remembers the former nodes of only one such group, cpuset_migrate_mm() (6.12) and commit
ee9707e8593d (5.15) about moved pages; lru_cache_disable(), mm/swap.c (6.12) about the work items;
Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/cpusets.rst; systemd.resource-control(5).";

pub(super) const CPUSET: Tunable = Tunable {
    name: "cpuset",
    summary: "keep all other programs off the shield and stop load balancing there",
    page: PAGE,
    reads: &[
        "/sys/fs/cgroup/cgroup.subtree_control",
        "/sys/fs/cgroup/cpushield*/cpuset.cpus.exclusive",
        "/sys/fs/cgroup/cpushield*/cpuset.mems",
        "/sys/fs/cgroup/cpuset/cpuset.sched_load_balance",
        "/sys/fs/cgroup/cpuset/cpushield*/cpuset.sched_load_balance",
        "/sys/fs/cgroup/cpuset/cpushield*/cpuset.mems",
    ],
    removes: &[Cause::UserTask, Cause::IpiReschedule],
    risk: Risk::Low,
    wants,
    remains,
    ..Tunable::PLAIN
};

fn wants(machine: &Machine, shield: &Shield) -> WantedChanges {
    WantedChanges::Changes(
        match (exclusion_method(machine, shield), machine.cgroup.mount.as_deref()) {
            (ExclusionMethod::V2, Some(mount)) => v2::wants(machine, shield, mount),
            (ExclusionMethod::Refused, Some(mount)) => {
                let group = v2::wants_group(machine, shield, &v2::dir(machine, shield, mount));
                group.into_iter().chain(by_affinity(machine, shield)).collect()
            }
            (ExclusionMethod::V1, Some(mount)) => v1::wants(machine, shield, mount),
            _ => by_affinity(machine, shield),
        },
    )
}

fn remains(machine: &Machine, shield: &Shield) -> UnresolvedCause {
    let mut warnings = match exclusion_method(machine, shield) {
        ExclusionMethod::V1 => v1::warnings(machine, shield),
        ExclusionMethod::V2 => warn_possible_refusal(machine, shield).into_iter().collect(),
        ExclusionMethod::NoCpusets => vec![CpusetWarning::NoCpusets],
        ExclusionMethod::Refused => {
            let cpus = machine.isolation.isolcpus_domain.intersection(&shield.cpus);
            let answer = machine.cgroup.no_partition.clone();
            let boot = BootLine::new(machine, &cpus);
            vec![CpusetWarning::PartitionRefused { cpus, answer, boot }]
        }
    };
    if shield.balanced {
        warnings.push(warn_of_balance(machine, shield));
    }
    let (_, split) = find_residents(machine, shield);
    let programs = split.iter().map(|task| format!("{} ({})", task.comm, task.id.tid));
    let programs: Vec<String> = programs.collect();
    if !programs.is_empty() {
        let cpus = shield.cpus.clone();
        warnings.push(CpusetWarning::ThreadsElsewhere { programs, cpus });
    }
    let count = count_pinned(machine, shield);
    if exclusion_method(machine, shield) == ExclusionMethod::NoCpusets && count > 0 {
        warnings.push(CpusetWarning::ThreadsPinned { count, cpus: shield.cpus.clone() });
    }
    let warnings = warnings.into_iter().map(PlanWarning::from).collect();
    UnresolvedCause { warnings, ..UnresolvedCause::default() }
}

/// What a balanced shield does not keep away.
fn warn_of_balance(machine: &Machine, shield: &Shield) -> CpusetWarning {
    match exclusion_method(machine, shield) {
        ExclusionMethod::V1 | ExclusionMethod::V2 => {
            CpusetWarning::Balanced { cpus: shield.cpus.clone() }
        }
        ExclusionMethod::NoCpusets | ExclusionMethod::Refused => {
            CpusetWarning::BalanceWithoutCpuset
        }
    }
}

/// Whether only load balancing causes this in a balanced shield.
pub(super) fn is_balancing(culprit: &Culprit) -> bool {
    match culprit {
        Culprit::Softirq { name, .. } => name == "SCHED",
        Culprit::Kthread { comm } => comm.starts_with("migration/"),
        _ => false,
    }
}

/// What removes interruptions by load balancing among the CPUs of a balanced shield; `None` where
/// no load is balanced: in another shield, without a cpuset, or on one CPU, which gets no
/// scheduling domain (`sd_degenerate()`, kernel/sched/topology.c, 6.12).
pub(super) fn remedy_of_balancing(machine: &Machine, shield: &Shield) -> Option<Remedy> {
    let has_cpuset = match exclusion_method(machine, shield) {
        ExclusionMethod::V1 | ExclusionMethod::V2 => true,
        ExclusionMethod::NoCpusets | ExclusionMethod::Refused => false,
    };
    (shield.balanced && has_cpuset && shield.cpus.len() > 1).then(|| {
        let isolated = Shield { balanced: false, ..shield.clone() };
        Remedy {
            tunable: "cpuset".to_owned(),
            when: EffectTime::Runtime,
            how: isolated.request_command("cpushield apply"),
        }
    })
}

/// How programs are kept off the shield on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ExclusionMethod {
    V2,
    V1,
    /// The kernel refused a partition with CPUs of `isolcpus=`.
    Refused,
    NoCpusets,
}

fn has_isolcpus(machine: &Machine, shield: &Shield) -> bool {
    machine.isolation.isolcpus_domain.intersects(&shield.cpus)
}

fn exclusion_method(machine: &Machine, shield: &Shield) -> ExclusionMethod {
    let refused = machine.cgroup.no_partition.is_some() && has_isolcpus(machine, shield);
    match machine.cgroup.mode {
        _ if machine.cgroup.mount.is_none() => ExclusionMethod::NoCpusets,
        CgroupMode::None => ExclusionMethod::NoCpusets,
        CgroupMode::V2 if refused => ExclusionMethod::Refused,
        CgroupMode::V2 => ExclusionMethod::V2,
        CgroupMode::V1 | CgroupMode::Hybrid => ExclusionMethod::V1,
    }
}

/// Warns before the kernel was asked for a partition. apply finds out what a kernel really does.
fn warn_possible_refusal(machine: &Machine, shield: &Shield) -> Option<CpusetWarning> {
    let may_refuse = machine.may_refuse_partition(machine.kernel.version);
    if !may_refuse || !has_isolcpus(machine, shield) {
        return None;
    }
    let cpus = machine.isolation.isolcpus_domain.intersection(&shield.cpus);
    let boot = BootLine::new(machine, &cpus);
    Some(CpusetWarning::PartitionDoubtful { cpus, boot })
}

/// Completes a survey with an active shield: when the applied plan has no partition, the kernel
/// refused it.
pub(super) fn complete_survey(machine: &mut Machine, plan: &Plan) {
    let without = !plan.steps.iter().any(sets_partition)
        && !plan.already.contains_key("cpuset")
        && !plan.skipped.iter().any(|it| it.tunable == "cpuset");
    if without
        && exclusion_method(machine, &plan.shield) == ExclusionMethod::V2
        && has_isolcpus(machine, &plan.shield)
    {
        let answer = "the kernel refused one when the shield was applied".to_owned();
        machine.cgroup.no_partition = Some(answer);
    }
}

fn sets_partition(step: &Step) -> bool {
    matches!(step.change, Change::Write { what: WrittenFile::CpusetPartition, .. })
}

/// Other cpusets with CPUs of the shield, deepest first: a child's CPUs must be a subset of its
/// parent's.
fn overlapping<'a>(machine: &'a Machine, shield: &Shield) -> Vec<&'a CpusetGroup> {
    let ours = shield.group();
    let names = [HOUSEKEEPING.to_owned(), format!("{ours}.slice"), ours];
    let mut groups: Vec<&CpusetGroup> = machine
        .cgroup
        .groups
        .iter()
        .filter(|group| group.cpus.intersects(&shield.cpus))
        .filter(|group| !group.path.split('/').any(|part| names.iter().any(|name| name == part)))
        .collect();
    groups.sort_by_key(|group| std::cmp::Reverse(group.path.matches('/').count()));
    groups
}

/// A partition, or an exclusive cpuset, of another program that has CPUs of the shield. Taking them
/// away would make it invalid.
#[must_use]
pub fn foreign_partition<'a>(machine: &'a Machine, shield: &Shield) -> Option<&'a CpusetGroup> {
    overlapping(machine, shield).into_iter().find(|group| match machine.cgroup.mode {
        CgroupMode::V2 => group.partition_state().is_valid_partition(),
        // The root of the hierarchy is exclusive too.
        CgroupMode::V1 | CgroupMode::Hybrid => {
            group.exclusive && machine.cgroup.mount.as_deref() != Some(group.path.as_str())
        }
        CgroupMode::None => false,
    })
}

fn group_of<'a>(machine: &'a Machine, path: &str) -> Option<&'a CpusetGroup> {
    machine.cgroup.groups.iter().find(|group| group.path == path)
}

/// User threads that may run both on and off the shield.
fn movable_threads<'a>(
    machine: &'a Machine,
    shield: &'a Shield,
) -> impl Iterator<Item = &'a PlacedThread> {
    machine.tasks.iter().filter(|placed| {
        !placed.task.kthread
            && placed.affinity.intersects(&shield.cpus)
            && !placed.affinity.is_subset(&shield.cpus)
    })
}

/// Moves the processes into the group of the shield that the user runs on its CPUs already, before
/// others lose these CPUs.
fn take_residents(machine: &Machine, shield: &Shield, dir: &str) -> Vec<WantedChange> {
    let reason = "it runs on these CPUs already, so it is a program of the shield";
    let (residents, _) = find_residents(machine, shield);
    let wanted = residents.into_iter().map(|task| {
        let (task, comm, to) = (task.id, task.comm.clone(), dir.to_owned());
        WantedChange::new(Change::MoveProcess { task, comm, to }, reason).required()
    });
    wanted.collect()
}

/// The first threads of the processes that users have pinned to the shield, and of those among
/// them that have a thread pinned elsewhere: they cannot join.
fn find_residents<'a>(machine: &'a Machine, shield: &Shield) -> (Vec<&'a Task>, Vec<&'a Task>) {
    let pinned = machine.tasks.iter().filter(|placed| is_resident(machine, shield, placed));
    let pids: BTreeSet<i32> = pinned.map(|placed| placed.task.pid).collect();
    // With isolcpus= the mask of the first process, which others inherit, has none of these CPUs.
    let init = machine.tasks.iter().find(|placed| placed.task.id.tid == 1);
    let usual = init.map(|init| init.affinity.clone()).unwrap_or_default();
    let elsewhere = machine.tasks.iter().filter(|placed| {
        !usual.is_subset(&placed.affinity) && !placed.affinity.intersects(&shield.cpus)
    });
    let elsewhere: BTreeSet<i32> = elsewhere.map(|placed| placed.task.pid).collect();
    let first = machine.tasks.iter().map(|placed| &placed.task);
    first
        .filter(|task| task.id.tid == task.pid && pids.contains(&task.pid))
        .partition(|task| !elsewhere.contains(&task.pid))
}

/// Whether a user has pinned this thread to the shield: its cpuset, which is no shield of
/// cpushield, has all CPUs.
fn is_resident(machine: &Machine, shield: &Shield, placed: &PlacedThread) -> bool {
    let PlacedThread { task, affinity, group } = placed;
    let mount = machine.cgroup.mount.as_deref().unwrap_or_default();
    let rest = format!("{mount}/{HOUSEKEEPING}");
    let group = group.as_deref().unwrap_or_default();
    let is_shielded = group.starts_with(&format!("{mount}/cpushield")) && group != rest;
    let is_here = !affinity.is_empty() && affinity.is_subset(&shield.cpus);
    let is_own = task.pid == 1 || machine.own_processes.contains(&task.pid);
    if task.kthread || is_own || !is_here || is_shielded {
        return false;
    }
    let sets = machine.cgroup.groups.iter().filter(|set| {
        let below = group.strip_prefix(&set.path);
        set.path != rest && below.is_some_and(|below| below.is_empty() || below.starts_with('/'))
    });
    let cpus = sets.max_by_key(|set| set.path.len()).map(|set| &set.cpus);
    cpus.is_none_or(|cpus| cpus.is_empty() || machine.topology.online.is_subset(cpus))
}

/// Moves programs off isolated CPUs that are not in the shield: all of them on request, otherwise
/// those that may run on the shield too.
fn leave_closed(machine: &Machine, shield: &Shield) -> Vec<WantedChange> {
    let kept = shield.kept();
    let both = shield.cpus.union(&shield.closed);
    let reason = "this program is pinned to isolated CPUs";
    let pinned = machine.tasks.iter().filter(|placed| {
        let cpus = &placed.affinity;
        let is_on_closed = cpus.is_subset(&both) && cpus.intersects(&shield.closed);
        !placed.task.kthread && is_on_closed && !cpus.is_subset(&kept)
    });
    pinned
        .map(|placed| {
            let cpus = keep_program_off(&placed.affinity, machine, shield);
            WantedChange::affinity(placed, cpus, reason)
        })
        .collect()
}

/// The number of user threads that are pinned to the shield.
fn count_pinned(machine: &Machine, shield: &Shield) -> usize {
    let user = machine.tasks.iter().filter(|placed| !placed.task.kthread);
    user.filter(|it| !it.affinity.is_empty() && it.affinity.is_subset(&shield.cpus)).count()
}

/// Moves programs one by one, where there is no partition; nothing keeps them off.
fn by_affinity(machine: &Machine, shield: &Shield) -> Vec<WantedChange> {
    let reason = "this program may run on the shield, and no cpuset keeps it out";
    movable_threads(machine, shield)
        .map(|placed| {
            WantedChange::affinity(
                placed,
                keep_program_off(&placed.affinity, machine, shield),
                reason,
            )
        })
        .collect()
}
