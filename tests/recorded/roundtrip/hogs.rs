//! A real-time task occupies a CPU: no step waits for a thread of that CPU.

use super::bench::{Bench, Tree, file, same};
use super::trees::{self, Task};
use cpushield::apply::{self, AppliedPlan, ApplyError, ChangeFate, UndoError};
use cpushield::change::{Change, Outcome, ValueComparison};
use cpushield::plan::Plan;
use cpushield::run::{self, CpuAssignment, ShieldPlacement};
use cpushield_linux::{CpuSet, SchedPolicy};
use cpushield_simulator::{InjectedFault, Simulated};

const WATCHDOG: &str = "/proc/sys/kernel/watchdog_cpumask";
const FAIR_SERVER: &str = "/sys/kernel/debug/sched/fair_server/cpu3/runtime";
const EXT_SERVER: &str = "/sys/kernel/debug/sched/ext_server/cpu3/runtime";
const SWITCH_ALL: &str = "/sys/kernel/sched_ext/switch_all";
const RT_RUNTIME: &str = "/proc/sys/kernel/sched_rt_runtime_us";
const SWITCH: &str = "/sys/kernel/tracing/events/sched/sched_switch/enable";

const SPIN: i32 = 300;
const RCU: i32 = 16;

/// The machine, a task `spin` that is busy on CPU 3 under SCHED_FIFO 50, and `rcuc/3`.
fn busy(fair_server: &str) -> Tree {
    let mut tree = trees::v2();
    let mut put = |path: &str, text: &str| {
        tree.insert(path[1..].into(), file(text));
    };
    put(WATCHDOG, "0-3\n");
    put(FAIR_SERVER, &format!("{fair_server}\n"));
    put(SWITCH, "0\n");
    let spin = Task { policy: (1, 50), state: 'R', cpu: 3, ..Task::new(SPIN, "spin", 0, "3") };
    let rcu = Task { policy: (1, 60), cpu: 3, ..Task::new(RCU, "rcuc/3", 0x0420_8040, "3") };
    for task in [spin, rcu] {
        task.put(&mut tree);
    }
    tree
}

fn plan(changes: Vec<Change>) -> Plan {
    let mut plan = trees::v2_plan();
    let kept = plan.steps.iter().position(|step| step.change == Change::KeepAffinities).unwrap();
    let kept = plan.steps.swap_remove(kept);
    let like = |change| {
        let mut step = kept.clone();
        (step.change, step.required) = (change, false);
        step
    };
    plan.steps = [Change::KeepAffinities].into_iter().chain(changes).map(like).collect();
    plan
}

/// A step for each file, in the order in which the tunables want them.
fn steps() -> Vec<Change> {
    vec![
        trees::write(SWITCH, "0", ValueComparison::Again),
        Change::CycleCpu { cpu: 3 },
        trees::write(RT_RUNTIME, "-1", ValueComparison::Text),
        trees::write(FAIR_SERVER, "0", ValueComparison::Text),
        trees::write(WATCHDOG, "0-2", ValueComparison::List),
    ]
}

fn refused(applied: &AppliedPlan) -> Vec<(&str, &str)> {
    let steps = applied.steps.iter().filter_map(|step| match &step.done.outcome {
        Outcome::Refused { reason, .. } => Some((step.subject.as_str(), reason.as_str())),
        _ => None,
    });
    steps.collect()
}

#[test]
fn a_step_that_would_wait_for_a_busy_cpu_is_refused_naming_the_task() {
    let mut tree = busy("0");
    tree.insert(RT_RUNTIME[1..].into(), file("-1\n"));
    let bench = Bench::of(&tree);
    let before = bench.tree();
    let applied = bench.apply(&bench.host(), &plan(steps())).unwrap();
    let refused = refused(&applied);
    let subjects: Vec<&str> = refused.iter().map(|(subject, _)| *subject).collect();
    assert_eq!(subjects, [SWITCH, "hotplug cycle of CPU 3", WATCHDOG]);
    for (_, reason) in refused {
        assert_eq!(
            reason,
            "CPU 3 is busy with spin (300, SCHED_FIFO 50), which does not sleep, and the kernel \
             would wait forever for a thread of this CPU; stop it, or make it an ordinary task \
             (chrt -o -p 0 300)"
        );
    }
    let undone = apply::undo(&bench.host(), &bench.store(), None).unwrap();
    assert!(undone.is_complete(), "{undone:#?}");
    same(&before, &bench.tree(), "busy CPU");
}

