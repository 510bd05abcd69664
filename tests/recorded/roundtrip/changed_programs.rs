//! Programs in a shield that is changed: they stay programs of that shield, with the kernel's
//! threads above real-time ones, and undo puts them back to where they were.

use super::bench::{Bench, Tree, same};
use super::operators::put_process;
use super::trees::{self, Task};
use cpushield::apply::{self, ShieldNote};
use cpushield::change::{Change, ValueComparison};
use cpushield::plan::Plan;
use cpushield::run::{
    self, CpuAssignment, NoPlaceReason, RunError, RunRecord, ShieldPlacement, VersionChange,
};
use cpushield_linux::{CpuSet, Host, SchedPolicy};
use cpushield_simulator::{InjectedFault, Simulated};

/// The kernel's threads with their CPUs and priorities, as on a PREEMPT_RT kernel.
const KERNEL_THREADS: &[(i32, &str, &str, u32)] = &[
    (15, "ksoftirqd/3", "3", 0),
    (16, "rcuc/3", "3", 1),
    (17, "ksoftirqd/2", "2", 0),
    (18, "rcuc/2", "2", 1),
    (19, "rcub/0", "0-1", 1),
];
/// Two programs in the group `mine`.
pub(crate) const FIRST: i32 = 300;
const SECOND: i32 = 301;
const GROUP: &str = "/sys/fs/cgroup/mine";

/// A machine with these kernel threads and programs, which have these priorities.
pub(crate) fn machine(remembers: bool, priorities: [u32; 2]) -> Bench {
    let mut tree = if remembers { trees::remembering() } else { trees::v2() };
    let policy = |priority| if priority == 0 { (0, 0) } else { (1, priority) };
    for (tid, comm, cpus, priority) in KERNEL_THREADS {
        let task = Task::new(*tid, comm, 0x0420_8040, cpus);
        Task { policy: policy(*priority), ..task }.put(&mut tree);
    }
    for (tid, priority) in [FIRST, SECOND].into_iter().zip(priorities) {
        let task = Task::new(tid, "loop", 0, "0-3");
        put_process(&mut tree, Task { policy: policy(priority), ..task }, 1000);
    }
    let bench = Bench::of(&tree);
    for tid in [FIRST, SECOND] {
        bench.host().write(&format!("{GROUP}/cgroup.procs"), &tid.to_string()).unwrap();
    }
    bench
}

pub(crate) fn cpus(list: &str) -> CpuSet {
    list.parse().unwrap()
}

/// A shield that consists of its group.
fn plan(bench: &Bench, name: &str, list: &str) -> Plan {
    let mut plan = trees::v2_plan();
    plan.shield.name = name.to_owned();
    plan.shield.cpus = cpus(list);
    let active = run::all_active(&bench.host(), &bench.store()).unwrap().into_iter();
    let others = active.filter(|other| other.shield.name != name);
    let shielded = others.fold(cpus(list), |all, other| all.union(&other.shield.cpus));
    plan.shield.housekeeping = cpus("0-3").difference(&shielded);
    let group = format!("/sys/fs/cgroup/{}", plan.shield.group());
    plan.steps.retain(|step| !matches!(step.change, Change::MoveProcess { .. }));
    plan.steps.truncate(6);
    for step in &mut plan.steps {
        match &mut step.change {
            Change::MakeDir { path } => *path = group.clone(),
            Change::Write { path, value, .. } => {
                *path = path.replace("/sys/fs/cgroup/cpushield", &group);
                if value == "3" {
                    *value = list.to_owned();
                }
            }
            _ => {}
        }
    }
    plan
}

pub(crate) fn shield(bench: &Bench, name: &str, list: &str) {
    bench.apply(&bench.host(), &plan(bench, name, list)).unwrap();
}

fn place(bench: &Bench, name: &str) -> ShieldPlacement {
    let plan = run::shield(&bench.host(), &bench.store(), Some(name)).unwrap();
    ShieldPlacement::new(&bench.host(), &plan)
}

