//! [`check_saved`]: whether a saved plan is still what this machine needs. Pure.

use super::choose::CpuChoice;
use super::operators::add_operators;
use super::saved_refusal::SavedRefusal;
use super::{PlanRefusal, check_partitions};
use crate::change::Change;
use crate::documents::machine::{IrqMovability, Machine};
use crate::documents::plan::{ActiveShields, Plan, Shield, Step};
use crate::tunables::{self, WantedChanges};
use cpushield_linux::CpuSet;
use std::collections::{BTreeMap, BTreeSet};

/// Checks a saved plan against the machine as it is now, without the version of the shield that it
/// replaces: each of its steps must be one that the step's tunable wants, or has found done. Steps
/// for tasks and interrupts that are no longer there change nothing, and may stay.
///
/// # Errors
/// Something has changed since the plan was made, or the plan was edited. Or another program has
/// claimed CPUs of the shield in an exclusive cpuset.
pub fn check_saved(
    machine: &Machine,
    plan: &Plan,
    live: &ActiveShields,
) -> Result<(), PlanRefusal> {
    if plan.boot_id != machine.boot_id {
        return Err(SavedRefusal::OtherBoot.into());
    }
    if plan.has_cpuset() {
        check_partitions(machine, &plan.shield)?;
    }
    let (why, warnings) = (Vec::new(), Vec::new());
    let choice = CpuChoice { shield: plan.shield.clone(), why, warnings };
    let shield = choice.together_with(machine, live)?.shield;
    if shield.housekeeping != plan.shield.housekeeping {
        let (found, needed) = (plan.shield.housekeeping.clone(), shield.housekeeping);
        return Err(SavedRefusal::OtherHousekeeping { found, needed }.into());
    }
    let mut with_operators = plan.clone();
    add_operators(&mut with_operators, machine, plan.operators.as_ref())?;
    let for_operators = &with_operators.steps[plan.steps.len()..];
    // A plan that another user made tries what this kernel refuses.
    let mut machine = machine.clone();
    for irq in machine.irqs.iter_mut().filter(|irq| matches!(irq.movable, IrqMovability::No(_))) {
        irq.movable = IrqMovability::Yes;
    }
    let wanted = wanted_changes(&machine, &shield, plan);
    for (n, step) in plan.steps.iter().enumerate() {
        let is_there = match &step.change {
            Change::Affinity { task, .. } | Change::MoveProcess { task, .. } => {
                machine.tasks.iter().any(|placed| placed.task.id == *task)
            }
            _ => true,
        };
        // What another shield has moved must stay there.
        let is_theirs = live.find_same(&step.change).is_some_and(|(_, it)| *it == step.change);
        let is_allowed = is_theirs
            || wanted.get(step.tunable.as_str()).is_some_and(|all| all.contains(&step.change))
            || has_left(&machine, &shield, step)
            || for_operators.iter().any(|it| it.change == step.change);
        if is_there && !is_allowed {
            let (tunable, change) = (step.tunable.clone(), step.change.shell());
            return Err(SavedRefusal::NotWanted { step: n + 1, tunable, change }.into());
        }
    }
    Ok(())
}

/// Whether an interrupt or a kernel thread is no longer on the shield, as irqbalance may have moved
/// it: then the step gives it housekeeping CPUs, which does no harm.
fn has_left(machine: &Machine, shield: &Shield, step: &Step) -> bool {
    let (now, wanted) = match &step.change {
        Change::Affinity { task, cpus, .. } => {
            let mut tasks = machine.tasks.iter().filter(|placed| placed.task.kthread);
            let placed = tasks.find(|placed| placed.task.id == *task);
            (placed.map(|placed| placed.affinity.clone()), Some(cpus.clone()))
        }
        Change::Write { path, value, compare, .. } => {
            let names = path.strip_prefix("/proc/irq/").and_then(|rest| rest.split_once('/'));
            let Some((number, "smp_affinity" | "smp_affinity_list")) = names else { return false };
            let Ok(number) = number.parse::<u32>() else { return false };
            let irq = machine.irqs.iter().find(|irq| irq.irq == number);
            // One that is gone has no CPUs.
            let gone = CpuSet::new();
            let now = irq.map_or(Some(&gone), |irq| irq.affinity.as_ref()).cloned();
            (now, compare.parse_set(value))
        }
        _ => return false,
    };
    let is_open =
        |cpus: CpuSet| cpus.intersection(&machine.topology.online).is_subset(&shield.housekeeping);
    now.is_some_and(|now| !now.intersects(&shield.cpus)) && wanted.is_some_and(is_open)
}

