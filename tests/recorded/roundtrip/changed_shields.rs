//! An active shield that is changed: after that, and after a kill or a refusal anywhere, the
//! machine is as if only one of the versions had ever been applied.

use super::bench::{Bench, Tree, disturbed_writes, every_write, few_disturbed_writes, same};
use super::many_shields::{
    NAMES, Prepared, Recorded, bench_of, machines, plan_shield, plan_version, plan_with,
    same_apart_from_irq_threads,
};
use crate::recordings;
use cpushield::apply::{self, AppliedPlan, ApplyError, ShieldNote, UndoError};
use cpushield::change::{Change, Outcome};
use cpushield::plan::{Plan, Step};
use cpushield::policy::ShieldRequest;
use cpushield::refusal::UserError;
use cpushield::run;
use cpushield::ui::{OutputFormat, StatusLines, Ui};
use cpushield::workflow::WorkContext;
use cpushield::workflow::apply_shield::{PlanSource, ProgramsInTheWay, apply_source};
use cpushield::workflow::shield_options::ShieldOptions;
use cpushield_linux::{CpuSet, Host};
use cpushield_simulator::{InjectedFault, Simulated};
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

/// The plan of the shield of this number with a tunable switched off.
fn plan_without(bench: &Bench, number: usize, cpus: &CpuSet, tunable: &str) -> Plan {
    let tunables = [(tunable.to_owned(), false)].into();
    let request = |all| ShieldRequest { cpus: Some(cpus.clone()), tunables, ..all };
    plan_with(bench, NAMES[number], request).unwrap()
}

/// Processes, interrupts, timers and the rest: each can be left to itself while the shield is up.
#[test]
fn each_kind_of_protection_is_switched_off_and_on_again_while_the_shield_is_active() {
    for (machine, others) in cases() {
        let cpus = &machine.cpus[0];
        for tunable in ["cpuset", "irq-affinity", "timer-migration", "workqueues"] {
            let when = format!("{}, together with {others:?}: --off {tunable}", machine.name);
            let fresh = machine.with_shields(&others);
            fresh.apply(&fresh.host(), &plan_without(&fresh, 0, cpus, tunable)).unwrap();
            let whole = with_version(&machine, cpus, &others);
            let bench = whole.bench.copy();
            let plan = plan_without(&bench, 0, cpus, tunable);
            assert!(plan.steps.iter().all(|step| step.tunable != tunable), "{when}");
            replace(&bench, &bench.host(), &plan).unwrap_or_else(|error| panic!("{when}: {error}"));
            same_apart_from_irq_threads(fresh.tree(), bench.tree(), &when);
            let plan = plan_shield(&bench, NAMES[0], Some(cpus)).unwrap();
            replace(&bench, &bench.host(), &plan).unwrap_or_else(|error| panic!("{when}: {error}"));
            same_apart_from_irq_threads(whole.tree.clone(), bench.tree(), &format!("{when}, on"));
            let undone = apply::undo(&bench.host(), &bench.store(), Some(NAMES[0])).unwrap();
            assert!(undone.is_complete(), "{when}: {undone:#?}");
            same_apart_from_irq_threads(machine.tree_with_shields(&others), bench.tree(), &when);
        }
    }
}

#[test]
fn the_cpus_and_the_protection_of_processes_change_at_once() {
    for (machine, others, versions) in some_changes() {
        for (before, after) in [("cpuset", ""), ("", "cpuset"), ("cpuset", "cpuset")] {
            let when = format!(
                "{}, together with {others:?}: {versions:?}, --off {before:?}, then {after:?}",
                machine.name
            );
            let fresh = with_protection(&machine, &others, &versions.after, after);
            let bench = with_protection(&machine, &others, &versions.before, before).bench.copy();
            let plan = plan_protection(&bench, &versions.after, after);
            replace(&bench, &bench.host(), &plan).unwrap_or_else(|error| panic!("{when}: {error}"));
            same_apart_from_irq_threads(fresh.tree.clone(), bench.tree(), &when);
        }
    }
}

/// The plan of the first shield, without a tunable unless its name is empty.
fn plan_protection(bench: &Bench, cpus: &CpuSet, off: &str) -> Plan {
    match off {
        "" => plan_shield(bench, NAMES[0], Some(cpus)).unwrap(),
        off => plan_without(bench, 0, cpus, off),
    }
}