pub(crate) fn add(
    bench: &Bench,
    name: &str,
    tid: i32,
    onto: CpuAssignment,
) -> Result<usize, RunError> {
    let added = run::add(&bench.host(), &bench.store(), &place(bench, name), tid, onto);
    added.map(|moved| moved.threads)
}

const ONE: CpuAssignment = CpuAssignment::One(None);

pub(crate) fn version(bench: &Bench, name: &str, list: &str) -> (VersionChange, Plan) {
    let old = run::shield(&bench.host(), &bench.store(), Some(name)).unwrap();
    let new = plan(bench, name, list);
    (VersionChange::new(&bench.host(), &old, &new).unwrap(), new)
}

pub(crate) fn replace(bench: &Bench, host: &Host, plan: &Plan) -> bool {
    apply::replace(host, &bench.store(), plan, &mut |_| {}).is_ok()
}

/// Changes a shield, as the command does it.
pub(crate) fn change(bench: &Bench, name: &str, list: &str) {
    let (host, store) = (bench.host(), bench.store());
    let (mut change, new) = version(bench, name, list);
    change.prepare(&host, &store).unwrap();
    assert!(replace(bench, &host, &new));
    assert_eq!(change.finish(&host, &store), Vec::<ShieldNote>::new());
}

pub(crate) fn undo(bench: &Bench, name: &str) {
    run::release(&bench.host(), &bench.store(), Some(name)).unwrap();
    let undone = apply::undo(&bench.host(), &bench.store(), Some(name)).unwrap();
    assert!(undone.is_complete(), "{undone:#?}");
}

#[track_caller]
pub(crate) fn has(bench: &Bench, tid: i32, list: &str) {
    assert_eq!(bench.host().affinity(tid).unwrap(), cpus(list), "{tid}");
}

fn group(bench: &Bench, tid: i32) -> String {
    bench.host().read_line(&format!("/proc/{tid}/cgroup")).unwrap()
}

/// The kernel's threads that have another priority than at first.
fn raised(bench: &Bench) -> Vec<(&'static str, u32)> {
    let now = |tid| bench.host().scheduling(tid).unwrap().rt_priority();
    let threads = KERNEL_THREADS.iter().map(|(tid, comm, _, first)| (*comm, *first, now(*tid)));
    threads.filter(|(_, first, now)| first != now).map(|(comm, _, now)| (comm, now)).collect()
}

#[test]
fn the_kernels_threads_are_above_a_program_before_a_change_moves_it() {
    for remembers in [false, true] {
        let bench = machine(remembers, [50, 0]);
        let before = bench.tree();
        shield(&bench, "a", "2");
        add(&bench, "a", FIRST, ONE).unwrap();
        let on_2 = [("ksoftirqd/2", 51), ("rcuc/2", 51), ("rcub/0", 51)];
        assert_eq!(raised(&bench), on_2);
        let (host, store) = (bench.host(), bench.store());
        let (mut change, new) = version(&bench, "a", "3");
        let reasons: Vec<_> = change.in_the_way.iter().map(|thread| &thread.reason).collect();
        assert_eq!(reasons, [&NoPlaceReason::NoCpuLeft { affinity: cpus("2") }]);
        assert!(!reasons[0].is_unsafe());
        change.prepare(&host, &store).unwrap();
        assert_eq!(raised(&bench).len(), KERNEL_THREADS.len());
        // Another command that lowers threads during the change leaves these.
        add(&bench, "a", SECOND, ONE).unwrap();
        run::remove(&host, &store, &place(&bench, "a"), SECOND).unwrap();
        assert_eq!(raised(&bench).len(), KERNEL_THREADS.len());
        assert!(replace(&bench, &host, &new));
        assert_eq!(change.finish(&host, &store), Vec::<ShieldNote>::new());
        has(&bench, FIRST, "3");
        assert_eq!(raised(&bench), [("ksoftirqd/3", 51), ("rcuc/3", 51), ("rcub/0", 51)]);
        undo(&bench, "a");
        assert_eq!(raised(&bench), []);
        same(&before, &bench.tree(), "undone");
    }
}

