//! A surveyed machine as it would be without one of its active shields. A change of that shield is
//! planned on it.

use super::machine_survey::survey_machine;
use crate::apply::{self, JournalLoadError, OriginalState};
use crate::change::Change;
use crate::plan::{Plan, Shield};
use crate::survey::{Irq, Machine, TunableReading};
use cpushield_linux::{CpuSet, Host, Store, TaskId};

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
        _ => {}
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
