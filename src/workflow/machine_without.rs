//! A surveyed machine as it would be without one of its active shields. A change of that shield is
//! planned on it.

use super::machine_survey::survey_machine;
use crate::apply::{self, JournalLoadError, OriginalState};
use crate::change::Change;
use crate::documents::machine::Machine;
use crate::documents::plan::{Plan, Shield};
use cpushield_linux::{CpuSet, Host, Store};
use std::collections::BTreeMap;

/// Surveys the machine, and reverts what the shield of this plan, if any, has changed in the
/// document.
///
/// # Errors
/// The journal cannot be read or parsed.
pub(super) fn survey_without(
    host: &Host,
    store: &Store,
    plan: Option<&Plan>,
) -> Result<Machine, JournalLoadError> {
    let mut machine = survey_machine(host, store);
    if let Some(plan) = plan {
        remove_shield(&mut machine, host, store, plan)?;
    }
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
            machine.assume_file(path, text);
        }
        (Change::MakeDir { path }, OriginalState::Missing) => forget_group(machine, path),
        (Change::Slice { unit, .. }, _) => forget_group(machine, &apply::slice_dir(unit)),
        (Change::Affinity { task, .. }, OriginalState::Cpus { cpus }) => {
            machine.assume_affinity(*task, cpus);
        }
        (Change::MoveProcess { task, .. }, OriginalState::Text { text }) => {
            let threads = machine.tasks.iter_mut().filter(|it| it.task.pid == task.tid);
            threads.for_each(|thread| thread.group = Some(text.clone()));
        }
        (Change::KeepAffinities, OriginalState::Affinities { masks }) => {
            for (id, original) in &masks.0 {
                let task = machine.tasks.iter().find(|placed| placed.task.id == *id);
                // A program that asked for another mask, or that is in the shield, keeps it.
                let is_narrowed =
                    task.is_some_and(|it| it.affinity == original.difference(&shield.cpus));
                if is_narrowed {
                    machine.assume_affinity(*id, original);
                }
            }
        }
        (Change::OfflineSibling { cpu, sibling }, OriginalState::Files { files }) => {
            return_cpu(machine, *cpu, *sibling, files);
        }
        _ => {}
    }
}

/// Adds a CPU that the shield has taken offline.
fn return_cpu(machine: &mut Machine, cpu: usize, sibling: usize, files: &BTreeMap<String, String>) {
    if machine.topology.online.contains(cpu) {
        return;
    }
    machine.assume_online(cpu, sibling);
    for (path, text) in files {
        let list = path.ends_with("/smp_affinity_list").then(|| text.parse::<CpuSet>().ok());
        if list.flatten().is_some_and(|cpus| cpus == CpuSet::single(cpu)) {
            machine.assume_file(path, text);
        }
    }
}

/// Forgets a cgroup that the shield made, with everything below it.
fn forget_group(machine: &mut Machine, dir: &str) {
    let is_below = |path: &str| path == dir || path.starts_with(&format!("{dir}/"));
    machine.cgroup.groups.retain(|group| !is_below(&group.path));
    machine.settings.retain(|path, _| !is_below(path));
}