#[test]
fn the_priority_that_a_program_may_take_later_counts_too() {
    let bench = machine(false, [50, 0]);
    shield(&bench, "a", "2");
    add(&bench, "a", FIRST, ONE).unwrap();
    bench.host().set_scheduling(FIRST, SchedPolicy::Other { nice: 0 }).unwrap();
    change(&bench, "a", "3");
    assert_eq!(raised(&bench), [("ksoftirqd/3", 51), ("rcuc/3", 51), ("rcub/0", 51)]);
}

#[test]
fn a_program_with_one_cpu_has_one_cpu_in_a_grown_shield() {
    for remembers in [false, true] {
        let bench = machine(remembers, [50, 0]);
        shield(&bench, "a", "2");
        add(&bench, "a", FIRST, ONE).unwrap();
        let on_2 = raised(&bench);
        change(&bench, "a", "2-3");
        has(&bench, FIRST, "2");
        assert_eq!(raised(&bench), on_2);
        change(&bench, "a", "2");
        has(&bench, FIRST, "2");
        assert_eq!(raised(&bench), on_2);
    }
}

#[test]
fn programs_that_had_one_cpu_each_get_one_of_their_own_in_a_moved_shield() {
    let bench = machine(false, [50, 0]);
    shield(&bench, "a", "1");
    for tid in [FIRST, SECOND] {
        add(&bench, "a", tid, ONE).unwrap();
    }
    change(&bench, "a", "2-3");
    has(&bench, FIRST, "2");
    has(&bench, SECOND, "3");
}

#[test]
fn a_program_that_would_starve_the_kernel_is_not_moved() {
    let bench = machine(false, [50, 0]);
    shield(&bench, "a", "2");
    add(&bench, "a", FIRST, ONE).unwrap();
    let before = bench.tree();
    let errors = bench.text("/errors.tsv").unwrap();
    bench.answer("set-scheduling\t/proc/16\tEPERM\n");
    let (mut change, _) = version(&bench, "a", "3");
    let error = change.prepare(&bench.host(), &bench.store()).unwrap_err();
    let RunError::InTheWay { threads, .. } = &error else { panic!("{error}") };
    assert_eq!((threads.len(), threads[0].tid), (1, FIRST));
    assert!(threads[0].reason.is_unsafe(), "{error}");
    bench.put("/errors.tsv", &errors);
    same(&before, &bench.tree(), "refused");
    // A priority that leaves no room above it.
    bench.host().set_scheduling(FIRST, SchedPolicy::Fifo { priority: 99 }).unwrap();
    let (change, _) = version(&bench, "a", "3");
    let reasons: Vec<_> = change.in_the_way.iter().map(|thread| &thread.reason).collect();
    assert_eq!(reasons, [&NoPlaceReason::NoPriorityAbove { priority: 99 }]);
    assert!(reasons[0].is_unsafe());
}

