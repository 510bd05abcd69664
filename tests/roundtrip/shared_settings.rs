//! Settings that several shields change: what another process does to one between two applies is
//! kept, and each shield owns what it needs.

use crate::bench::{Bench, Tree, disturbed_writes};
use crate::many_shields::{NAMES, Recorded, machines, plan_shield, same_apart_from_irq_threads};
use cpushield::apply::{self, AppliedPlan, ApplyError, ShieldNote};
use cpushield::change::{Change, Outcome};
use cpushield::plan::{Plan, Step};
use cpushield_linux::{CpuSet, Host, InjectedFault, TaskId};
use std::fs;

/// One value, and a set of CPUs.
const INTERVAL: &str = "/proc/sys/vm/stat_interval";
const WATCHDOG: &str = "/proc/sys/kernel/watchdog_cpumask";

fn plan(machine: &Recorded, bench: &Bench, n: usize) -> Plan {
    plan_shield(bench, NAMES[n], Some(&machine.cpus[n])).unwrap()
}

fn written<'a>(plan: &'a Plan, file: &str) -> Option<&'a Step> {
    plan.steps
        .iter()
        .find(|step| matches!(&step.change, Change::Write { path, .. } if path == file))
}

/// A thread that a plan moves, other than that of an interrupt.
fn moved_thread(plan: &Plan) -> TaskId {
    let mut moved = plan.steps.iter().filter_map(|step| match &step.change {
        Change::Affinity { task, comm, .. } if !comm.starts_with("irq/") => Some(*task),
        _ => None,
    });
    moved.next().unwrap()
}

/// What another process does: a value, a set, and the affinity of a thread, which includes a CPU of
/// the second shield.
struct Meddling {
    thread: TaskId,
    cpus: CpuSet,
}

impl Meddling {
    fn new(machine: &Recorded, bench: &Bench) -> Meddling {
        let thread = moved_thread(&plan(machine, bench, 0));
        Meddling { thread, cpus: CpuSet::single(0).union(&machine.cpus[1]) }
    }

    fn meddle(&self, bench: &Bench) {
        let user = bench.host();
        for (path, value) in [(INTERVAL, "9"), (WATCHDOG, "0")] {
            if user.exists(path) {
                user.write(path, value).unwrap();
            }
        }
        user.set_affinity(self.thread.tid, &self.cpus).unwrap();
    }

    /// The machine on which this happened, and no shield was ever applied.
    fn alone(&self, machine: &Recorded) -> Tree {
        let bench = machine.bench();
        self.meddle(&bench);
        bench.tree()
    }
}

fn undo(bench: &Bench, n: usize, when: &str) {
    let undone = apply::undo(&bench.host(), &bench.store(), Some(NAMES[n])).unwrap();
    assert!(undone.is_complete(), "{when}: undo of {}: {undone:#?}", NAMES[n]);
}

/// The subjects of the notes about values and about affinities of other processes.
fn reported(applied: &AppliedPlan) -> (Vec<&str>, Vec<TaskId>) {
    let (mut values, mut threads) = (Vec::new(), Vec::new());
    for note in &applied.notes {
        match note {
            ShieldNote::ForeignValue { subject, .. } => values.push(subject.as_str()),
            ShieldNote::ForeignAffinities { tasks } => threads.extend(tasks),
            _ => {}
        }
    }
    values.sort_unstable();
    (values, threads)
}

#[test]
fn what_another_process_changed_before_a_shield_joined_is_reported_and_comes_back() {
    for machine in &machines(2) {
        for order in [[0, 1], [1, 0]] {
            let when = format!("{}: {order:?}", machine.name);
            let bench = machine.with_shields(&[0]);
            let meddling = Meddling::new(machine, &machine.bench());
            meddling.meddle(&bench);
            let joining = plan(machine, &bench, 1);
            let applied = bench.apply(&bench.host(), &joining).unwrap();
            let expected: Vec<&str> = [WATCHDOG, INTERVAL]
                .into_iter()
                .filter(|file| written(&joining, file).is_some())
                .collect();
            assert!(expected.contains(&INTERVAL), "{when}");
            assert_eq!(reported(&applied), (expected, vec![meddling.thread]), "{when}");
            order.into_iter().for_each(|n| undo(&bench, n, &when));
            same_apart_from_irq_threads(meddling.alone(machine), bench.tree(), &when);
        }
    }
}

