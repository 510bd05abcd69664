//! Programs with several threads that enter and leave a shield: some end during a move, some come
//! from another cpuset. A program that was started in the shield leaves it for a group outside.

use super::bench::{Bench, Tree, file, same};
use super::trees::{self, Task};
use cpushield::run::{self, CpuAssignment, RunError, ShieldPlacement};
use cpushield_linux::{CpuSet, SchedPolicy};
use cpushield_simulator::Simulated;

const FIFO: (u32, u32) = (1, 10);

/// The lines of `/proc/<pid>/cgroup` for a group.
fn membership(v2: bool, group: &str) -> String {
    if v2 { format!("0::{group}\n") } else { format!("4:cpuset:{group}\n0::/\n") }
}

/// Puts a thread of process `pid` into a tree.
fn put(tree: &mut Tree, pid: i32, parent: i32, task: Task, membership: &str) {
    let tid = task.tid;
    let mut own = Tree::new();
    task.put(&mut own);
    for (path, text) in own {
        let text = String::from_utf8_lossy(text.as_ref().unwrap());
        let text = text.replace(" S 1 0 ", &format!(" S {parent} 0 "));
        let text = text.replace(&format!("Tgid:\t{tid}\n"), &format!("Tgid:\t{pid}\n"));
        tree.insert(path, file(text));
    }
    let of_process = format!("proc/{pid}/task/{tid}/stat");
    tree.insert(of_process, tree[&format!("proc/{tid}/stat")].clone());
    tree.insert(format!("proc/{tid}/cgroup"), file(membership));
}

/// A thread of a process that ended after it was listed: nothing else of it can be read.
fn put_ended(tree: &mut Tree, pid: i32, tid: i32) {
    let mut own = Tree::new();
    put(&mut own, pid, 1, Task::new(tid, "ended", 0, "0-3"), "");
    let listed = format!("proc/{pid}/task/{tid}/stat");
    tree.insert(listed.clone(), own[&listed].clone());
}

/// Process 300 with a thread that ends when its policy is set, and one that ends earlier.
fn pool() -> Tree {
    let mut tree = Tree::new();
    for (tid, policy) in [(300, (0, 0)), (301, FIFO), (302, (1, 99))] {
        let task = Task { policy, ..Task::new(tid, "pool", 0, "0-2") };
        put(&mut tree, 300, 1, task, &membership(true, "/"));
    }
    put_ended(&mut tree, 300, 303);
    let errors = "set-scheduling\t/proc/302\tESRCH\nset-affinity\t/proc/302\tESRCH\n";
    tree.insert("errors.tsv".into(), file(errors));
    tree
}

/// A machine with an active shield on CPU 3 and more tasks.
fn shielded(tree: &Tree) -> (Bench, ShieldPlacement) {
    let bench = Bench::of(&trees::v2());
    let plan = trees::v2_plan();
    bench.apply(&bench.host(), &plan).unwrap();
    bench.add(tree);
    let place = ShieldPlacement::new(&bench.host(), &plan);
    (bench, place)
}

fn policy(bench: &Bench, tid: i32) -> SchedPolicy {
    bench.host().scheduling(tid).unwrap()
}

fn group(bench: &Bench, tid: i32) -> String {
    let text = bench.host().read(&format!("/proc/{tid}/cgroup")).unwrap();
    text.lines().next().unwrap_or_default().to_owned()
}

#[test]
fn threads_that_end_during_a_move_do_not_stop_the_others() {
    let (bench, place) = shielded(&pool());
    let (host, store) = (bench.host(), bench.store());
    let before = [300, 301].map(|tid| (group(&bench, tid), host.affinity(tid).unwrap()));
    run::add(&host, &store, &place, 300, CpuAssignment::All).unwrap();
    for tid in [300, 301] {
        let inside = ("0::/cpushield".to_owned(), CpuSet::single(3));
        assert_eq!((group(&bench, tid), host.affinity(tid).unwrap()), inside, "{tid}");
    }
    let moved = run::remove(&host, &store, &place, 300).unwrap();
    assert_eq!(moved.notes, []);
    let after = [300, 301].map(|tid| (group(&bench, tid), host.affinity(tid).unwrap()));
    assert_eq!(after, before);
    assert_eq!(policy(&bench, 301), SchedPolicy::Fifo { priority: 10 });
}