/// The CPUs of both programs, and the kernel's threads that are raised.
fn placed(bench: &Bench) -> ([CpuSet; 2], Vec<(&'static str, u32)>) {
    ([FIRST, SECOND].map(|tid| bench.host().affinity(tid).unwrap()), raised(bench))
}

#[test]
fn a_killed_change_that_is_ended_places_the_programs_as_the_change_does() {
    for remembers in [false, true] {
        let shielded = || {
            let bench = machine(remembers, [50, 0]);
            // The setting that only this version has is restored after the new one is in force.
            let mut old = plan(&bench, "a", "1");
            let setting = trees::write("/proc/sys/vm/stat_interval", "120", ValueComparison::Text);
            old.steps.push(trees::step(setting, false));
            bench.apply(&bench.host(), &old).unwrap();
            for tid in [FIRST, SECOND] {
                add(&bench, "a", tid, ONE).unwrap();
            }
            bench
        };
        let bench = shielded();
        let before = placed(&bench);
        let (mut whole, new) = version(&bench, "a", "2-3");
        whole.prepare(&bench.host(), &bench.store()).unwrap();
        let host = bench.host();
        assert!(replace(&bench, &host, &new));
        assert_eq!(whole.finish(&host, &bench.store()), Vec::<ShieldNote>::new());
        let (after, raised_after) = placed(&bench);
        assert_eq!(after, [cpus("2"), cpus("3")]);
        // The change does not know which program was the real-time one; its CPU alone is needed.
        let on_2 = vec![("ksoftirqd/2", 51), ("rcuc/2", 51), ("rcub/0", 51)];
        assert!(on_2.iter().all(|thread| raised_after.contains(thread)));
        let after = (after, on_2);
        let mut seen = [false, false];
        for at in 0..host.writes() {
            let when = format!("killed at {at}, remembers: {remembers}");
            let bench = shielded();
            let (mut change, new) = version(&bench, "a", "2-3");
            change.prepare(&bench.host(), &bench.store()).unwrap();
            if replace(&bench, &bench.host().failing(InjectedFault::Stop { at }), &new) {
                continue;
            }
            let ended = run::end_change(&bench.host(), &bench.store()).unwrap();
            let Some((_, notes)) = ended else { continue };
            assert_eq!(notes, [], "{when}");
            let live = run::shield(&bench.host(), &bench.store(), Some("a")).unwrap();
            let is_new = live.shield.cpus == cpus("2-3");
            seen[usize::from(is_new)] = true;
            assert_eq!(placed(&bench), *if is_new { &after } else { &before }, "{when}");
        }
        assert_eq!(seen, [true, true]);
    }
}

/// The machine without the masks of tasks that the shield has moved out of its way.
fn programs(mut tree: Tree) -> Tree {
    for tid in [200, 201, 202, 203] {
        tree.remove(&format!("proc/{tid}/status"));
    }
    tree
}

#[test]
fn a_refused_change_leaves_the_programs_as_they_were() {
    let writes = |fault: Option<InjectedFault>| {
        let bench = machine(false, [50, 0]);
        shield(&bench, "a", "2");
        add(&bench, "a", FIRST, ONE).unwrap();
        let before = programs(bench.tree());
        let (mut change, new) = version(&bench, "a", "3");
        change.prepare(&bench.host(), &bench.store()).unwrap();
        let host = bench.host();
        let host = fault.map_or(bench.host(), |fault| host.failing(fault));
        let done = replace(&bench, &host, &new);
        if !done && run::shield(&bench.host(), &bench.store(), Some("a")).is_ok() {
            change.cancel(&bench.host(), &bench.store());
            same(&before, &programs(bench.tree()), &format!("{fault:?}"));
            undo(&bench, "a");
            assert_eq!((raised(&bench), group(&bench, FIRST)), (vec![], "0::/mine".to_owned()));
        }
        (host.writes(), done)
    };
    let (count, _) = writes(None);
    let failed =
        (0..count).filter(|at| !writes(Some(InjectedFault::Refuse { at: *at, errno: 22 })).1);
    assert!(failed.count() > 0);
}

#[test]
fn an_added_program_is_released_after_its_shield_was_changed() {
    for remembers in [false, true] {
        for (first, second) in [("2-3", "3"), ("2", "3"), ("2", "2-3")] {
            let when = format!("{first} to {second}, {remembers}");
            let bench = machine(remembers, [0, 0]);
            let before = bench.tree();
            shield(&bench, "a", first);
            add(&bench, "a", FIRST, CpuAssignment::All).unwrap();
            change(&bench, "a", second);
            let again = add(&bench, "a", FIRST, ONE).unwrap_err();
            assert!(matches!(again, RunError::Task { .. }), "{when}: {again}");
            undo(&bench, "a");
            same(&before, &bench.tree(), &when);
        }
    }
}

#[test]
fn a_program_that_another_process_took_out_of_its_shield_can_be_added_again() {
    let bench = machine(false, [0, 0]);
    shield(&bench, "a", "2");
    shield(&bench, "b", "3");
    add(&bench, "a", FIRST, ONE).unwrap();
    let refused = add(&bench, "b", FIRST, ONE).unwrap_err().to_string();
    assert_eq!(refused, format!("task {FIRST} is in shield a"));
    let removed = run::remove(&bench.host(), &bench.store(), &place(&bench, "b"), FIRST);
    assert_eq!(removed.unwrap_err().to_string(), format!("task {FIRST} is not in the shield"));
    bench.host().write("/sys/fs/cgroup/cgroup.procs", &FIRST.to_string()).unwrap();
    for name in ["a", "b"] {
        assert_eq!(add(&bench, name, FIRST, ONE).unwrap(), 1);
        assert_eq!(group(&bench, FIRST), format!("0::/cpushield_{name}"));
        run::remove(&bench.host(), &bench.store(), &place(&bench, name), FIRST).unwrap();
        assert_eq!(group(&bench, FIRST), "0::/");
    }
}

#[test]
fn undo_releases_the_programs_of_its_own_shield_only() {
    let bench = machine(false, [50, 0]);
    let before = bench.tree();
    shield(&bench, "a", "2");
    add(&bench, "a", FIRST, ONE).unwrap();
    change(&bench, "a", "3");
    shield(&bench, "b", "2");
    add(&bench, "b", SECOND, ONE).unwrap();
    undo(&bench, "b");
    has(&bench, FIRST, "3");
    assert_eq!(group(&bench, FIRST), "0::/cpushield_a");
    assert_eq!(bench.host().scheduling(FIRST).unwrap(), SchedPolicy::Fifo { priority: 50 });
    assert_eq!(raised(&bench), [("ksoftirqd/3", 51), ("rcuc/3", 51), ("rcub/0", 51)]);
    undo(&bench, "a");
    same(&before, &bench.tree(), "both undone");
}

#[test]
fn a_kernel_thread_stays_raised_for_the_second_of_two_programs() {
    let bench = machine(false, [50, 50]);
    shield(&bench, "a", "2-3");
    add(&bench, "a", FIRST, CpuAssignment::One(Some(2))).unwrap();
    add(&bench, "a", SECOND, CpuAssignment::One(Some(3))).unwrap();
    run::remove(&bench.host(), &bench.store(), &place(&bench, "a"), FIRST).unwrap();
    assert_eq!(raised(&bench), [("ksoftirqd/3", 51), ("rcuc/3", 51), ("rcub/0", 51)]);
    run::remove(&bench.host(), &bench.store(), &place(&bench, "a"), SECOND).unwrap();
    assert_eq!(raised(&bench), []);
    assert!(bench.tree().contains_key("sys/fs/cgroup/cpushield_a"));
}

/// A shield with both programs, and the machine before.
fn shield_with_programs(remembers: bool, priorities: [u32; 2]) -> (Bench, Tree) {
    let bench = machine(remembers, priorities);
    let before = bench.tree();
    shield(&bench, "a", "2");
    for tid in [FIRST, SECOND] {
        add(&bench, "a", tid, ONE).unwrap();
    }
    (bench, before)
}

#[test]
fn undo_after_a_killed_change_releases_the_programs() {
    for (remembers, priorities) in [(false, [0, 0]), (true, [0, 0]), (false, [50, 99])] {
        let undone_after_kill = |at| {
            let when = format!("killed at {at}, {remembers}, {priorities:?}");
            let (bench, before) = shield_with_programs(remembers, priorities);
            let (mut change, new) = version(&bench, "a", "3");
            change.prepare(&bench.host(), &bench.store()).unwrap();
            if replace(&bench, &bench.host().failing(InjectedFault::Stop { at }), &new) {
                return false;
            }
            undo(&bench, "a");
            if priorities == [0, 0] {
                same(&before, &bench.tree(), &when);
            }
            for (tid, priority) in [FIRST, SECOND].into_iter().zip(priorities) {
                let now = bench.host().scheduling(tid).unwrap().rt_priority();
                assert_eq!((group(&bench, tid).as_str(), now), ("0::/mine", priority), "{when}");
            }
            true
        };
        assert!((0..).take_while(|at| undone_after_kill(*at)).count() > 1);
    }
}

#[test]
fn undo_after_a_killed_amendment_releases_the_programs() {
    for remembers in [false, true] {
        let (bench, before) = shield_with_programs(remembers, [50, 99]);
        let more = trees::write("/proc/sys/vm/stat_interval", "120", ValueComparison::Text);
        let host = bench.host().failing(InjectedFault::Stop { at: 0 });
        apply::amend(&host, &bench.store(), "a", &[trees::step(more, false)]).unwrap_err();
        undo(&bench, "a");
        same(&before, &bench.tree(), &format!("{remembers}"));
    }
}

/// The change to a version that has no group, with which the programs become ordinary ones.
fn version_without_group(bench: &Bench, name: &str) -> (VersionChange, Plan) {
    let (_, mut new) = version(bench, name, "2");
    let setting = trees::write("/proc/sys/vm/stat_interval", "120", ValueComparison::Text);
    new.steps = vec![trees::step(setting, false)];
    let old = run::shield(&bench.host(), &bench.store(), Some(name)).unwrap();
    (VersionChange::new(&bench.host(), &old, &new).unwrap(), new)
}

/// The priorities of both programs, and the policies on record.
fn policies(bench: &Bench) -> ([u32; 2], bool) {
    let record = bench.store().read("programs.json").unwrap().unwrap();
    let record: RunRecord = serde_json::from_slice(&record).unwrap();
    let is_on_record = !record.demoted.is_empty();
    ([FIRST, SECOND].map(|tid| bench.host().scheduling(tid).unwrap().rt_priority()), is_on_record)
}

#[test]
fn a_killed_change_that_makes_programs_ordinary_loses_no_policy() {
    let (bench, _) = shield_with_programs(true, [50, 98]);
    let (mut whole, new) = version_without_group(&bench, "a");
    let (preparing, replacing) = (bench.host(), bench.host());
    let notes = whole.prepare(&preparing, &bench.store()).unwrap();
    assert_eq!((notes.len(), policies(&bench)), (2, ([0, 0], true)), "{notes:?}");
    assert!(replace(&bench, &replacing, &new));
    assert_eq!(whole.finish(&bench.host(), &bench.store()), Vec::<ShieldNote>::new());
    assert_eq!(policies(&bench), ([0, 0], false));

    let end = |bench: &Bench, when: &str| {
        run::end_change(&bench.host(), &bench.store()).unwrap();
        let live = run::shield(&bench.host(), &bench.store(), Some("a")).unwrap();
        let keeps_group = live.steps.len() > 1;
        let priorities = if keeps_group { [50, 98] } else { [0, 0] };
        assert_eq!(policies(bench), (priorities, false), "{when}");
        keeps_group
    };
    for at in 0..preparing.writes() {
        let (bench, _) = shield_with_programs(true, [50, 98]);
        let (mut change, _) = version_without_group(&bench, "a");
        let host = bench.host().failing(InjectedFault::Stop { at });
        let _ = change.prepare(&host, &bench.store());
        assert!(end(&bench, &format!("killed at {at} before the change")));
    }
    let mut seen = [false, false];
    for at in 0..replacing.writes() {
        let (bench, _) = shield_with_programs(true, [50, 98]);
        let (mut change, new) = version_without_group(&bench, "a");
        change.prepare(&bench.host(), &bench.store()).unwrap();
        if !replace(&bench, &bench.host().failing(InjectedFault::Stop { at }), &new) {
            seen[usize::from(end(&bench, &format!("killed at {at}")))] = true;
        }
    }
    assert!(seen[0], "{seen:?}");
}
