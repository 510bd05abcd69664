//! An active shield that is changed: after that, and after a kill or a refusal anywhere, the
//! machine is as if only one of the versions had ever been applied.

use crate::bench::{Bench, Tree, disturbed_writes, every_write, same};
use crate::many_shields::{
    NAMES, Prepared, Recorded, machines, plan_shield, same_apart_from_irq_threads,
};
use cpushield::apply::{self, AppliedPlan, ApplyError, UndoError};
use cpushield::change::{Change, Outcome};
use cpushield::plan::{Plan, Step};
use cpushield::run;
use cpushield_linux::{CpuSet, Host, InjectedFault};
use std::rc::Rc;

/// The CPUs of a version before a change and after it.
#[derive(Debug)]
struct Versions {
    before: CpuSet,
    after: CpuSet,
}

impl Versions {
    /// A shield that moves, grows and shrinks.
    fn all(machine: &Recorded) -> [Versions; 3] {
        let (one, two) = (machine.cpus[0].clone(), machine.cpus[1].clone());
        let both = one.union(&two);
        [(&one, &two), (&one, &both), (&both, &two)]
            .map(|(before, after)| Versions { before: before.clone(), after: after.clone() })
    }

    /// A machine with the first version, together with the shields of these numbers.
    fn before(&self, machine: &Recorded, others: &[usize]) -> Bench {
        with_version(machine, &self.before, others).bench.copy()
    }

    /// The files of the machine with the second version.
    fn after(&self, machine: &Recorded, others: &[usize]) -> Tree {
        with_version(machine, &self.after, others).tree.clone()
    }

    /// One of them, so that all are tried on some machine; or each of them, where every write is.
    fn some(machine: &Recorded, number: usize) -> Vec<Versions> {
        let all = Versions::all(machine).into_iter().enumerate();
        let some = all.filter(|(n, _)| every_write() || *n == number % 3);
        some.map(|(_, versions)| versions).collect()
    }

    fn plan(&self, bench: &Bench) -> Plan {
        plan_shield(bench, NAMES[0], Some(&self.after)).unwrap()
    }
}

fn with_version(machine: &Recorded, cpus: &CpuSet, others: &[usize]) -> Rc<Prepared> {
    machine.prepare(&format!("{others:?}, {} on {cpus}", NAMES[0]), || {
        let bench = machine.with_shields(others);
        let plan = plan_shield(&bench, NAMES[0], Some(cpus)).unwrap();
        bench.apply(&bench.host(), &plan).unwrap();
        bench
    })
}

fn replace(bench: &Bench, host: &Host, plan: &Plan) -> Result<AppliedPlan, ApplyError> {
    apply::replace(host, &bench.store(), plan, &mut |_| {})
}

/// The machines that have room for two shields, each without and with another shield.
fn cases() -> Vec<(Recorded, Vec<usize>)> {
    let with_other = machines(3).into_iter().map(|machine| (machine, vec![2]));
    machines(2).into_iter().map(|machine| (machine, Vec::new())).chain(with_other).collect()
}

/// The same machines, each with some of its changes.
fn some_changes() -> impl Iterator<Item = (Recorded, Vec<usize>, Versions)> {
    cases().into_iter().enumerate().flat_map(|(n, (machine, others))| {
        let some = Versions::some(&machine, n).into_iter();
        some.map(|versions| (machine.clone(), others.clone(), versions)).collect::<Vec<_>>()
    })
}

#[test]
fn a_changed_shield_is_as_if_only_the_new_version_had_been_applied() {
    for (machine, others) in cases() {
        for versions in Versions::all(&machine) {
            let when = format!("{}, together with {others:?}: {versions:?}", machine.name);
            let bench = versions.before(&machine, &others);
            let plan = versions.plan(&bench);
            replace(&bench, &bench.host(), &plan).unwrap_or_else(|error| panic!("{when}: {error}"));
            let expected = versions.after(&machine, &others);
            same_apart_from_irq_threads(expected, bench.tree(), &when);
            let status = run::status(&bench.host(), &bench.store(), Some(NAMES[0])).unwrap();
            assert_eq!(status.shields[0].drift, [], "{when}");
            let shielded: CpuSet = status.shields[0].cpus.iter().map(|on| on.cpu).collect();
            assert_eq!(shielded, versions.after, "{when}");
            let again = plan_shield(&bench, NAMES[0], Some(&versions.after)).unwrap();
            let expected = changes(&plan);
            let differing: Vec<&Change> =
                changes(&again).into_iter().filter(|change| !expected.contains(change)).collect();
            assert_eq!(differing, Vec::<&Change>::new(), "{when}");
            let undone = apply::undo(&bench.host(), &bench.store(), Some(NAMES[0])).unwrap();
            assert!(undone.is_complete(), "{when}: {undone:#?}");
            same_apart_from_irq_threads(machine.tree_with_shields(&others), bench.tree(), &when);
        }
    }
}