#[test]
fn guarantees_of_thread_time_are_not_disabled_so_nothing_waits_forever() {
    let bench = Bench::of(&busy("50000000"));
    let before = bench.tree();
    let applied = bench.apply(&bench.host(), &plan(steps())).unwrap();
    let refused = refused(&applied);
    let subjects: Vec<&str> = refused.iter().map(|(subject, _)| *subject).collect();
    assert_eq!(subjects, [RT_RUNTIME, FAIR_SERVER]);
    assert!(refused[0].1.contains("only this setting gives the other threads"), "{refused:?}");
    let undone = apply::undo(&bench.host(), &bench.store(), None).unwrap();
    assert!(undone.is_complete(), "{undone:#?}");
    same(&before, &bench.tree(), "served CPU");
}

/// Linux 7.0 with a sched_ext scheduler that has the threads of the kernel too.
#[test]
fn only_the_ext_server_gives_time_to_the_threads_of_a_sched_ext_scheduler() {
    let files = |ext: &str, all: &str| {
        let mut tree = busy("50000000");
        for (path, text) in [(EXT_SERVER, ext), (SWITCH_ALL, all)] {
            tree.insert(path[1..].into(), file(format!("{text}\n")));
        }
        tree
    };
    let ext_server = trees::write(EXT_SERVER, "0", ValueComparison::Text);
    let steps = [vec![ext_server], steps()].concat();
    let subjects = |tree: &Tree| -> Vec<String> {
        let bench = Bench::of(tree);
        let applied = bench.apply(&bench.host(), &plan(steps.clone())).unwrap();
        refused(&applied).iter().map(|(subject, _)| (*subject).to_owned()).collect()
    };
    // It is the last to serve them, as throttling is.
    assert_eq!(subjects(&files("50000000", "1")), [EXT_SERVER, RT_RUNTIME]);
    // It is off already: what waits for a thread of the CPU is refused.
    let waiting = [SWITCH, "hotplug cycle of CPU 3", RT_RUNTIME, WATCHDOG];
    assert_eq!(subjects(&files("0", "1")), waiting);
    // No scheduler is loaded: the fair server counts.
    assert_eq!(subjects(&files("50000000", "0")), [RT_RUNTIME, FAIR_SERVER]);
}

#[test]
fn run_names_the_server_that_has_the_threads_of_the_kernel() {
    let said = |files: &[(&str, &str)]| {
        let mut tree = busy("50000000");
        for (path, text) in files {
            tree.insert(path[1..].into(), file(format!("{text}\n")));
        }
        run::limits(&Bench::of(&tree).host(), &CpuSet::single(3))
    };
    let fair = "the fair server gives waiting ordinary threads some time on CPU 3";
    assert_eq!(said(&[]), [fair]);
    assert_eq!(said(&[(EXT_SERVER, "0"), (SWITCH_ALL, "0")]), [fair]);
    let off = "the ext server is off on CPU 3: while the program does not sleep, ordinary kernel \
               threads there (kworkers) do not run, and everything that depends on them waits";
    assert_eq!(said(&[(EXT_SERVER, "0"), (SWITCH_ALL, "1")]), [off]);
    // Before 7.0 nothing serves the threads of a sched_ext scheduler.
    assert_eq!(said(&[(SWITCH_ALL, "1")]), [off]);
}

/// Whether `spin` runs.
fn set_state(bench: &Bench, from: &str, to: &str) {
    bench.replace(&format!("/proc/{SPIN}/task/{SPIN}/stat"), from, to);
}

#[test]
fn undo_restores_thread_time_before_settings_that_wait_for_threads() {
    let bench = Bench::of(&busy("50000000"));
    let before = bench.tree();
    set_state(&bench, ") R", ") S");
    let applied = bench.apply(&bench.host(), &plan(steps())).unwrap();
    assert_eq!(refused(&applied), []);
    set_state(&bench, ") S", ") R");
    // Killed before its third write: the fair server and throttling have come back by then, and
    // the watchdog, which the plan has after both, has not.
    let host = bench.host().failing(InjectedFault::Stop { at: 2 });
    apply::undo(&host, &bench.store(), None).unwrap_err();
    let line = |path: &str| bench.host().read_line(path).unwrap();
    assert_eq!((line(FAIR_SERVER).as_str(), line(RT_RUNTIME).as_str()), ("50000000", "950000"));
    assert_eq!(line(WATCHDOG), "0-2");
    let undone = apply::undo(&bench.host(), &bench.store(), None).unwrap();
    assert!(undone.is_complete(), "{undone:#?}");
    same(&before, &bench.tree(), "undone under a busy task");
}

