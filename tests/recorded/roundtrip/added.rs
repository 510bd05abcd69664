//! Programs that were added to the shield have their original affinity after undo.

use super::bench::{Bench, Tree, same};
use super::trees::{machines, remembering, v2_plan};
use cpushield::apply;
use cpushield::plan::Plan;
use cpushield::run::{self, CpuAssignment, ShieldPlacement, ThreadRole};
use cpushield_linux::CpuSet;

/// The operation on a program before the shield is undone.
type Then = fn(&Bench, &ShieldPlacement, i32);

fn add(bench: &Bench, place: &ShieldPlacement, tid: i32) {
    run::add(&bench.host(), &bench.store(), place, tid, CpuAssignment::One(None)).unwrap();
    assert_eq!(bench.host().affinity(tid).unwrap(), CpuSet::single(3), "{tid} was not taken in");
}

fn add_and_remove(bench: &Bench, place: &ShieldPlacement, tid: i32) {
    let outside = bench.host().affinity(tid).unwrap();
    add(bench, place, tid);
    run::remove(&bench.host(), &bench.store(), place, tid).unwrap();
    assert_eq!(bench.host().affinity(tid).unwrap(), outside, "{tid} is not back");
}

fn add_and_remove_twice(bench: &Bench, place: &ShieldPlacement, tid: i32) {
    add_and_remove(bench, place, tid);
    add_and_remove(bench, place, tid);
}

/// Apply, the operations on these programs, and undo as the command does it. No task may be
/// reported as having requested an affinity.
fn round(name: &str, tree: &Tree, plan: &Plan, then: Then) {
    // One without a requested mask, one with the housekeeping CPUs, two that the shield had to
    // move.
    for tid in [100, 200, 201, 202] {
        let when = format!("{name}: {tid}");
        let bench = Bench::of(tree);
        let before = bench.tree();
        bench.apply(&bench.host(), plan).unwrap();
        let place = ShieldPlacement::new(&bench.host(), plan);
        then(&bench, &place, tid);
        run::release(&bench.host(), &bench.store(), None).unwrap();
        let undone = apply::undo(&bench.host(), &bench.store(), None).unwrap();
        assert!(undone.is_complete(), "{when}: {undone:#?}");
        assert_eq!(undone.requested_tasks, [], "{when}");
        assert_eq!(undone.drifted_tasks, [], "{when}");
        same(&before, &bench.tree(), &when);
    }
}

#[test]
fn an_added_task_is_listed_before_it_runs_in_the_shield() {
    for (name, tree, plan) in machines() {
        let bench = Bench::of(&tree);
        bench.apply(&bench.host(), &plan).unwrap();
        let place = ShieldPlacement::new(&bench.host(), &plan);
        let listed = |bench: &Bench| -> Vec<(usize, ThreadRole)> {
            let shield =
                run::status(&bench.host(), &bench.store(), None).unwrap().shields.remove(0);
            let on = shield.cpus.iter().flat_map(|on| {
                let added = on.threads.iter().filter(|thread| thread.task.id.tid == 100);
                added.map(|thread| (on.cpu, thread.role))
            });
            on.collect()
        };
        assert_eq!(listed(&bench), [], "{name}");
        add(&bench, &place, 100);
        assert_eq!(listed(&bench), [(3, ThreadRole::Waiting)], "{name}");
    }
}

#[test]
fn a_task_added_and_released_by_undo_is_as_before_the_shield() {
    for (name, tree, plan) in machines() {
        round(name, &tree, &plan, add);
    }
}

#[test]
fn a_task_added_and_removed_is_as_before_the_shield_after_undo() {
    for (name, tree, plan) in machines() {
        round(name, &tree, &plan, add_and_remove);
        round(name, &tree, &plan, add_and_remove_twice);
    }
}

#[test]
fn a_task_that_pins_itself_after_its_release_stays_pinned() {
    let bench = Bench::of(&remembering());
    let plan = v2_plan();
    bench.apply(&bench.host(), &plan).unwrap();
    add_and_remove(&bench, &ShieldPlacement::new(&bench.host(), &plan), 100);
    let rest: CpuSet = "0-2".parse().unwrap();
    bench.host().set_affinity(100, &rest).unwrap();
    let undone = apply::undo(&bench.host(), &bench.store(), None).unwrap();
    assert_eq!(undone.requested_tasks.iter().map(|id| id.tid).collect::<Vec<_>>(), [100]);
    assert_eq!(bench.host().affinity(100).unwrap(), rest);
}