/// The changes of a plan, without those of threads that follow their interrupts.
fn changes(plan: &Plan) -> Vec<&Change> {
    let changes = plan.steps.iter().map(|Step { change, .. }| change);
    let follows = |change: &Change| matches!(change, Change::Affinity { comm, .. } if comm.starts_with("irq/"));
    changes.filter(|change| !follows(change)).collect()
}

#[test]
fn the_cpus_that_a_shield_keeps_never_lose_their_partition() {
    for (machine, others) in cases() {
        for versions in Versions::all(&machine) {
            let bench = versions.before(&machine, &others);
            let plan = versions.plan(&bench);
            let applied = replace(&bench, &bench.host(), &plan).unwrap();
            let partition = applied.steps.iter().find(|step| {
                let change = plan.steps.get(step.done.step - first_step(&applied));
                change.is_some_and(|step| is_partition(&step.change))
            });
            if let Some(partition) = partition {
                let outcome = &partition.done.outcome;
                assert_eq!(*outcome, Outcome::AlreadySo, "{}: {versions:?}", machine.name);
            }
        }
    }
}

fn is_partition(change: &Change) -> bool {
    matches!(change, Change::Write { path, .. } if path.ends_with("cpuset.cpus.partition"))
}

/// The number of the first step of a shield that joined the journal of others.
fn first_step(applied: &AppliedPlan) -> usize {
    applied.steps.iter().map(|step| step.done.step).min().unwrap_or(0)
}

#[test]
fn a_refused_change_leaves_the_shield_as_it_was() {
    for (machine, others, versions) in some_changes() {
        let bench = versions.before(&machine, &others);
        let plan = versions.plan(&bench);
        let host = bench.host();
        replace(&bench, &host, &plan).unwrap();
        for at in disturbed_writes(host.writes()) {
            let fault = InjectedFault::Refuse { at, errno: 22 };
            let when = format!("{}: {versions:?}: {fault:?}", machine.name);
            let bench = versions.before(&machine, &others);
            let before = bench.tree();
            match replace(&bench, &bench.host().failing(fault), &plan) {
                Ok(_) => {}
                Err(ApplyError::Failed { undone, .. }) => {
                    let undone = undone.unwrap();
                    assert!(undone.is_complete(), "{when}: {undone:#?}");
                    same_apart_from_irq_threads(before, bench.tree(), &when);
                }
                // The old version can be undone by a second attempt.
                Err(ApplyError::OldRemains { .. }) => {
                    apply::end_change(&bench.host(), &bench.store()).unwrap();
                    let expected = versions.after(&machine, &others);
                    same_apart_from_irq_threads(expected, bench.tree(), &when);
                }
                Err(error) => panic!("{when}: {error}"),
            }
            let undone = apply::undo(&bench.host(), &bench.store(), Some(NAMES[0])).unwrap();
            assert!(undone.is_complete(), "{when}: {undone:#?}");
            let expected = machine.tree_with_shields(&others);
            same_apart_from_irq_threads(expected, bench.tree(), &when);
        }
    }
}

#[test]
fn a_killed_change_is_ended_or_undone() {
    for (machine, others, versions) in some_changes() {
        let bench = versions.before(&machine, &others);
        let plan = versions.plan(&bench);
        let host = bench.host();
        replace(&bench, &host, &plan).unwrap();
        for at in disturbed_writes(host.writes()) {
            let when = format!("{}, {others:?}: {versions:?}: killed at {at}", machine.name);
            let killed = || {
                let bench = versions.before(&machine, &others);
                let fault = InjectedFault::Stop { at };
                let result = replace(&bench, &bench.host().failing(fault), &plan);
                assert!(matches!(result, Err(ApplyError::Killed)), "{when}: {result:?}");
                bench
            };
            let bench = killed();
            apply::end_change(&bench.host(), &bench.store()).unwrap();
            let live = apply::active_plans(&bench.host(), &bench.store()).unwrap();
            let live = live.iter().find(|plan| plan.shield.name == NAMES[0]).unwrap();
            let expected = with_version(&machine, &live.shield.cpus, &others).tree.clone();
            same_apart_from_irq_threads(expected, bench.tree(), &when);
            let bench = killed();
            if let Some(other) = others.first() {
                let refused = apply::undo(&bench.host(), &bench.store(), Some(NAMES[*other]));
                let names_first = matches!(&refused,
                    Err(UndoError::OtherUnfinished { other }) if other == NAMES[0]);
                assert!(names_first || at == 0, "{when}: {refused:?}");
                continue;
            }
            let undone = apply::undo(&bench.host(), &bench.store(), None).unwrap();
            assert!(undone.is_complete(), "{when}: {undone:#?}");
            same(&machine.tree_with_shields(&[]), &bench.tree(), &when);
        }
    }
}
