//! [`check_saved`]: whether a saved plan is still what this machine needs. Pure.

use super::choose::CpuChoice;
use super::operators::add_operators;
use super::{PlanRefusal, check_partitions};
use crate::change::Change;
use crate::documents::machine::Machine;
use crate::documents::plan::{ActiveShields, Plan, Step};
use crate::tunables::{self, WantedChanges};

/// Checks a saved plan against the machine as it is now, without the version of the shield that it
/// replaces: each of its steps must be one that the step's tunable wants, or has found done. Steps
/// for what is no longer there (`exists` tells it of a path) change nothing, and may stay.
///
/// # Errors
/// Something has changed since the plan was made, or the plan was edited. Or another program has
/// claimed CPUs of the shield in an exclusive cpuset.
pub fn check_saved(
    machine: &Machine,
    plan: &Plan,
    live: &ActiveShields,
    exists: &dyn Fn(&str) -> bool,
) -> Result<(), PlanRefusal> {
    if plan.has_cpuset() {
        check_partitions(machine, &plan.shield)?;
    }
    let (why, warnings) = (Vec::new(), Vec::new());
    let choice = CpuChoice { shield: plan.shield.clone(), why, warnings };
    let needed = choice.together_with(machine, live)?.shield.housekeeping;
    let found = plan.shield.housekeeping.clone();
    if needed != found {
        return Err(PlanRefusal::OtherHousekeeping { found, needed });
    }
    let mut for_operators = Plan { steps: Vec::new(), ..plan.clone() };
    add_operators(&mut for_operators, machine, plan.operators.as_ref())?;
    let is_for_operators =
        |step: &Step| for_operators.steps.iter().any(|it| it.change == step.change);
    for (n, step) in plan.steps.iter().enumerate() {
        let is_there = match &step.change {
            Change::Affinity { task, .. } => {
                machine.tasks.iter().any(|placed| placed.task.id == *task)
            }
            Change::Write { path, .. } => exists(path),
            _ => true,
        };
        if is_there && !is_wanted(machine, plan, step) && !is_for_operators(step) {
            let (tunable, change) = (step.tunable.clone(), step.change.shell());
            return Err(PlanRefusal::NotWanted { step: n + 1, tunable, change });
        }
    }
    Ok(())
}

/// Whether the tunable of a step wants its change on this machine.
fn is_wanted(machine: &Machine, plan: &Plan, step: &Step) -> bool {
    let Some(tunable) = tunables::named(&step.tunable) else { return false };
    let shield = &plan.shield;
    let wants = [tunable.wants(machine, shield), tunable.wants_on_request(machine, shield)];
    wants.iter().any(|wants| {
        matches!(wants, WantedChanges::Changes(changes)
            if changes.iter().any(|wanted| wanted.change == step.change))
    })
}

#[cfg(test)]
mod tests {
    use super::super::fake::{plain, set, thread};
    use super::super::plan;
    use super::*;
    use crate::documents::machine::TunableReading;
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
        let checked = |machine: &Machine, plan: &Plan| {
            check_saved(machine, plan, &ActiveShields::default(), &|path| path != "/gone")
        };
        assert_eq!(checked(&machine, &saved), Ok(()));
        let edited = |edit: &dyn Fn(&mut Plan)| {
            let mut plan = saved.clone();
            edit(&mut plan);
            checked(&machine, &plan)
        };
        let step_of_kthreadd = |plan: &mut Plan, edit: &dyn Fn(&mut Change)| {
            let mut steps = plan.steps.iter_mut();
            edit(&mut steps.find(|it| it.tunable == "kthreads").unwrap().change);
        };
        let is_unwanted =
            |found: Result<(), PlanRefusal>| matches!(found, Err(PlanRefusal::NotWanted { .. }));
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
        let refused = edited(&|plan| plan.shield.housekeeping = set("0-1"));
        assert!(matches!(refused, Err(PlanRefusal::OtherHousekeeping { .. })), "{refused:?}");
        let operators = ShieldOperators {
            users: vec![OperatorName { name: "joe".to_owned(), id: 1000 }],
            group: None,
            limits: OperatorLimits::default(),
        };
        let refused = edited(&|plan| plan.operators = Some(operators.clone()));
        assert!(matches!(refused, Err(PlanRefusal::Operators { .. })), "{refused:?}");
    }
}
