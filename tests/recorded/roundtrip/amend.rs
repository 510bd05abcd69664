//! An active shield is amended: foreign changes are repaired, more settings are changed, and undo
//! still restores the values from before the shield.

use super::bench::{Bench, Tree, file, same};
use super::trees::{affinity, machines, step, v2, v2_plan, write};
use cpushield::apply::{self, AmendError, AmendedShield, ChangeFate, UndoneShield};
use cpushield::change::{Change, Outcome, ValueComparison};
use cpushield::plan::{Plan, Step};
use cpushield::refusal::UserError;
use cpushield_linux::Host;
use cpushield_simulator::{InjectedFault, Simulated};
use std::fs;

/// A setting that no plan of these machines changes.
const MORE: &str = "/proc/sys/kernel/numa_balancing";

fn with_more(mut tree: Tree) -> Tree {
    tree.insert(MORE[1..].into(), file("1\n"));
    tree
}

/// Foreign changes during the shield: files and a thread get their values from before it.
fn meddle(bench: &Bench) {
    let user = bench.host();
    for (path, value) in [
        ("/proc/sys/vm/stat_interval", "1"),
        ("/proc/irq/24/smp_affinity", "f"),
        ("/proc/irq/27/smp_affinity_list", "3"),
        ("/sys/devices/virtual/workqueue/cpumask", "f"),
        ("/proc/sys/kernel/sched_rt_runtime_us", "950000"),
    ] {
        user.write(path, value).unwrap();
    }
    user.set_affinity(40, &"0-3".parse().unwrap()).unwrap();
}

/// The steps that repair this, one with a value that differs from the plan, and three new ones.
fn mend() -> Vec<Step> {
    let changes = vec![
        write("/proc/sys/vm/stat_interval", "120", ValueComparison::Text),
        write("/proc/irq/24/smp_affinity", "7", ValueComparison::Mask),
        write("/proc/irq/27/smp_affinity_list", "0", ValueComparison::List),
        write("/sys/devices/virtual/workqueue/cpumask", "7", ValueComparison::Mask),
        write("/proc/sys/kernel/sched_rt_runtime_us", "-1", ValueComparison::Text),
        affinity(40, "kauditd"),
        narrow(affinity(100, "sshd")),
        write(MORE, "0", ValueComparison::Text),
        Change::CycleCpu { cpu: 3 },
    ];
    changes.into_iter().map(|change| step(change, true)).collect()
}

/// Onto fewer CPUs than the shield leaves.
fn narrow(mut change: Change) -> Change {
    if let Change::Affinity { cpus, .. } = &mut change {
        *cpus = "0-1".parse().unwrap();
    }
    change
}

fn amend(bench: &Bench, host: &Host) -> Result<AmendedShield, AmendError> {
    apply::amend(host, &bench.store(), "cpushield", &mend())
}

/// A shielded machine whose shield another process has changed.
fn meddled(tree: &Tree, plan: &Plan) -> (Bench, Tree) {
    let bench = Bench::of(&with_more(tree.clone()));
    let before = bench.tree();
    bench.apply(&bench.host(), plan).unwrap();
    meddle(&bench);
    (bench, before)
}

fn undo(bench: &Bench, when: &str) -> UndoneShield {
    let undone = apply::undo(&bench.host(), &bench.store(), None).unwrap();
    assert!(undone.is_complete(), "{when}: {undone:#?}");
    let drifted: Vec<_> =
        undone.steps.iter().filter(|s| matches!(s.fate, ChangeFate::Drifted { .. })).collect();
    assert!(drifted.is_empty(), "{when}: {drifted:#?}");
    undone
}

fn writes(tree: &Tree, plan: &Plan) -> usize {
    let (bench, _) = meddled(tree, plan);
    let host = bench.host();
    amend(&bench, &host).unwrap();
    host.writes()
}

#[test]
fn a_foreign_change_is_repaired_and_undo_restores_the_first_original() {
    for (name, tree, plan) in machines() {
        let (bench, before) = meddled(&tree, &plan);
        let amended = amend(&bench, &bench.host()).unwrap();
        assert_eq!(amended.halted, None, "{name}");
        let line = |path: &str| bench.host().read_line(path).unwrap();
        for (path, value) in [
            ("/proc/sys/vm/stat_interval", "120"),
            ("/proc/irq/24/smp_affinity", "7"),
            ("/proc/irq/27/smp_affinity_list", "0"),
            ("/proc/sys/kernel/sched_rt_runtime_us", "-1"),
            (MORE, "0"),
        ] {
            assert_eq!(line(path), value, "{name}: {path}");
        }
        assert_eq!(bench.host().affinity(40).unwrap().to_string(), "0-2", "{name}");
        let cycled =
            amended.steps.iter().find(|step| step.subject.starts_with("hotplug cycle")).unwrap();
        // A v1 cpuset would lose its programs.
        let refused = matches!(cycled.done.outcome, Outcome::Refused { .. });
        assert_eq!(refused, name.starts_with("v1"), "{name}: {cycled:?}");
        undo(&bench, name);
        same(&before, &bench.tree(), name);
    }
}

