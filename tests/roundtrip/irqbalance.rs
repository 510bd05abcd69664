//! irqbalance applies a request at its next scan, and its answer is older until then.

use crate::bench::{Bench, Tree};
use crate::trees;
use cpushield::apply;
use cpushield_linux::CpuSet;

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
    tree.insert("asked_ban".into(), Some(Vec::new()));
    tree.insert("proc/812/environ".into(), Some(environment.into()));
    let answer = format!("SLEEP 10 BANNED {first}\n");
    tree.insert("run/irqbalance/irqbalance812.sock".into(), Some(answer.into()));
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
