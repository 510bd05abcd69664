//! irqbalance applies a request at its next scan, and its answer is older until then.

use super::bench::{Bench, Tree, file};
use super::trees;
use cpushield::apply::{self, ChangeFate};
use cpushield::change::{Change, ValueComparison};
use cpushield::plan::Plan;
use cpushield::run::{self, Drift};
use cpushield_linux::CpuSet;
use cpushield_simulator::Simulated;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    Apply,
    Undo,
    Scan,
}

/// The CPUs that irqbalance leaves alone after some actions, on a machine where it applies requests
/// late, with this environment and first answer.
fn banned_after(environment: &str, first: &str, actions: &[Action]) -> CpuSet {
    let mut tree: Tree = trees::v2();
    tree.insert("asked_ban".into(), file(""));
    tree.insert("proc/812/environ".into(), file(environment));
    let answer = format!("SLEEP 10 BANNED {first}\n");
    tree.insert("run/irqbalance/irqbalance812.sock".into(), file(answer));
    let bench = Bench::of(&tree);
    for action in actions {
        match action {
            Action::Apply => drop(bench.apply(&bench.host(), &trees::v2_plan()).unwrap()),
            Action::Undo => drop(apply::undo(&bench.host(), &bench.store(), None).unwrap()),
            Action::Scan => bench.host().simulate_scan().unwrap(),
        }
    }
    bench.host().irqbalance().unwrap().unwrap().banned
}

#[test]
fn an_apply_before_the_scan_after_an_undo_has_its_own_ban_and_the_right_original() {
    use Action::{Apply, Scan, Undo};
    let cpus = |text: &str| text.parse::<CpuSet>().unwrap();
    // Nothing is configured; CPU 1 is; CPU 3 is, and CPU 1 was requested by another program.
    let configured = "LANG=C\0IRQBALANCE_BANNED_CPULIST=1\0";
    let machines =
        [("", "0", ""), (configured, "2", "1"), ("IRQBALANCE_BANNED_CPUS=8\0", "2", "1")];
    for (environment, first, original) in machines {
        let banned = |actions: &[Action]| banned_after(environment, first, actions);
        let (original, ours) = (cpus(original), cpus(original).union(&CpuSet::single(3)));
        assert_eq!(banned(&[Apply, Scan]), ours, "{environment:?}");
        assert_eq!(banned(&[Apply, Scan, Undo, Apply, Scan]), ours, "{environment:?}");
        assert_eq!(banned(&[Apply, Undo, Apply, Scan]), ours, "{environment:?}");
        let twice = [Apply, Scan, Undo, Apply, Undo, Scan];
        assert_eq!(banned(&twice), original, "{environment:?}");
        let twice = [Apply, Scan, Undo, Apply, Scan, Undo, Scan];
        assert_eq!(banned(&twice), original, "{environment:?}");
    }
}

/// The plan of a shield that only bans its CPUs, and those of the shields that are active with it.
fn ban(name: &str, shielded: &str, banned: &str) -> Plan {
    let mut plan = trees::v2_plan();
    let cpus = |list: &str| list.parse::<CpuSet>().unwrap();
    plan.shield.name = name.to_owned();
    plan.shield.cpus = cpus(shielded);
    plan.shield.housekeeping = cpus("0-3").difference(&cpus(banned));
    let change = Change::BanFromIrqbalance { cpus: cpus(banned) };
    plan.steps = vec![trees::step(change, false)];
    plan
}

#[test]
fn a_late_answer_after_the_change_of_another_shield_leaves_no_ban() {
    let late = || {
        let mut tree: Tree = trees::v2();
        tree.insert("asked_ban".into(), file(""));
        Bench::of(&tree)
    };
    let apply = |bench: &Bench, plan: &Plan| drop(bench.apply(&bench.host(), plan).unwrap());
    let undo = |bench: &Bench, name: &str| {
        let undone = apply::undo(&bench.host(), &bench.store(), Some(name)).unwrap();
        assert!(undone.steps.iter().all(|step| step.fate == ChangeFate::Restored), "{undone:#?}");
    };
    let banned = |bench: &Bench| {
        bench.host().simulate_scan().unwrap();
        bench.host().irqbalance().unwrap().unwrap().banned.to_string()
    };
    // Two shields are undone one right after the other.
    let two = |scan: bool| {
        let bench = late();
        apply(&bench, &ban("a", "3", "3"));
        apply(&bench, &ban("b", "2", "2-3"));
        if scan {
            assert_eq!(banned(&bench), "2-3");
        }
        bench
    };
    for (first, second) in [("a", "b"), ("b", "a")] {
        for scan in [false, true] {
            let bench = two(scan);
            undo(&bench, first);
            undo(&bench, second);
            assert_eq!(banned(&bench), "", "{first} and {second}, {scan}");
        }
    }
    // Another shield joins right after one has left.
    let bench = two(true);
    undo(&bench, "b");
    apply(&bench, &ban("c", "1", "1,3"));
    assert_eq!(banned(&bench), "1,3");
    // Two leave while a third stays.
    let bench = two(true);
    apply(&bench, &ban("c", "1", "1-3"));
    assert_eq!(banned(&bench), "1-3");
    undo(&bench, "c");
    undo(&bench, "b");
    assert_eq!(banned(&bench), "3");
    // A shield is changed and undone at once.
    for (old, new) in [("3", "2-3"), ("2-3", "3"), ("2", "3")] {
        let bench = late();
        apply(&bench, &ban("a", old, old));
        assert_eq!(banned(&bench), old);
        apply::replace(&bench.host(), &bench.store(), &ban("a", new, new), &mut |_| {}).unwrap();
        undo(&bench, "a");
        assert_eq!(banned(&bench), "", "{old} to {new}");
    }
    // A shield keeps its CPUs, and its new version bans none.
    let bench = two(true);
    let mut bare = ban("b", "2", "2-3");
    let setting = trees::write("/proc/sys/vm/stat_interval", "120", ValueComparison::Text);
    bare.steps = vec![trees::step(setting, false)];
    apply::replace(&bench.host(), &bench.store(), &bare, &mut |_| {}).unwrap();
    assert_eq!(banned(&bench), "3");
}

#[test]
fn status_shows_that_irqbalance_was_started_again() {
    let bench = Bench::of(&trees::v2());
    bench.apply(&bench.host(), &trees::v2_plan()).unwrap();
    let drift =
        || run::status(&bench.host(), &bench.store(), None).unwrap().shields[0].drift.clone();
    assert_eq!(drift(), []);
    bench.remove("/run/irqbalance/irqbalance812.sock");
    assert_eq!(drift(), [], "it is not running");
    bench.put("/run/irqbalance/irqbalance900.sock", "SLEEP 10 BANNED 2\n");
    let left = "/run/irqbalance/irqbalance812.sock 3".to_owned();
    let now = Some("/run/irqbalance/irqbalance900.sock 1".to_owned());
    let (what, tunable) = ("irqbalance".to_owned(), "test".to_owned());
    assert_eq!(drift(), [Drift { what, left, now, tunable }]);
}