/// What the tunables of the steps want for this shield, by default or on request.
fn wanted_changes<'a>(
    machine: &Machine,
    shield: &Shield,
    plan: &'a Plan,
) -> BTreeMap<&'a str, Vec<Change>> {
    let names: BTreeSet<&str> = plan.steps.iter().map(|step| step.tunable.as_str()).collect();
    let tunables = names.into_iter().filter_map(|name| Some((name, tunables::named(name)?)));
    let wanted = tunables.map(|(name, tunable)| {
        let wants = [(tunable.wants)(machine, shield), tunable.wants_on_request(machine, shield)];
        let changes = wants.into_iter().flat_map(WantedChanges::into_changes);
        (name, changes.map(|wanted| wanted.change).collect())
    });
    wanted.collect()
}

#[cfg(test)]
mod tests {
    use super::super::fake::{irq, plain, set, thread};
    use super::super::plan;
    use super::*;
    use crate::documents::machine::{CgroupMode, TunableReading};
    use crate::policy::{OperatorLimits, OperatorName, ShieldOperators, ShieldRequest};

    const THP: &str = "/sys/kernel/mm/transparent_hugepage/enabled";

    #[test]
    fn what_a_plan_may_have_is_refused_where_this_machine_needs_something_else() {
        let mut machine = plain(4);
        machine.tasks = vec![thread(2, "kthreadd", true, false, "0-3")];
        let values = [(THP, "always [madvise] never"), ("/proc/sys/vm/stat_interval", "1")];
        for (path, value) in values {
            machine.settings.insert(path.to_owned(), TunableReading::Value(value.to_owned()));
        }
        let saved = plan(&machine, &ShieldRequest::default()).unwrap();
        let checked =
            |machine: &Machine, plan: &Plan| check_saved(machine, plan, &ActiveShields::default());
        assert_eq!(checked(&machine, &saved), Ok(()));
        let first = machine.clone();
        let edited = |edit: &dyn Fn(&mut Plan)| {
            let mut plan = saved.clone();
            edit(&mut plan);
            checked(&first, &plan)
        };
        let step_of_kthreadd = |plan: &mut Plan, edit: &dyn Fn(&mut Change)| {
            let mut steps = plan.steps.iter_mut();
            edit(&mut steps.find(|it| it.tunable == "kthreads").unwrap().change);
        };
        let is_unwanted = |found: Result<(), PlanRefusal>| {
            matches!(found, Err(PlanRefusal::Saved(SavedRefusal::NotWanted { .. })))
        };
        // Another mask of a kernel thread; a program of the machine; one that has ended.
        for (tid, cpus, is_refused) in [(2, "0", true), (7, "0-2", true), (9, "0-2", false)] {
            let mut machine = machine.clone();
            machine.tasks.push(thread(7, "program", false, false, "0-3"));
            let mut plan = saved.clone();
            step_of_kthreadd(&mut plan, &|change| {
                let Change::Affinity { task, cpus: mask, .. } = change else { unreachable!() };
                (task.tid, *mask) = (tid, set(cpus));
            });
            assert_eq!(is_unwanted(checked(&machine, &plan)), is_refused, "{tid}");
        }
        let other_boot = edited(&|plan| plan.boot_id = Some("b".to_owned()));
        assert_eq!(other_boot, Err(SavedRefusal::OtherBoot.into()));
        let (found, needed) = (set("0-1"), set("0-2"));
        let refused = edited(&|plan| plan.shield.housekeeping = found.clone());
        assert_eq!(refused, Err(SavedRefusal::OtherHousekeeping { found, needed }.into()));
        let operators = ShieldOperators {
            users: vec![OperatorName { name: "joe".to_owned(), id: 1000 }],
            group: None,
            limits: OperatorLimits::default(),
        };
        let refused = edited(&|plan| plan.operators = Some(operators.clone()));
        assert!(matches!(refused, Err(PlanRefusal::Operators { .. })), "{refused:?}");
        // With a group for them, on a machine where a CPU is closed: other lists are not believed.
        machine.cgroup.mode = CgroupMode::V2;
        machine.cgroup.mount = Some("/sys/fs/cgroup".to_owned());
        machine.isolation.isolcpus_domain = set("2-3");
        machine.irqs = vec![
            irq(5, "eth0", "0-3", IrqMovability::Unknown("not root".to_owned())),
            irq(6, "nvme0q1", "0-3", IrqMovability::Unknown("not root".to_owned())),
        ];
        let request = ShieldRequest { count: Some(1), ..ShieldRequest::default() };
        let mut saved =
            plan(&machine, &ShieldRequest { operators: Some(operators), ..request }).unwrap();
        machine.irqs[1].movable = IrqMovability::No("EPERM".to_owned());
        assert_eq!(checked(&machine, &saved), Ok(()));
        // irqbalance has moved one since.
        machine.irqs[0].affinity = Some(set("1"));
        assert_eq!(checked(&machine, &saved), Ok(()));
        saved.shield.closed = CpuSet::new();
        for step in &mut saved.steps {
            if let Change::Write { path, value, .. } = &mut step.change
                && path.starts_with("/proc/irq/5/")
            {
                *value = value.replace("0-1", "0-2").replace('3', "7");
            }
        }
        assert!(is_unwanted(checked(&machine, &saved)));
    }
}
