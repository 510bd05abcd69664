//! SMT siblings that are offline while a shield is active: the machine is surveyed, planned,
//! changed and undone as if they were online.

use super::bench::{Bench, Tree, disturbed_writes, file, same};
use super::many_shields::same_apart_from_irq_threads;
use super::trees;
use crate::recordings;
use cpushield::apply;
use cpushield::change::{Change, Outcome, ValueComparison};
use cpushield::plan::{ActiveShields, Plan, PlanRefusal, SiblingRefusal, plan_with_others};
use cpushield::policy::{ShieldRequest, Siblings};
use cpushield::run;
use cpushield::survey::{Machine, survey};
use cpushield::tunables;
use cpushield::workflow::machine_without::remove_shield;
use cpushield_linux::{CpuSet, Host};
use cpushield_simulator::{InjectedFault, Simulated};

fn bench() -> Bench {
    Bench::of_recording(&recordings::root("6.12-rt-smt"))
}

fn request(name: &str, cpus: &str, siblings: Siblings) -> ShieldRequest {
    ShieldRequest {
        name: name.to_owned(),
        cpus: Some(cpus.parse().unwrap()),
        siblings: Some(siblings),
        ..ShieldRequest::default()
    }
}

/// The machine without the shield of this name, and what the others are.
fn survey_for(bench: &Bench, name: &str) -> (Machine, ActiveShields) {
    let host = bench.host();
    let mut machine = survey(&host, &tunables::reads());
    let plans = apply::active_plans(&host, &bench.store()).unwrap();
    let (old, others): (Vec<Plan>, Vec<Plan>) =
        plans.into_iter().partition(|plan| plan.shield.name == name);
    if let Some(old) = old.first() {
        remove_shield(&mut machine, &host, &bench.store(), old).unwrap();
    }
    (machine, ActiveShields::new(&others).replacing(old.first()))
}

fn plan(bench: &Bench, request: &ShieldRequest) -> Result<Plan, PlanRefusal> {
    let (machine, live) = survey_for(bench, &request.name);
    plan_with_others(&machine, request, &live)
}

fn online(host: &Host) -> String {
    host.read_line("/sys/devices/system/cpu/online").unwrap()
}

/// A machine with a shield on cores 4-5 and 6-7 whose siblings 5 and 7 are offline.
fn shielded() -> (Bench, Plan) {
    let bench = bench();
    let plan = plan(&bench, &request("a", "4,6", Siblings::Offline)).unwrap();
    let applied = bench.apply(&bench.host(), &plan).unwrap();
    let outcomes = applied.steps.iter().filter(|step| step.tunable == "offline-siblings");
    let outcomes: Vec<&Outcome> = outcomes.map(|step| &step.done.outcome).collect();
    assert_eq!(outcomes, [&Outcome::Changed, &Outcome::Changed]);
    assert_eq!(online(&bench.host()), "0-4,6");
    (bench, plan)
}

fn undo(bench: &Bench, name: &str) {
    let undone = apply::undo(&bench.host(), &bench.store(), Some(name)).unwrap();
    assert!(undone.is_complete(), "{undone:#?}");
}

#[test]
fn the_same_request_is_planned_again_and_nothing_has_drifted() {
    let (bench, plan) = shielded();
    let status = run::status(&bench.host(), &bench.store(), None).unwrap();
    let shield = &status.shields[0];
    assert_eq!((&shield.drift, shield.offline_siblings.to_string()), (&Vec::new(), "5,7".into()));
    let (machine, _) = survey_for(&bench, "a");
    let before = survey(&self::bench().host(), &tunables::reads());
    // In this guest siblings of a core have separate level-2 caches, which no hardware has.
    let without_caches = |machine: &Machine| {
        let mut topology = machine.topology.clone();
        topology.cpus.iter_mut().for_each(|cpu| cpu.caches.clear());
        topology
    };
    assert_eq!(without_caches(&machine), without_caches(&before));
    let again = self::plan(&bench, &request("a", "4,6", Siblings::Offline)).unwrap();
    assert_eq!(again.shield, plan.shield);
    let changes = |plan: &Plan| -> Vec<Change> {
        plan.steps.iter().map(|step| step.change.clone()).collect()
    };
    let new: Vec<Change> =
        changes(&again).into_iter().filter(|it| !changes(&plan).contains(it)).collect();
    assert_eq!(new, []);
    undo(&bench, "a");
    same(&self::bench().tree(), &bench.tree(), "undone");
}

