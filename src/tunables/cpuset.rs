//! `cpuset`: a partition of its own for the shield, which nobody else can enter. Pure.

use super::want::setting;
use super::{Remains, Tunable, Wanted, Wants};
use crate::causes::Cause;
use crate::change::{Change, Compare, Risk};
use crate::plan::Shield;
use crate::survey::{CgroupMode, CpusetGroup, Machine};
use cpushield_linux::CpuSet;

#[derive(Debug)]
pub(super) struct Cpuset;

impl Tunable for Cpuset {
    fn name(&self) -> &'static str {
        "cpuset"
    }

    fn summary(&self) -> &'static str {
        "close the shield to all other programs and stop load balancing there"
    }

    fn page(&self) -> &'static str {
        "A cpuset partition takes CPUs away from every other program: the scheduler places nothing \
         there, does not balance load there, and refuses a program that asks for these CPUs with \
         EINVAL."
    }

    fn reads(&self) -> &'static [&'static str] {
        &["/sys/fs/cgroup/cgroup.subtree_control"]
    }

    fn removes(&self) -> &'static [Cause] {
        &[Cause::UserTask, Cause::IpiReschedule]
    }

    fn risk(&self) -> Risk {
        Risk::Low
    }

    fn wants(&self, machine: &Machine, shield: &Shield) -> Wants {
        let Some(mount) = machine.cgroup.mount.as_deref() else {
            return Wants::Changes(by_affinity(machine, shield));
        };
        match machine.cgroup.mode {
            CgroupMode::None => Wants::Changes(by_affinity(machine, shield)),
            CgroupMode::V2 if machine.isolation.isolcpus_domain.intersects(&shield.cpus) => {
                Wants::Changes(by_affinity(machine, shield))
            }
            CgroupMode::V2 => Wants::Changes(v2(machine, shield, mount)),
            CgroupMode::V1 | CgroupMode::Hybrid => Wants::Changes(v1(machine, shield, mount)),
        }
    }

    fn remains(&self, machine: &Machine, shield: &Shield) -> Remains {
        let mut remains = Remains::default();
        let isolcpus = &machine.isolation.isolcpus_domain;
        if machine.cgroup.mode == CgroupMode::None || machine.cgroup.mount.is_none() {
            remains.warnings.push(
                "this machine has no cpusets: programs are moved away once, but any program can \
                 move itself onto the shield"
                    .to_owned(),
            );
        } else if machine.cgroup.mode == CgroupMode::V2 && isolcpus.intersects(&shield.cpus) {
            remains.warnings.push(format!(
                "isolcpus= took CPU {} out of scheduling at boot, which makes a partition there \
                 invalid: any program can move itself onto the shield. Boot without isolcpus= (or \
                 with isolcpus=managed_irq,… only) and the shield is closed",
                isolcpus.and(&shield.cpus)
            ));
        }
        remains
    }
}

/// Other cpusets that have CPUs of the shield, deepest first: a child must lie within its parent.
fn overlapping<'a>(machine: &'a Machine, shield: &Shield) -> Vec<&'a CpusetGroup> {
    let ours = shield.group();
    let mut groups: Vec<&CpusetGroup> = machine
        .cgroup
        .groups
        .iter()
        .filter(|group| group.cpus.intersects(&shield.cpus))
        .filter(|group| !group.path.split('/').any(|name| is_ours(name, &ours)))
        .collect();
    groups.sort_by_key(|group| std::cmp::Reverse(group.path.matches('/').count()));
    groups
}

fn is_ours(name: &str, group: &str) -> bool {
    name == group || name.strip_suffix(".slice") == Some(group)
}

fn group_of<'a>(machine: &'a Machine, path: &str) -> Option<&'a CpusetGroup> {
    machine.cgroup.groups.iter().find(|group| group.path == path)
}

/// A file of a cpuset group, of which the survey knows some values.
fn file(now: Option<String>, path: &str, value: &str, compare: Compare, reason: &str) -> Wanted {
    Wanted::over(now, path, value, compare, reason)
}

fn shrink(machine: &Machine, shield: &Shield, name: &str) -> Vec<Wanted> {
    overlapping(machine, shield)
        .into_iter()
        .filter_map(|group| {
            let rest = group.cpus.minus(&shield.cpus);
            let path = format!("{}/{name}", group.path);
            let reason = "this cpuset has CPUs of the shield, which must be nobody else's";
            let now = Some(group.cpus.to_string());
            (!rest.is_empty()).then(|| file(now, &path, &rest.to_string(), Compare::List, reason))
        })
        .collect()
}