#[test]
fn it_comes_back_after_a_kill_and_from_a_changed_shield_too() {
    let machines = machines(2);
    for machine in machines.iter().take(2) {
        let meddling = Meddling::new(machine, &machine.bench());
        let prepare = || {
            let bench = machine.with_shields(&[0]);
            meddling.meddle(&bench);
            bench
        };
        let bench = prepare();
        let (host, joining) = (bench.host(), plan(machine, &bench, 1));
        bench.apply(&host, &joining).unwrap();
        for at in disturbed_writes(host.writes()) {
            let when = format!("{}: killed at {at}", machine.name);
            let bench = prepare();
            let killed = bench.apply(&bench.host().failing(InjectedFault::Stop { at }), &joining);
            assert!(matches!(killed, Err(ApplyError::Killed)), "{when}: {killed:?}");
            undo(&bench, 1, &when);
            undo(&bench, 0, &when);
            same_apart_from_irq_threads(meddling.alone(machine), bench.tree(), &when);
        }
        let bench = prepare();
        let both = machine.cpus[0].union(&machine.cpus[1]);
        let grown = plan_shield(&bench, NAMES[0], Some(&both)).unwrap();
        apply::replace(&bench.host(), &bench.store(), &grown, &mut |_| {}).unwrap();
        undo(&bench, 0, &machine.name);
        same_apart_from_irq_threads(meddling.alone(machine), bench.tree(), &machine.name);
    }
}

/// Makes the kernel refuse a write.
fn refuse(bench: &Bench, path: &str) {
    let file = bench.scratch.0.join("root/errors.tsv");
    let known = fs::read_to_string(&file).unwrap_or_default();
    fs::write(&file, format!("{known}write\t{path}\tEINVAL\n")).unwrap();
}

#[test]
fn a_value_that_a_shield_was_refused_to_change_is_no_original() {
    let machine = &machines(2)[0];
    let bench = machine.bench();
    let errors = bench.scratch.0.join("root/errors.tsv");
    let known = fs::read_to_string(&errors).ok();
    refuse(&bench, INTERVAL);
    let applied = bench.apply(&bench.host(), &plan(machine, &bench, 0)).unwrap();
    let refused = applied.steps.iter().find(|step| step.subject == INTERVAL).unwrap();
    assert!(matches!(refused.done.outcome, Outcome::Refused { .. }), "{refused:?}");
    match known {
        Some(text) => fs::write(&errors, text).unwrap(),
        None => fs::remove_file(&errors).unwrap(),
    }
    bench.host().write(INTERVAL, "9").unwrap();
    bench.apply(&bench.host(), &plan(machine, &bench, 1)).unwrap();
    let value = |host: &Host| host.read_line(INTERVAL).unwrap();
    assert_eq!(value(&bench.host()), "3600");
    undo(&bench, 1, "refused");
    assert_eq!(value(&bench.host()), "9");
    undo(&bench, 0, "refused");
    assert_eq!(value(&bench.host()), "9");
}

#[test]
fn a_shield_that_is_amended_owns_the_setting_although_another_one_has_it() {
    let machine = &machines(2)[0];
    let bench = machine.with_shields(&[0]);
    let mut other = plan(machine, &bench, 1);
    let step = written(&other, INTERVAL).unwrap().clone();
    other.steps.retain(|it| *it != step);
    bench.apply(&bench.host(), &other).unwrap();
    let value = || bench.host().read_line(INTERVAL).unwrap();
    for _ in 0..2 {
        apply::amend(&bench.host(), &bench.store(), NAMES[1], std::slice::from_ref(&step)).unwrap();
    }
    let plans = apply::active_plans(&bench.host(), &bench.store()).unwrap();
    // A repeated amendment adds nothing.
    let own = plans[1].steps.iter().filter(|it| it.change == step.change);
    assert_eq!(own.count(), 1);
    undo(&bench, 0, "amended");
    assert_eq!(value(), "3600");
    undo(&bench, 1, "amended");
    same_apart_from_irq_threads(machine.bench().tree(), bench.tree(), "amended");
}