/// The machine with these other shields and such a shield.
fn with_protection(machine: &Recorded, others: &[usize], cpus: &CpuSet, off: &str) -> Rc<Prepared> {
    machine.prepare(&format!("{others:?}, {cpus} without {off:?}"), || {
        let bench = machine.with_shields(others);
        bench.apply(&bench.host(), &plan_protection(&bench, cpus, off)).unwrap();
        bench
    })
}

#[test]
fn a_change_of_the_protection_that_is_killed_or_refused_loses_nothing() {
    for (machine, others, Versions { before: cpus, .. }) in some_changes() {
        for (before, after) in [("cpuset", ""), ("", "cpuset")] {
            let old = with_protection(&machine, &others, &cpus, before);
            let new = with_protection(&machine, &others, &cpus, after);
            let bench = old.bench.copy();
            let (host, plan) = (bench.host(), plan_protection(&bench, &cpus, after));
            replace(&bench, &host, &plan).unwrap();
            let writes = few_disturbed_writes(host.writes());
            for fault in writes.flat_map(|at| {
                [InjectedFault::Stop { at }, InjectedFault::Refuse { at, errno: 22 }]
            }) {
                let when = format!(
                    "{}, {others:?}: {cpus:?}, --off {before:?}, then {after:?}: {fault:?}",
                    machine.name
                );
                let bench = old.bench.copy();
                let _ = replace(&bench, &bench.host().failing(fault), &plan);
                apply::end_change(&bench.host(), &bench.store()).unwrap();
                let live = apply::active_plans(&bench.host(), &bench.store()).unwrap();
                let live = live.iter().find(|plan| plan.shield.name == NAMES[0]).unwrap();
                let is_closed = live.steps.iter().any(|step| step.tunable == "cpuset");
                let expected = if is_closed == after.is_empty() { &new } else { &old };
                // A refused step of the new version is one that the shield can do without.
                if matches!(fault, InjectedFault::Stop { .. }) || Rc::ptr_eq(expected, &old) {
                    same_apart_from_irq_threads(expected.tree.clone(), bench.tree(), &when);
                }
                let undone = apply::undo(&bench.host(), &bench.store(), Some(NAMES[0])).unwrap();
                assert!(undone.is_complete(), "{when}: {undone:#?}");
                let expected = machine.tree_with_shields(&others);
                same_apart_from_irq_threads(expected, bench.tree(), &when);
            }
        }
    }
}

