//! A housekeeping CPU that goes offline leaves the cpusets of cgroup v1 for good. The masks that
//! the kernel makes of that belong to no other process.

use super::bench::{Bench, file, same};
use super::many_shields::{bench_of, plan_shield, same_apart_from_irq_threads};
use super::trees;
use crate::recordings;
use cpushield::apply::{self, ShieldNote};
use cpushield_linux::CpuSet;

/// CPU 1 goes offline and comes online again.
fn cycle(bench: &Bench) {
    for value in ["0", "1"] {
        bench.host().write("/sys/devices/system/cpu/cpu1/online", value).unwrap();
    }
}

/// Undoes a shield, and expects that other processes have changed the masks of these tasks.
fn undo(bench: &Bench, name: &str, drifted: &[i32]) {
    let undone = apply::undo(&bench.host(), &bench.store(), Some(name)).unwrap();
    assert!(undone.is_complete(), "{undone:#?}");
    let tids: Vec<i32> = undone.drifted_tasks.iter().map(|id| id.tid).collect();
    assert_eq!((tids.as_slice(), &undone.requested_tasks), (drifted, &vec![]), "{undone:#?}");
}

fn recorded() -> Bench {
    bench_of(&recordings::root("6.1-rt-v1"))
}

#[test]
fn undo_gives_every_program_its_cpus_back() {
    let (_, mut tree, mut plan) = trees::machines().into_iter().find(|it| it.0 == "v1").unwrap();
    tree.insert("sys/devices/system/cpu/cpu1/online".into(), file("1\n"));
    // The cpuset of another program loses the CPU with or without a shield.
    plan.steps.retain(|step| !step.change.subject().contains("/mine/"));
    let cycled = Bench::of(&tree);
    cycle(&cycled);
    let bench = Bench::of(&tree);
    bench.apply(&bench.host(), &plan).unwrap();
    cycle(&bench);
    assert_eq!(bench.host().affinity(100).unwrap().to_string(), "0,2");
    // The cpuset of task 200 belongs to another program, and does not get the CPU back with undo.
    undo(&bench, "cpushield", &[200]);
    // Task 203 was in the shield when the CPU was lost.
    assert_eq!(bench.host().affinity(203).unwrap().to_string(), "3");
    cycled.host().set_affinity(203, &CpuSet::single(3)).unwrap();
    same(&cycled.tree(), &bench.tree(), "undone");
}

#[test]
fn the_masks_are_no_originals_of_a_shield_that_joins() {
    let shield = |bench: &Bench, name: &str, cpu: usize| {
        let plan = plan_shield(bench, name, Some(&CpuSet::single(cpu))).unwrap();
        bench.apply(&bench.host(), &plan).unwrap()
    };
    let cycled = recorded();
    cycle(&cycled);
    for order in [["a", "b"], ["b", "a"]] {
        for cycle_last in [false, true] {
            let when = format!("{order:?}, {cycle_last}");
            let bench = recorded();
            shield(&bench, "a", 3);
            if !cycle_last {
                cycle(&bench);
            }
            let joined = shield(&bench, "b", 2);
            let is_foreign =
                |note: &&ShieldNote| matches!(note, ShieldNote::ForeignAffinities { .. });
            assert_eq!(joined.notes.iter().find(is_foreign), None, "{when}");
            if cycle_last {
                cycle(&bench);
            }
            order.into_iter().for_each(|name| undo(&bench, name, &[]));
            same_apart_from_irq_threads(cycled.tree(), bench.tree(), &when);
        }
    }
}
