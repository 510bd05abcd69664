//! Affinities that programs requested while the shield was active.

use super::bench::{Bench, Tree};
use super::trees::{remembering, v2, v2_plan};
use cpushield::apply;
use cpushield_linux::CpuSet;

/// A task started during the shield, with the mask of its parent, and the mask it requested.
pub fn born(bench: &Bench, tid: i32, parent: i32, flags: u32, asked: bool) {
    let like = bench.text(&format!("/proc/{parent}/status")).unwrap();
    let stat = format!(
        "{tid} (born) S {parent} 0 0 0 -1 {flags} 0 0 0 0 0 0 0 0 20 0 1 0 {} 0 0 \
         18446744073709551615 0 0 0 0 0 0 0 0 0 0 0 0 17 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n",
        tid * 10
    );
    let of_thread = format!("task/{tid}/stat");
    for (file, text) in
        [("stat", &*stat), (&of_thread, &stat), ("status", &like), ("cgroup", "0::/\n")]
    {
        bench.put(&format!("/proc/{tid}/{file}"), text);
    }
    let procs = "/sys/fs/cgroup/cgroup.procs";
    bench.put(procs, &format!("{}{tid}\n", bench.text(procs).unwrap()));
    // It also inherits the mask that its parent requested.
    if let Some(text) = bench.text(&format!("/asked_cpus/{parent}")) {
        bench.put(&format!("/asked_cpus/{tid}"), &text);
    }
    if asked {
        bench.host().set_affinity(tid, &"0-2".parse().unwrap()).unwrap();
    }
}

/// The masks after undo of a program that pinned itself to the housekeeping CPUs (100), and of
/// tasks started under it: one that did nothing (300), one that pinned itself (301) and its child
/// (302), a kernel thread whose parent the plan had pinned (303); then of those with requested
/// masks from before (201, 202).
fn after_undo(tree: &Tree) -> (Vec<String>, Vec<i32>) {
    let bench = Bench::of(tree);
    bench.apply(&bench.host(), &v2_plan()).unwrap();
    let rest: CpuSet = "0-2".parse().unwrap();
    bench.host().set_affinity(100, &rest).unwrap();
    born(&bench, 300, 1, 0, false);
    born(&bench, 301, 1, 0, true);
    born(&bench, 302, 301, 0, false);
    born(&bench, 303, 2, 0x0020_8040, false);
    let all = [100, 300, 301, 302, 303];
    for tid in all {
        assert_eq!(bench.host().affinity(tid).unwrap(), rest, "{tid}");
    }
    let undone = apply::undo(&bench.host(), &bench.store(), None).unwrap();
    assert!(undone.is_complete(), "{undone:#?}");
    assert_eq!(undone.drifted_tasks, [], "{undone:#?}");
    let masks = all.iter().chain(&[201, 202]);
    let masks = masks.map(|tid| bench.host().affinity(*tid).unwrap().to_string()).collect();
    (masks, undone.requested_tasks.iter().map(|id| id.tid).collect())
}

#[test]
fn tasks_that_requested_the_housekeeping_cpus_keep_them_and_restricted_tasks_do_not() {
    let (masks, asked) = after_undo(&remembering());
    assert_eq!(masks, ["0-2", "0-3", "0-2", "0-2", "0-3", "2-3", "3"]);
    assert_eq!(asked, [100, 301, 302]);
}

#[test]
fn a_kernel_that_forgets_requested_affinities_leaves_no_task_restricted() {
    let (masks, asked) = after_undo(&v2());
    assert_eq!(masks, ["0-3", "0-3", "0-3", "0-3", "0-3", "2-3", "3"]);
    assert!(asked.is_empty(), "{asked:?}");
}