#[test]
fn steps_that_would_block_are_left_reported_and_completed_by_a_later_undo() {
    let mut tree = busy("0");
    tree.insert(RT_RUNTIME[1..].into(), file("-1\n"));
    let bench = Bench::of(&tree);
    let before = bench.tree();
    set_state(&bench, ") R", ") S");
    bench.apply(&bench.host(), &plan(steps())).unwrap();
    set_state(&bench, ") S", ") R");
    let undone = apply::undo(&bench.host(), &bench.store(), None).unwrap();
    let failed: Vec<_> = undone.failed().map(|step| step.subject.as_str()).collect();
    assert_eq!(failed, [WATCHDOG]);
    for step in undone.failed() {
        let ChangeFate::Failed { reason } = &step.fate else { panic!("{step:?}") };
        assert!(reason.contains("busy with spin (300, SCHED_FIFO 50)"), "{reason}");
    }
    set_state(&bench, ") R", ") S");
    let undone = apply::undo(&bench.host(), &bench.store(), None).unwrap();
    assert!(undone.is_complete(), "{undone:#?}");
    set_state(&bench, ") S", ") R");
    same(&before, &bench.tree(), "completed later");
}

/// The machine with two memory nodes, and a shield with the memory of node 1 in which `spin` runs.
fn busy_on_own_node() -> (Bench, Tree) {
    let mut tree = busy("0");
    let mut put = |path: &str, text: &str| {
        tree.insert(path[1..].into(), file(text));
    };
    put(RT_RUNTIME, "-1\n");
    put("/sys/fs/cgroup/cpuset.mems.effective", "0-1\n");
    let bench = Bench::of(&tree);
    let before = bench.tree();
    set_state(&bench, ") R", ") S");
    let mut plan = trees::v2_plan();
    let mems = trees::write(&format!("{GROUP}/cpuset.mems"), "1", ValueComparison::List);
    plan.steps.insert(4, trees::step(mems, false));
    plan.steps.truncate(8);
    bench.apply(&bench.host(), &plan).unwrap();
    bench.host().write(&format!("{GROUP}/cgroup.procs"), &SPIN.to_string()).unwrap();
    set_state(&bench, ") S", ") R");
    (bench, before)
}

const GROUP: &str = "/sys/fs/cgroup/cpushield";

#[test]
fn a_program_whose_memory_would_move_waits_for_a_busy_cpu_and_is_refused() {
    let (bench, _) = busy_on_own_node();
    let host = bench.host();
    let refused = apply::refuse_move(&host, &format!("{GROUP}/programs")).unwrap().unwrap();
    assert!(refused.contains("busy with spin (300, SCHED_FIFO 50)"), "{refused}");
    assert_eq!(apply::refuse_move(&host, "/sys/fs/cgroup/mine").unwrap(), None);
    host.write(&format!("{GROUP}/cpuset.mems"), "0-1").unwrap();
    assert_eq!(apply::refuse_move(&host, GROUP).unwrap(), None);
}

#[test]
fn a_group_with_its_own_memory_is_left_by_an_undo_until_the_busy_program_ends() {
    let (bench, mut before) = busy_on_own_node();
    let undone = apply::undo(&bench.host(), &bench.store(), None).unwrap();
    let failed: Vec<_> = undone.failed().map(|step| step.subject.as_str()).collect();
    let control = "/sys/fs/cgroup/cgroup.subtree_control";
    // The CPUs of the group stay shielded, so affinities with them cannot come back yet.
    let servo = "program servo (203)";
    assert_eq!(failed, ["affinities of all tasks", control, GROUP, servo]);
    assert!(bench.tree().contains_key(&GROUP[1..]));
    set_state(&bench, ") R", ") S");
    let undone = apply::undo(&bench.host(), &bench.store(), None).unwrap();
    assert!(undone.is_complete(), "{undone:#?}");
    set_state(&bench, ") S", ") R");
    // Where undo puts a program of the group: among those of the root.
    let mut after = bench.tree();
    for tree in [&mut before, &mut after] {
        tree.remove("sys/fs/cgroup/cgroup.procs");
        tree.retain(|path, _| !path.starts_with(&format!("proc/{SPIN}/")));
    }
    same(&before, &after, "undone after the program");
}

