//! A surveyed machine as it would be without one of its active shields. A change of that shield is
//! planned on it.

use super::machine_survey::survey_machine;
use crate::apply::{self, JournalLoadError, OriginalState};
use crate::change::Change;
use crate::plan::{Plan, Shield};
use crate::survey::{Cpu, Irq, Machine, TunableReading};
use cpushield_linux::{CpuSet, Host, Store, TaskId};
use std::collections::BTreeMap;

/// Surveys the machine, and reverts what the shield of this plan has changed in the document.
///
/// # Errors
/// The journal cannot be read or parsed.
pub(super) fn survey_without(
    host: &Host,
    store: &Store,
    plan: &Plan,
) -> Result<Machine, JournalLoadError> {
    let mut machine = survey_machine(host, store);
    remove_shield(&mut machine, host, store, plan)?;
    Ok(machine)
}

/// Reverts in a surveyed machine what the shield of this plan has changed.
///
/// # Errors
/// The journal cannot be read or parsed.
pub fn remove_shield(
    machine: &mut Machine,
    host: &Host,
    store: &Store,
    plan: &Plan,
) -> Result<(), JournalLoadError> {
    for (change, state) in &apply::states_without(host, store, &plan.shield.name)? {
        revert(machine, &plan.shield, change, state);
    }
    let partitions = machine.isolation.partitions.take();
    machine.isolation.partitions = partitions.map(|cpus| cpus.difference(&plan.shield.cpus));
    Ok(())
}

fn revert(machine: &mut Machine, shield: &Shield, change: &Change, state: &OriginalState) {
    match (change, state) {
        (Change::Write { path, .. }, OriginalState::Text { text }) => {
            revert_file(machine, path, text);
        }
        (Change::MakeDir { path }, OriginalState::Missing) => forget_group(machine, path),
        (Change::Slice { unit, .. }, _) => forget_group(machine, &apply::slice_dir(unit)),
        (Change::Affinity { task, .. }, OriginalState::Cpus { cpus }) => {
            revert_affinity(machine, *task, cpus);
        }
        (Change::KeepAffinities, OriginalState::Affinities { masks }) => {
            for (id, original) in &masks.0 {
                let task = machine.tasks.iter().find(|placed| placed.task.id == *id);
                // A program that asked for another mask, or that is in the shield, keeps it.
                let is_narrowed =
                    task.is_some_and(|it| it.affinity == original.difference(&shield.cpus));
                if is_narrowed {
                    revert_affinity(machine, *id, original);
                }
            }
        }
        (Change::OfflineSibling { cpu, sibling }, OriginalState::Files { files }) => {
            return_cpu(machine, *cpu, *sibling, files);
        }
        _ => {}
    }
}

/// Adds a CPU that the shield has taken offline. Siblings of a core share its caches, its package
/// and its node.
fn return_cpu(machine: &mut Machine, cpu: usize, sibling: usize, files: &BTreeMap<String, String>) {
    let topology = &mut machine.topology;
    if topology.online.contains(cpu) {
        return;
    }
    topology.online.insert(cpu);
    topology.offline.remove(cpu);
    topology.smt_active = topology.smt_active.map(|_| true);
    let with_cpu = |cpus: &mut CpuSet| {
        if cpus.contains(sibling) {
            cpus.insert(cpu);
        }
    };
    for known in &mut topology.cpus {
        with_cpu(&mut known.siblings);
        with_cpu(&mut known.package_cpus);
        known.caches.iter_mut().for_each(|cache| with_cpu(&mut cache.shared));
    }
    topology.nodes.iter_mut().for_each(|node| with_cpu(&mut node.cpus));
    if let Some(twin) = topology.cpu(sibling).cloned() {
        topology.cpus.push(Cpu { cpu, ..twin });
        topology.cpus.sort_by_key(|known| known.cpu);
    }
    let online = format!("/sys/devices/system/cpu/cpu{cpu}/online");
    machine.settings.insert(online, TunableReading::Value("1".to_owned()));
    for (path, text) in files {
        let list = path.ends_with("/smp_affinity_list").then(|| text.parse::<CpuSet>().ok());
        if list.flatten().is_some_and(|cpus| cpus == CpuSet::single(cpu)) {
            revert_file(machine, path, text);
        }
    }
}

fn revert_affinity(machine: &mut Machine, id: TaskId, cpus: &CpuSet) {
    let tasks = machine.tasks.iter_mut().filter(|placed| placed.task.id == id);
    tasks.for_each(|placed| placed.affinity = cpus.clone());
}

/// Forgets a control group that the shield made, with everything below it.
fn forget_group(machine: &mut Machine, dir: &str) {
    let is_below = |path: &str| path == dir || path.starts_with(&format!("{dir}/"));
    machine.cgroup.groups.retain(|group| !is_below(&group.path));
    machine.settings.retain(|path, _| !is_below(path));
}

fn revert_file(machine: &mut Machine, path: &str, text: &str) {
    if let Some(setting) = machine.settings.get_mut(path) {
        *setting = TunableReading::Value(text.to_owned());
    }
    let mask = CpuSet::parse_mask(text.trim()).ok();
    let list = text.trim().parse::<CpuSet>().ok();
    if path == "/proc/irq/default_smp_affinity" {
        machine.irq_default = mask.or(machine.irq_default.take());
    } else if path.ends_with("/workqueue/cpumask") {
        machine.isolation.unbound_work = mask.or(machine.isolation.unbound_work.take());
    } else if let Some(irq) = irq_of(machine, path) {
        let cpus = if path.ends_with("_list") { list } else { mask };
        irq.affinity = cpus.or(irq.affinity.take());
    } else if let Some((dir, file)) = path.rsplit_once('/') {
        revert_group_file(machine, dir, file, text.trim());
    }
}

fn irq_of<'a>(machine: &'a mut Machine, path: &str) -> Option<&'a mut Irq> {
    let (number, _) = path.strip_prefix("/proc/irq/")?.split_once('/')?;
    let number: u32 = number.parse().ok()?;
    machine.irqs.iter_mut().find(|irq| irq.irq == number)
}

/// Reverts a file of a control group that the shield did not make.
fn revert_group_file(machine: &mut Machine, dir: &str, file: &str, text: &str) {
    let file = file.strip_prefix("cpuset.").unwrap_or(file);
    if file == "sched_load_balance" && machine.cgroup.mount.as_deref() == Some(dir) {
        machine.cgroup.balanced = Some(text == "1");
    }
    let Some(group) = machine.cgroup.groups.iter_mut().find(|group| group.path == dir) else {
        return;
    };
    match file {
        "cpus" => group.cpus = text.parse().unwrap_or_default(),
        "cpus.partition" => group.partition = Some(text.to_owned()),
        "cpu_exclusive" => group.exclusive = text == "1",
        "sched_load_balance" => group.balanced = Some(text == "1"),
        _ => {}
    }
}