/// A shield without a cpuset of its own leaves one with a cpuset behind, or the other way round.
#[test]
fn shields_with_and_without_cpusets_are_undone_in_any_order() {
    for machine in machines(2) {
        for bare in [0, 1] {
            for first in [0, 1] {
                let when = format!("{}: {bare} without cpuset, {first} is undone", machine.name);
                let make = |bench: &Bench, number: usize| match number == bare {
                    true => plan_without(bench, number, &machine.cpus[number], "cpuset"),
                    false => {
                        plan_shield(bench, NAMES[number], Some(&machine.cpus[number])).unwrap()
                    }
                };
                let (fresh, bench) = (machine.bench(), machine.bench());
                let last = 1 - first;
                fresh.apply(&fresh.host(), &make(&fresh, last)).unwrap();
                for number in [0, 1] {
                    bench.apply(&bench.host(), &make(&bench, number)).unwrap();
                }
                let undone =
                    apply::undo(&bench.host(), &bench.store(), Some(NAMES[first])).unwrap();
                assert!(undone.is_complete(), "{when}: {undone:#?}");
                same_apart_from_irq_threads(fresh.tree(), bench.tree(), &when);
                let undone = apply::undo(&bench.host(), &bench.store(), Some(NAMES[last])).unwrap();
                assert!(undone.is_complete(), "{when}: {undone:#?}");
                same_apart_from_irq_threads(machine.bench().tree(), bench.tree(), &when);
            }
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
    let mut kept = 0;
    for (machine, others) in cases() {
        for versions in Versions::all(&machine) {
            let bench = versions.before(&machine, &others);
            let request = |all| ShieldRequest { cpus: Some(versions.after.clone()), ..all };
            let plan = plan_version(&bench, NAMES[0], true, request).unwrap();
            let applied = replace(&bench, &bench.host(), &plan).unwrap();
            let partition = applied.steps.iter().find(|step| {
                let change = plan.steps.get(step.done.step - first_step(&applied));
                change.is_some_and(|step| is_partition(&step.change))
            });
            let has_partition = plan.steps.iter().any(|step| is_partition(&step.change));
            assert_eq!(partition.is_some(), has_partition, "{}: {versions:?}", machine.name);
            if let Some(partition) = partition {
                let outcome = &partition.done.outcome;
                assert_eq!(*outcome, Outcome::AlreadySo, "{}: {versions:?}", machine.name);
                kept += 1;
            }
        }
    }
    assert!(kept >= 12, "only {kept} changes of a shield with a partition");
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
                assert!(matches!(&result, Err(error) if error.is_stop()), "{when}: {result:?}");
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

/// The recorded machine with SMT, whose plans take CPUs of `nohz_full=` offline once.
fn smt_bench() -> Bench {
    bench_of(&recordings::root("6.12-rt-smt"))
}

/// Makes every further write to the switch of a CPU fail.
fn keep_online(bench: &Bench, cpus: &CpuSet) {
    for cpu in cpus.iter() {
        bench.answer(&format!("write\t/sys/devices/system/cpu/cpu{cpu}/online\tEBUSY\n"));
    }
}

fn cycled(plan: &Plan) -> CpuSet {
    let cpus = plan.steps.iter().filter_map(|step| match step.change {
        Change::CycleCpu { cpu } => Some(cpu),
        _ => None,
    });
    cpus.collect()
}

#[test]
fn a_change_takes_only_added_cpus_offline() {
    for (before, after, added) in [("6", "6-7", "7"), ("6-7", "6", ""), ("6", "7", "7")] {
        for is_saved in [false, true] {
            let when = format!("{before} to {after}, from a saved plan: {is_saved}");
            let (before, after): (CpuSet, CpuSet) =
                (before.parse().unwrap(), after.parse().unwrap());
            let added = if added.is_empty() { CpuSet::new() } else { added.parse().unwrap() };
            let bench = smt_bench();
            let first = plan_shield(&bench, NAMES[0], Some(&before)).unwrap();
            assert_eq!(cycled(&first), before, "{when}");
            bench.apply(&bench.host(), &first).unwrap();
            keep_online(&bench, &before);
            let request = |all| ShieldRequest { cpus: Some(after.clone()), ..all };
            let plan = plan_version(&bench, NAMES[0], !is_saved, request).unwrap();
            assert_eq!(
                cycled(&plan),
                if is_saved { after.clone() } else { added.clone() },
                "{when}"
            );
            let applied = replace(&bench, &bench.host(), &plan).unwrap();
            let cycles = applied.steps.iter().filter(|step| step.tunable == "cpu-hotplug-cycle");
            let outcomes: Vec<&Outcome> = cycles.map(|step| &step.done.outcome).collect();
            assert_eq!(outcomes, vec![&Outcome::Changed; added.len()], "{when}");
        }
    }
}

/// The first shield is undone, so its CPU may stop now. The second one is in use.
#[test]
fn a_shield_that_spared_another_one_is_not_interrupted_later() {
    let bench = smt_bench();
    let cpus: CpuSet = "4-5".parse().unwrap();
    let apply = |name: &str, cpus: &str| {
        let ui = Ui::new(OutputFormat::Text, StatusLines::Suppressed);
        let (host, store) = (bench.host(), bench.store());
        let state_dir = bench.scratch.0.join("state");
        let work = WorkContext { ui: &ui, host, store, state_dir, shield: None };
        let options = ShieldOptions {
            shield: Some(name.to_owned()),
            on: vec!["cpu-hotplug-cycle".to_owned()],
            ..ShieldOptions::of_list(&cpus.parse().unwrap())
        };
        let source = PlanSource::Options(options);
        apply_source(&work, &source, ProgramsInTheWay::Refuse).unwrap()
    };
    apply(NAMES[0], "6-7");
    let (_, spared) = apply(NAMES[1], "4-5");
    assert_eq!(cycled(&spared), CpuSet::new());
    keep_online(&bench, &cpus);
    apply::undo(&bench.host(), &bench.store(), Some(NAMES[0])).unwrap();
    let (applied, plan) = apply(NAMES[1], "4-5");
    let is_change = |note: &ShieldNote| matches!(note, ShieldNote::Changed { .. });
    assert!(!applied.notes.iter().any(is_change), "{:?}", applied.notes);
    assert!(applied.steps.iter().all(|step| step.tunable != "cpu-hotplug-cycle"));
    assert_eq!(cycled(&plan), CpuSet::new());
}