#[test]
fn a_sibling_that_another_process_brings_online_is_drift() {
    let (bench, _) = shielded();
    bench.host().write("/sys/devices/system/cpu/cpu7/online", "1").unwrap();
    let status = run::status(&bench.host(), &bench.store(), None).unwrap();
    let drift: Vec<(&str, Option<&str>)> =
        status.shields[0].drift.iter().map(|it| (it.left.as_str(), it.now.as_deref())).collect();
    // The kernel lets a worker of RCU run on every CPU outside nohz_full= then.
    assert_eq!(drift, [("0", Some("0,4")), ("0", Some("1"))]);
    undo(&bench, "a");
    same(&self::bench().tree(), &bench.tree(), "undone");
}

#[test]
fn a_further_shield_joins_and_leaves_but_takes_no_sibling_offline() {
    let (bench, _) = shielded();
    let alone = bench.tree();
    let refused = plan(&bench, &request("b", "2", Siblings::Offline)).unwrap_err();
    let (cpus, shields) = ("3".parse().unwrap(), vec!["a".to_owned()]);
    assert_eq!(refused, PlanRefusal::Siblings(SiblingRefusal::StopsShields { cpus, shields }));
    let second = plan(&bench, &request("b", "2", Siblings::Idle)).unwrap();
    bench.apply(&bench.host(), &second).unwrap();
    // The first one is as before, and can be planned again.
    assert!(plan(&bench, &request("a", "4,6", Siblings::Offline)).is_ok());
    undo(&bench, "b");
    same_apart_from_irq_threads(alone, bench.tree(), "b undone");
    let second = plan(&bench, &request("b", "2", Siblings::Idle)).unwrap();
    bench.apply(&bench.host(), &second).unwrap();
    undo(&bench, "a");
    assert_eq!(online(&bench.host()), "0-7");
    undo(&bench, "b");
    same(&self::bench().tree(), &bench.tree(), "both undone");
}

#[test]
fn a_change_keeps_takes_and_returns_siblings_wherever_it_is_killed() {
    let (before, (with_old, _)) = (self::bench().tree(), shielded());
    for (cpus, siblings, expected) in [
        ("4", Siblings::Offline, "0-4,6-7"),
        ("2,6", Siblings::Offline, "0-2,4-6"),
        ("4,6", Siblings::Idle, "0-7"),
    ] {
        let when = format!("{cpus} {siblings:?}");
        let bench = with_old.copy();
        let new = plan(&bench, &request("a", cpus, siblings)).unwrap();
        let host = bench.host();
        apply::replace(&host, &bench.store(), &new, &mut |_| {}).unwrap();
        assert_eq!(online(&bench.host()), expected, "{when}");
        let status = run::status(&bench.host(), &bench.store(), None).unwrap();
        assert_eq!(status.shields[0].drift, [], "{when}");
        undo(&bench, "a");
        same(&before, &bench.tree(), &when);
        let count = host.writes();
        for at in disturbed_writes(count).chain(count.saturating_sub(8)..count) {
            let when = format!("{when}, killed at {at}");
            let bench = with_old.copy();
            let host = bench.host().failing(InjectedFault::Stop { at });
            apply::replace(&host, &bench.store(), &new, &mut |_| {}).unwrap_err();
            undo(&bench, "a");
            same(&before, &bench.tree(), &when);
        }
    }
}

/// A v2 machine on which CPU 3 can go offline, with a plan for nothing else.
fn synthetic() -> (Tree, Plan) {
    let (_, tree, mut plan) = trees::machines_with_offline_sibling().swap_remove(0);
    plan.steps.retain(|step| {
        matches!(step.change, Change::KeepAffinities | Change::OfflineSibling { .. })
    });
    (tree, plan)
}

