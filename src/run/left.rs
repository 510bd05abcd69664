//! The programs in a shield, and the CPUs that they may use after it was undone: undo leaves them
//! running.

use super::ShieldPlacement;
use super::task_lookup::find_task;
use crate::apply;
use crate::documents::applied::LeftProgram;
use cpushield_linux::{Host, Store, Task};

/// The processes in an active shield, the named one or the only one: those with a thread in its
/// cgroup, or without a cgroup those that may run on its CPUs only. Empty when there is no such
/// shield, or when it cannot be read.
#[must_use]
pub fn programs_in_shield(host: &Host, store: &Store, name: Option<&str>) -> Vec<Task> {
    let plans = apply::active_plans(host, store).unwrap_or_default();
    let mut named = plans.iter().filter(|plan| name.is_none_or(|name| plan.shield.name == name));
    let (Some(plan), None) = (named.next(), named.next()) else { return Vec::new() };
    let place = ShieldPlacement::new(host, plan);
    let threads: Vec<Task> = match &place.group {
        Some(_) => {
            let members = place.members(host).unwrap_or_default();
            members.into_iter().filter_map(|tid| find_task(host, tid).ok()).collect()
        }
        None => {
            let mut tasks = host.tasks().unwrap_or_default();
            tasks.retain(|task| {
                let affinity = host.affinity(task.id.tid).unwrap_or_default();
                !task.kthread && !affinity.is_empty() && affinity.is_subset(&plan.shield.cpus)
            });
            tasks
        }
    };
    let own_pid = host.own_pid();
    let mut pids: Vec<i32> = threads.iter().map(|thread| thread.pid).collect();
    pids.retain(|pid| Some(*pid) != own_pid);
    pids.sort_unstable();
    pids.dedup();
    pids.into_iter().filter_map(|pid| host.task(pid, pid).ok()).collect()
}

/// Those of these programs that still run, each with the CPUs that it may use now.
#[must_use]
pub fn still_running(host: &Host, programs: &[Task]) -> Vec<LeftProgram> {
    let running = programs.iter().filter(|program| host.is_same_task(program.id));
    let left = running.filter_map(|program| {
        let cpus = host.affinity(program.pid).ok()?;
        Some(LeftProgram { pid: program.pid, comm: program.comm.clone(), cpus })
    });
    left.collect()
}