#[test]
fn a_started_program_leaves_although_threads_end_during_that() {
    let mut tree = pool();
    put(&mut tree, 400, 1, Task::new(400, "caller", 0, "0-2"), "0::/mine\n");
    let (bench, place) = shielded(&tree);
    bench.host().write("/sys/fs/cgroup/cpushield/cgroup.procs", "300").unwrap();
    let host = bench.host().with_own_pid(400);
    let moved = run::remove(&host, &bench.store(), &place, 300).unwrap();
    assert_eq!(moved.notes.len(), 1, "{:?}", moved.notes);
    for tid in [300, 301] {
        assert_eq!(policy(&bench, tid), SchedPolicy::Other { nice: 0 }, "{tid}");
        let outside = ("0::/mine".to_owned(), place.housekeeping.clone());
        assert_eq!((group(&bench, tid), host.affinity(tid).unwrap()), outside, "{tid}");
    }
}

/// A shell that was started in the shield by process `parent`, the command in it, and a program.
fn shell_in_shield(parent: i32) -> (Bench, ShieldPlacement) {
    let mut tree = Tree::new();
    let root = membership(true, "/");
    put(&mut tree, 390, 1, Task::new(390, "sshd", 0, "0-2"), "0::/mine\n");
    put(&mut tree, 400, parent, Task::new(400, "bash", 0, "3"), &root);
    put(&mut tree, 401, 400, Task::new(401, "cpushield", 0, "3"), &root);
    let program = Task { policy: FIFO, ..Task::new(410, "loop", 0, "3") };
    put(&mut tree, 410, 400, program, &root);
    let (bench, place) = shielded(&tree);
    for tid in [400, 401, 410] {
        let list = "/sys/fs/cgroup/cpushield/cgroup.procs";
        bench.host().write(list, &tid.to_string()).unwrap();
    }
    (bench, place)
}

#[test]
fn a_command_in_the_shield_moves_a_program_to_the_group_of_its_nearest_ancestor_outside() {
    let (bench, place) = shell_in_shield(390);
    let host = bench.host().with_own_pid(401);
    run::remove(&host, &bench.store(), &place, 410).unwrap();
    assert_eq!(group(&bench, 410), "0::/mine");
    assert_eq!(host.affinity(410).unwrap(), place.housekeeping);
}

#[test]
fn a_command_in_the_shield_without_an_ancestor_outside_changes_nothing() {
    let (bench, place) = shell_in_shield(1);
    let before = bench.tree();
    let host = bench.host().with_own_pid(401);
    let refused = run::remove(&host, &bench.store(), &place, 410);
    assert!(matches!(refused, Err(RunError::NoDestination { tid: 410 })), "{refused:?}");
    same(&before, &bench.tree(), "after the refusal");
}

#[test]
fn the_threads_of_a_process_return_to_their_own_cpusets_and_masks() {
    let (_, tree, plan) = trees::machines().into_iter().find(|(name, ..)| *name == "v1").unwrap();
    let bench = Bench::of(&tree);
    bench.apply(&bench.host(), &plan).unwrap();
    let mut tree = Tree::new();
    for (tid, group) in [(300, "/a"), (301, "/b"), (302, "/b")] {
        let membership = membership(false, group);
        let cpus = if tid == 302 { "1" } else { "0-1" };
        put(&mut tree, 300, 1, Task::new(tid, "pool", 0, cpus), &membership);
    }
    for (group, tids) in [("a", "300\n"), ("b", "301\n302\n")] {
        let dir = format!("sys/fs/cgroup/cpuset/{group}");
        let files = [("tasks", tids), ("cpuset.cpus", "0-1\n"), ("cpuset.mems", "0\n")];
        for (name, text) in files {
            tree.insert(format!("{dir}/{name}"), file(text));
        }
        let leaders = if group == "a" { tids } else { "" };
        tree.insert(format!("{dir}/cgroup.procs"), file(leaders));
    }
    bench.add(&tree);
    let place = ShieldPlacement::new(&bench.host(), &plan);
    let (host, store) = (bench.host(), bench.store());
    let groups = |tids: [i32; 3]| tids.map(|tid| group(&bench, tid));
    let masks = || [300, 301, 302].map(|tid| host.affinity(tid).unwrap());
    let before = (groups([300, 301, 302]), masks());
    run::add(&host, &store, &place, 300, CpuAssignment::All).unwrap();
    assert_eq!(groups([300, 301, 302]), ["4:cpuset:/cpushield"; 3]);
    let moved = run::remove(&host, &store, &place, 300).unwrap();
    assert_eq!((moved.threads, moved.notes), (3, Vec::new()));
    // The kernel gave each thread all CPUs of its cpuset at the move.
    assert_eq!((groups([300, 301, 302]), masks()), before);
}
