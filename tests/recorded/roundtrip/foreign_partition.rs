//! Masks that the kernel makes, and no process: those of a partition that another process makes
//! while a shield is active, those of tasks that apply did not see, and those of an
//! offline CPU.

use super::bench::{Bench, Tree, file};
use super::requested::born;
use super::trees::{Task, remembering, v2, v2_plan};
use cpushield::apply::{self, ChangeFate, UndoneShield};
use std::collections::BTreeMap;

const FOREIGN: &str = "/sys/fs/cgroup/foo";

fn with_cpusets(mut tree: Tree) -> Bench {
    tree.insert("sys/fs/cgroup/cgroup.subtree_control".into(), file("cpuset memory pids\n"));
    for (name, text) in [
        ("cgroup.controllers", "cpuset memory pids\n"),
        ("cpuset.cpus", "\n"),
        ("cpuset.cpus.effective", "\n"),
        ("cpuset.cpus.exclusive", "\n"),
        ("cpuset.cpus.partition", "member\n"),
        ("cpuset.mems", "\n"),
    ] {
        tree.insert(format!("sys/fs/cgroup/mine/{name}"), file(text));
    }
    Bench::of(&tree)
}

fn begin_partition(bench: &Bench) {
    let host = bench.host();
    host.make_dir(FOREIGN).unwrap();
    host.write(&format!("{FOREIGN}/cpuset.cpus"), "2").unwrap();
    host.write(&format!("{FOREIGN}/cpuset.cpus.partition"), "isolated").unwrap();
}

fn end_partition(bench: &Bench) {
    bench.host().write(&format!("{FOREIGN}/cpuset.cpus.partition"), "member").unwrap();
    bench.host().remove_dir(FOREIGN).unwrap();
}

fn masks(bench: &Bench) -> BTreeMap<i32, String> {
    let tasks = bench.host().tasks().unwrap();
    let tids = tasks.iter().map(|task| task.id.tid);
    tids.map(|tid| (tid, bench.host().affinity(tid).unwrap().to_string())).collect()
}

fn undo(bench: &Bench) -> UndoneShield {
    let undone = apply::undo(&bench.host(), &bench.store(), None).unwrap();
    assert!(undone.is_complete(), "{undone:#?}");
    undone
}

#[test]
fn a_partition_of_another_process_that_ends_after_undo_leaves_no_task_restricted() {
    let bench = with_cpusets(remembering());
    let before = masks(&bench);
    bench.apply(&bench.host(), &v2_plan()).unwrap();
    begin_partition(&bench);
    born(&bench, 300, 1, 0, false);
    born(&bench, 303, 2, 0x0020_8040, false);
    let undone = undo(&bench);
    assert_eq!(undone.drifted_tasks, [], "{undone:#?}");
    assert_eq!(masks(&bench)[&2], "0-1,3");
    end_partition(&bench);
    let mut after = masks(&bench);
    let born = [300, 303].map(|tid| after.remove(&tid).unwrap());
    assert_eq!(born, ["0-3", "0-3"]);
    assert_eq!(after, before);
}

#[test]
fn where_the_kernel_forgets_requests_the_masks_of_a_foreign_partition_are_no_drift_either() {
    let bench = with_cpusets(v2());
    bench.apply(&bench.host(), &v2_plan()).unwrap();
    begin_partition(&bench);
    let undone = undo(&bench);
    assert_eq!(undone.drifted_tasks, [], "{undone:#?}");
    let now = masks(&bench);
    let all = [1, 2, 40, 100].map(|tid| &*now[&tid]);
    assert_eq!((all, &*now[&200]), (["0-1,3"; 4], "0-1"));
}

#[test]
fn tasks_without_an_original_do_not_keep_the_housekeeping_cpus() {
    let bench = Bench::of(&v2());
    bench.apply(&bench.host(), &v2_plan()).unwrap();
    // The journal knows none of these tasks: as if apply had seen them with other numbers.
    for (tid, _) in masks(&bench) {
        let (started, other) = (format!(" {} ", tid * 10), format!(" {} ", tid * 10 + 5));
        for path in [format!("/proc/{tid}/stat"), format!("/proc/{tid}/task/{tid}/stat")] {
            bench.replace(&path, &started, &other);
        }
    }
    undo(&bench);
    let now = masks(&bench);
    assert_eq!([1, 2, 40, 100].map(|tid| &*now[&tid]), ["0-3"; 4]);
}

#[test]
fn an_offline_cpu_is_named_and_its_task_gets_it_back_from_the_next_undo() {
    let mut tree = v2();
    Task::new(50, "irq/24-eth0", 0x0020_8040, "1").put(&mut tree);
    let online = file("1\n");
    tree.insert("sys/devices/system/cpu/cpu1/online".into(), online);
    let bench = Bench::of(&tree);
    bench.apply(&bench.host(), &v2_plan()).unwrap();
    let set_online = |value| bench.host().write("/sys/devices/system/cpu/cpu1/online", value);
    set_online("0").unwrap();
    let undone = apply::undo(&bench.host(), &bench.store(), None).unwrap();
    let reasons = undone.steps.into_iter().filter_map(|step| match step.fate {
        ChangeFate::Failed { reason } => Some(reason),
        _ => None,
    });
    let expected = "task 50: CPU 1 in the affinity mask of irq/24-eth0 is offline";
    assert_eq!(reasons.collect::<Vec<_>>(), [expected]);
    set_online("1").unwrap();
    undo(&bench);
    assert_eq!(masks(&bench)[&50], "1");
}

#[test]
fn the_thread_of_an_interrupt_on_a_cpu_of_a_foreign_partition_is_left_to_the_kernel() {
    let mut tree = v2();
    Task::new(50, "irq/24-eth0", 0x0020_8040, "2").put(&mut tree);
    let bench = with_cpusets(tree);
    // The kernel puts the thread back on the CPU of its interrupt when the next one arrives.
    let on_its_cpu = bench.text("/proc/50/status").unwrap();
    begin_partition(&bench);
    bench.put("/proc/50/status", &on_its_cpu);
    assert_eq!(masks(&bench)[&50], "2");
    bench.apply(&bench.host(), &v2_plan()).unwrap();
    // The partition of the shield: the kernel writes the masks of all tasks outside.
    bench.host().set_affinity(50, &"0-1".parse().unwrap()).unwrap();
    undo(&bench);
}