fn v2(machine: &Machine, shield: &Shield, mount: &str) -> Vec<Wanted> {
    let mut wanted = shrink(machine, shield, "cpuset.cpus");
    let cpus = shield.cpus.to_string();
    let dir = if machine.cgroup.systemd {
        let unit = format!("{}.slice", shield.group());
        let dir = format!("{mount}/{unit}");
        let made = group_of(machine, &dir).is_some_and(|group| group.cpus == shield.cpus);
        let change =
            Change::Slice { unit, cpus: shield.cpus.clone(), mems: machine.cgroup.mems.clone() };
        let reason = "systemd owns the tree of control groups; a slice of its own keeps it from \
                      taking the shield apart";
        wanted.push(Wanted::new(change, reason).already(made).required());
        dir
    } else {
        let dir = format!("{mount}/{}", shield.group());
        let control = format!("{mount}/cgroup.subtree_control");
        let reason = "groups below the root can then have CPUs";
        let now = setting(machine, &control).map(str::to_owned);
        wanted.push(file(now, &control, "+cpuset", Compare::Member, reason).required());
        let change = Change::MakeDir { path: dir.clone() };
        let made = group_of(machine, &dir).is_some();
        wanted.push(Wanted::new(change, "the group of the shield").already(made).required());
        let now = group_of(machine, &dir).map(|group| group.cpus.to_string());
        let path = format!("{dir}/cpuset.cpus");
        let reason = "the CPUs of the shield";
        wanted.push(file(now, &path, &cpus, Compare::List, reason).required());
        dir
    };
    let group = group_of(machine, &dir);
    let isolated = group.and_then(|group| group.partition.clone());
    let exclusive = isolated.as_deref() == Some("isolated");
    if machine.kernel.version.is_none_or(|version| version >= (6, 7)) {
        let now = exclusive.then(|| cpus.clone());
        let path = format!("{dir}/cpuset.cpus.exclusive");
        let reason = "nobody else's group may then have them";
        wanted.push(file(now, &path, &cpus, Compare::List, reason));
    }
    let path = format!("{dir}/cpuset.cpus.partition");
    let reason = "other programs cannot enter, and the scheduler does not balance load there";
    wanted.push(file(isolated, &path, "isolated", Compare::Text, reason).required());
    wanted
}

fn v1(machine: &Machine, shield: &Shield, mount: &str) -> Vec<Wanted> {
    let prefix = &machine.cgroup.prefix;
    let mut wanted = shrink(machine, shield, &format!("{prefix}cpus"));
    let rest = format!("{mount}/{}_housekeeping", shield.group());
    let own = format!("{mount}/{}", shield.group());
    let all_mems = &machine.cgroup.mems;
    for (dir, cpus, mems) in
        [(&rest, &shield.housekeeping, all_mems), (&own, &shield.cpus, &shield.mems)]
    {
        let group = group_of(machine, dir);
        let change = Change::MakeDir { path: dir.clone() };
        let title = if dir == &own { "the shield" } else { "everyone else" };
        let reason = format!("the cpuset of {title}");
        wanted.push(Wanted::new(change, &reason).already(group.is_some()).required());
        let now = group.map(|group| group.cpus.to_string());
        let reason = format!("the CPUs of {title}");
        let path = format!("{dir}/{prefix}cpus");
        wanted.push(file(now, &path, &cpus.to_string(), Compare::List, &reason).required());
        let now = group.map(|_| mems.to_string());
        let reason = format!("the memory of {title}; a cpuset without memory takes no task");
        let path = format!("{dir}/{prefix}mems");
        wanted.push(file(now, &path, &mems.to_string(), Compare::List, &reason).required());
    }
    let exclusive = group_of(machine, &own).map(|g| u8::from(g.exclusive).to_string());
    let so = exclusive.as_deref() == Some("1");
    wanted.push(file(
        exclusive,
        &format!("{own}/{prefix}cpu_exclusive"),
        "1",
        Compare::Text,
        "no other cpuset may have these CPUs",
    ));
    let balance = "sched_load_balance";
    let reason = "the scheduler does not balance load there";
    let now = so.then(|| "0".to_owned());
    let path = format!("{own}/{prefix}{balance}");
    wanted.push(file(now, &path, "0", Compare::Text, reason));
    let reason = "else the root's balancing spans the shield";
    let path = format!("{mount}/{prefix}{balance}");
    let now = setting(machine, &path).map(str::to_owned);
    wanted.push(file(now, &path, "0", Compare::Text, reason).required());
    let change = Change::MoveTasks { from: mount.to_owned(), to: rest };
    let reason = "every program in the root goes to the housekeeping CPUs";
    let moved = so && strays(machine, shield).next().is_none();
    wanted.push(Wanted::new(change, reason).already(moved).required());
    wanted
}

/// User tasks that may run on both sides.
fn strays<'a>(
    machine: &'a Machine,
    shield: &'a Shield,
) -> impl Iterator<Item = &'a crate::survey::Placed> {
    machine.tasks.iter().filter(|placed| {
        !placed.task.kthread
            && placed.affinity.intersects(&shield.cpus)
            && !placed.affinity.is_subset(&shield.cpus)
    })
}

/// Without a partition programs are moved one by one; nothing keeps them out.
fn by_affinity(machine: &Machine, shield: &Shield) -> Vec<Wanted> {
    let reason = "this program may run on the shield, and there is no cpuset to keep it out";
    let on_shield = machine
        .tasks
        .iter()
        .filter(|placed| !placed.task.kthread && placed.affinity.intersects(&shield.cpus));
    on_shield
        .map(|placed| {
            let rest: CpuSet = super::want::away(&placed.affinity, shield);
            Wanted::affinity(placed, rest, reason)
        })
        .collect()
}