#[test]
fn what_another_process_changes_while_the_cpu_is_offline_stays() {
    let (tree, plan) = synthetic();
    let bench = Bench::of(&tree);
    let before = bench.tree();
    bench.apply(&bench.host(), &plan).unwrap();
    let host = bench.host();
    // The kernel moved interrupt 27, which had only this CPU, and keeps the group without it.
    assert_eq!(host.read_line("/proc/irq/27/smp_affinity_list").unwrap(), "0-2");
    assert_eq!(host.read_line("/sys/fs/resctrl/rt/cpus_list").unwrap(), "2");
    host.write("/proc/irq/24/smp_affinity_list", "1").unwrap();
    assert!(apply::undo(&bench.host(), &bench.store(), None).unwrap().is_complete());
    assert_eq!(host.read_line("/proc/irq/24/smp_affinity_list").unwrap(), "1");
    host.write("/proc/irq/24/smp_affinity_list", "0-3").unwrap();
    same(&before, &bench.tree(), "undone");
}

#[test]
fn what_another_process_changes_after_it_brought_the_cpu_online_stays() {
    let (tree, mut plan) = synthetic();
    let irq = "/proc/irq/24/smp_affinity_list";
    let write = trees::write(irq, "0-1", ValueComparison::List);
    plan.steps.insert(1, trees::step(write, true));
    let bench = Bench::of(&tree);
    let before = bench.tree();
    bench.apply(&bench.host(), &plan).unwrap();
    let host = bench.host();
    host.write("/sys/devices/system/cpu/cpu3/online", "1").unwrap();
    host.write(irq, "1").unwrap();
    assert!(apply::undo(&bench.host(), &bench.store(), None).unwrap().is_complete());
    assert_eq!(host.read_line(irq).unwrap(), "1");
    host.write(irq, "0-3").unwrap();
    same(&before, &bench.tree(), "undone");
}

#[test]
fn a_kernel_thread_gets_its_whole_mask_back_while_the_shielded_cpu_is_offline() {
    let plan = |name: &str, cpu: usize, rest: &str| {
        let mut plan = trees::v2_plan();
        plan.shield.name = name.to_owned();
        (plan.shield.cpus, plan.shield.housekeeping) = (CpuSet::single(cpu), rest.parse().unwrap());
        plan.steps.retain_mut(|step| match &mut step.change {
            Change::Affinity { task, cpus, .. } => {
                cpus.clone_from(&plan.shield.housekeeping);
                [2, 40].contains(&task.tid)
            }
            change => matches!(change, Change::KeepAffinities),
        });
        plan
    };
    for order in [&["a"][..], &["b", "a"], &["a", "b"]] {
        let bench = Bench::of(&trees::v2());
        for (name, cpu, rest) in [("a", 3, "0-2"), ("b", 2, "0-1")] {
            if order.contains(&name) {
                bench.apply(&bench.host(), &plan(name, cpu, rest)).unwrap();
            }
        }
        let file = "/sys/devices/system/cpu/cpu3/online";
        bench.host().write(file, "0").unwrap();
        order.iter().for_each(|name| undo(&bench, name));
        bench.host().write(file, "1").unwrap();
        for tid in [2, 40] {
            assert_eq!(bench.host().affinity(tid).unwrap().to_string(), "0-3", "{tid}, {order:?}");
        }
    }
}

#[test]
fn a_cpu_that_was_offline_before_stays_offline() {
    let (mut tree, plan) = synthetic();
    tree.insert("sys/devices/system/cpu/cpu3/online".into(), file("0\n"));
    tree.insert("sys/devices/system/cpu/online".into(), file("0-2\n"));
    let bench = Bench::of(&tree);
    let cpus: CpuSet = "3".parse().unwrap();
    assert_eq!(plan.shield.offline_siblings, cpus);
    bench.apply(&bench.host(), &plan).unwrap();
    assert!(apply::undo(&bench.host(), &bench.store(), None).unwrap().is_complete());
    assert_eq!(online(&bench.host()), "0-2");
}