#[test]
fn nothing_starts_while_rcu_cannot_complete() {
    let bench = Bench::of(&busy("50000000"));
    bench.apply(&bench.host(), &plan(vec![])).unwrap();
    bench.host().set_scheduling(SPIN, SchedPolicy::Fifo { priority: 60 }).unwrap();
    let host = bench.host();
    match apply::undo(&host, &bench.store(), None).unwrap_err() {
        UndoError::Hog(hog) => {
            let wanted = "rcuc/3 (SCHED_FIFO 60) does not have a higher priority";
            assert!(hog.why.contains(wanted), "{}", hog.why);
            assert!(hog.hint.contains("chrt -f -p 61 16"), "{}", hog.hint);
        }
        error => panic!("{error}"),
    }
    assert_eq!(host.writes(), 0);
    assert!(bench.journal().exists());
    bench.host().set_scheduling(RCU, SchedPolicy::Fifo { priority: 61 }).unwrap();
    assert!(apply::undo(&bench.host(), &bench.store(), None).unwrap().is_complete());
    bench.host().set_scheduling(RCU, SchedPolicy::Fifo { priority: 1 }).unwrap();
    let host = bench.host();
    let error = bench.apply(&host, &plan(steps())).unwrap_err();
    assert!(matches!(&error, ApplyError::Hog(_)), "{error}");
    assert!(host.writes() == 0 && !bench.journal().exists());
}

#[test]
fn without_a_cgroup_the_programs_of_a_shield_are_those_started_on_its_cpus_since() {
    let bench = Bench::of(&busy("50000000"));
    bench.apply(&bench.host(), &plan(vec![])).unwrap();
    let born = |tid, comm, cpus| Task { policy: (1, 50), ..Task::new(tid, comm, 0, cpus) };
    for task in [born(301, "since", "3"), born(302, "elsewhere", "2-3")] {
        let mut tree = Tree::new();
        task.put(&mut tree);
        bench.add(&tree);
    }
    let released = run::release(&bench.host(), &bench.store(), None).unwrap();
    assert_eq!(released.disarmed, ["since (301, SCHED_FIFO 50)"]);
    let policies = [SPIN, 301, 302].map(|tid| bench.host().scheduling(tid).unwrap().rt_priority());
    assert_eq!(policies, [50, 0, 50]);
}

#[test]
fn a_program_that_ends_during_undo_does_not_prevent_releasing_others() {
    let bench = Bench::of(&busy("50000000"));
    let plan = plan(vec![]);
    bench.apply(&bench.host(), &plan).unwrap();
    for (tid, comm) in [(301, "ending"), (302, "stubborn"), (303, "third")] {
        let mut tree = Tree::new();
        Task { policy: (1, 50), ..Task::new(tid, comm, 0, "3") }.put(&mut tree);
        bench.add(&tree);
    }
    let place = ShieldPlacement::new(&bench.host(), &plan);
    for tid in [100, 202] {
        run::add(&bench.host(), &bench.store(), &place, tid, CpuAssignment::One(Some(3))).unwrap();
    }
    bench.answer("set-scheduling\t/proc/301\tESRCH\nset-scheduling\t/proc/302\tEPERM\n");
    bench.answer("set-affinity\t/proc/100\tESRCH\n");
    let released = run::release(&bench.host(), &bench.store(), None).unwrap();
    assert_eq!(released.disarmed, ["third (303, SCHED_FIFO 50)"]);
    assert_eq!(released.back.iter().map(|moved| moved.tid).collect::<Vec<_>>(), [202]);
    let why = "stubborn (302) keeps SCHED_FIFO 50: EPERM: Operation not permitted";
    assert_eq!(released.notes.iter().map(ToString::to_string).collect::<Vec<_>>(), [why]);
}

#[test]
fn a_task_is_not_moved_to_a_cpu_where_it_would_stop_rcu() {
    let mut tree = busy("50000000");
    let rcu = Task { policy: (1, 1), ..Task::new(17, "rcuc/0", 0x0420_8040, "0") };
    rcu.put(&mut tree);
    let bench = Bench::of(&tree);
    let host = bench.host();
    match bench.apply(&host, &trees::v2_plan()).unwrap_err() {
        ApplyError::Hog(hog) => {
            let wanted = "rcuc/0 (SCHED_FIFO 1) would not have a higher priority than that task \
                          after the shield has moved it to CPU 0";
            assert!(hog.why.contains(wanted), "{}", hog.why);
        }
        error => panic!("{error}"),
    }
    assert_eq!(host.writes(), 0);
    // Without a cpuset it is not moved, and rcuc/3 has a higher priority.
    bench.apply(&bench.host(), &plan(steps())).unwrap();
}