#[test]
fn a_third_value_is_replaced_by_the_planned_one_and_then_by_the_original() {
    let (bench, before) = meddled(&v2(), &v2_plan());
    let user = bench.host();
    user.write("/proc/sys/vm/stat_interval", "9").unwrap();
    user.write("/proc/irq/27/smp_affinity_list", "2-3").unwrap();
    amend(&bench, &bench.host()).unwrap();
    // A repeated amendment changes nothing more.
    let again = amend(&bench, &bench.host()).unwrap();
    let changed = |s: &&apply::AppliedStep| s.done.outcome == Outcome::Changed;
    let changed: Vec<&str> =
        again.steps.iter().filter(changed).map(|step| step.subject.as_str()).collect();
    assert_eq!(changed, ["hotplug cycle of CPU 3"]);
    undo(&bench, "third value");
    same(&before, &bench.tree(), "third value");
}

#[test]
fn undo_restores_every_byte_whichever_write_of_an_amendment_is_refused() {
    for (name, tree, plan) in machines() {
        for at in 0..writes(&tree, &plan) {
            let when = format!("{name}: write {at} refused");
            let (bench, before) = meddled(&tree, &plan);
            amend(&bench, &bench.host().failing(InjectedFault::Refuse { at, errno: 22 })).unwrap();
            undo(&bench, &when);
            same(&before, &bench.tree(), &when);
        }
    }
}

/// Kills an amendment at each write; returns how often another one could continue, and could not.
fn killed(name: &str, tree: &Tree, plan: &Plan, steps: &[Step]) -> (bool, bool) {
    let (bench, _) = meddled(tree, plan);
    let host = bench.host();
    apply::amend(&host, &bench.store(), "cpushield", steps).unwrap();
    let (mut went_on, mut refused) = (false, false);
    for at in 0..host.writes() {
        let when = format!("{name}: killed at write {at} of {} steps", steps.len());
        let (bench, before) = meddled(tree, plan);
        let host = bench.host().failing(InjectedFault::Stop { at });
        let killed = apply::amend(&host, &bench.store(), "cpushield", steps).unwrap_err();
        assert!(killed.is_stop(), "{when}: {killed}");
        if at % 2 == 0 {
            match apply::amend(&bench.host(), &bench.store(), "cpushield", steps) {
                Ok(_) => went_on = true,
                Err(AmendError::Unfinished) => refused = true,
                Err(error) => panic!("{when}: {error}"),
            }
        }
        undo(&bench, &when);
        same(&before, &bench.tree(), &when);
    }
    (went_on, refused)
}

#[test]
fn undo_restores_every_byte_after_a_kill_before_any_write_of_an_amendment() {
    for (name, tree, plan) in machines() {
        let mut steps = mend();
        // The contents of the CPU's files are unknown if it may be offline.
        assert_eq!(killed(name, &tree, &plan, &steps), (false, true), "{name}");
        steps.retain(|step| !matches!(step.change, Change::CycleCpu { .. }));
        assert_eq!(killed(name, &tree, &plan, &steps), (true, false), "{name}");
    }
}

#[test]
fn a_journal_truncated_in_an_amendment_is_enough_for_undo() {
    let (amended, before) = meddled(&v2(), &v2_plan());
    let opened = fs::read(amended.journal()).unwrap().len();
    amend(&amended, &amended.host()).unwrap();
    let full = fs::read(amended.journal()).unwrap();
    let begin = opened + full[opened..].iter().position(|b| *b == b'\n').unwrap() + 1;
    for len in (begin..full.len()).step_by(13) {
        let bench = amended.copy();
        fs::write(bench.journal(), &full[..len]).unwrap();
        let when = format!("{len} bytes");
        undo(&bench, &when);
        same(&before, &bench.tree(), &when);
    }
}

#[test]
fn only_a_complete_shield_is_amended_and_only_within_the_limits_of_a_plan() {
    let bench = Bench::of(&with_more(v2()));
    let host = bench.host();
    assert!(matches!(amend(&bench, &host), Err(AmendError::NoShield)));
    let plan = v2_plan();
    let killed = bench.host().failing(InjectedFault::Stop { at: 5 });
    bench.apply(&killed, &plan).unwrap_err();
    assert!(matches!(amend(&bench, &host), Err(AmendError::Unfinished)));
    undo(&bench, "half a shield");
    bench.apply(&bench.host(), &plan).unwrap();
    let journal = fs::read(bench.journal()).unwrap();
    let wrong = [
        write("/etc/passwd", "x", ValueComparison::Text),
        Change::CycleCpu { cpu: 1 },
        write("/proc/sys/vm/stat_interval", "1\n2", ValueComparison::Text),
    ];
    for change in wrong {
        let answer = apply::amend(&host, &bench.store(), "cpushield", &[step(change, false)]);
        assert!(matches!(answer, Err(AmendError::Step { .. })), "{answer:?}");
    }
    assert_eq!(host.writes(), 0);
    assert_eq!(fs::read(bench.journal()).unwrap(), journal);
    let unfinished =
        apply::undo(&bench.host().failing(InjectedFault::Stop { at: 3 }), &bench.store(), None);
    unfinished.unwrap_err();
    assert!(matches!(amend(&bench, &host), Err(AmendError::Unfinished)));
    assert_eq!(host.writes(), 0);
}

#[test]
fn an_amendment_without_steps_writes_nothing() {
    let bench = Bench::of(&v2());
    bench.apply(&bench.host(), &v2_plan()).unwrap();
    let journal = fs::read_to_string(bench.journal()).unwrap();
    let amended = apply::amend(&bench.host(), &bench.store(), "cpushield", &[]).unwrap();
    assert_eq!(amended, AmendedShield { steps: Vec::new(), halted: None });
    assert_eq!(fs::read_to_string(bench.journal()).unwrap(), journal);
}
