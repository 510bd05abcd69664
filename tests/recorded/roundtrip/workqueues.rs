//! The mask of unbound workqueues together with a foreign partition (Linux 6.8 and later).

use super::bench::{Bench, Tree, file, same};
use super::many_shields::plan_with;
use super::trees;
use crate::recordings;
use cpushield::apply::{self, ChangeFate};
use cpushield::change::{Change, Outcome};
use cpushield::plan::Plan;
use cpushield::policy::ShieldRequest;
use cpushield::refusal::UserError;
use cpushield_linux::{CpuSet, Host};
use cpushield_simulator::{InjectedFault, Simulated};

const UNBOUND: &str = "/sys/devices/virtual/workqueue/cpumask";
const REQUESTED: &str = "/sys/devices/virtual/workqueue/cpumask_requested";
const ISOLATED: &str = "/sys/fs/cgroup/cpuset.cpus.isolated";

/// A foreign partition isolates CPU 2, so unbound work avoids it although all CPUs were requested.
fn next_to_a_partition() -> Tree {
    let mut tree = trees::v2();
    for (path, text) in [
        ("sys/fs/cgroup/cgroup.subtree_control", "memory pids cpuset\n"),
        ("sys/fs/cgroup/cpuset.cpus.effective", "0-1,3\n"),
        ("sys/fs/cgroup/theirs/cgroup.procs", ""),
        ("sys/fs/cgroup/theirs/cgroup.controllers", "cpuset\n"),
        ("sys/fs/cgroup/theirs/cgroup.subtree_control", ""),
        ("sys/fs/cgroup/theirs/cpuset.cpus", "2\n"),
        ("sys/fs/cgroup/theirs/cpuset.cpus.partition", "isolated\n"),
        ("sys/devices/virtual/workqueue/cpumask", "b\n"),
    ] {
        tree.insert(path.into(), file(text));
    }
    tree
}

fn with_mask(mut plan: Plan, mask: &str) -> Plan {
    for step in &mut plan.steps {
        match &mut step.change {
            Change::Write { path, value, .. } if path == UNBOUND => mask.clone_into(value),
            _ => {}
        }
    }
    plan
}

/// The steps for the partition and for the mask.
fn partition_and_mask() -> Plan {
    let mut plan = trees::v2_plan();
    plan.steps.retain(|step| match &step.change {
        Change::Write { path, .. } => path == UNBOUND || path.contains("/cgroup/"),
        change => matches!(change, Change::KeepAffinities | Change::MakeDir { .. }),
    });
    plan
}

#[test]
fn requested_affinities_are_restored_and_the_foreign_cpu_is_left_alone() {
    let bench = Bench::of(&next_to_a_partition());
    let line = |path: &str| bench.host().read_line(path).unwrap();
    let plan = with_mask(partition_and_mask(), "3");
    bench.apply(&bench.host(), &plan).unwrap();
    assert_eq!((line(UNBOUND).as_str(), line(REQUESTED).as_str()), ("3", "f"));
    let undone = apply::undo(&bench.host(), &bench.store(), None).unwrap();
    assert!(undone.is_complete(), "{undone:#?}");
    let of_mask = undone.steps.iter().filter(|step| step.subject == UNBOUND);
    let drifted = of_mask.filter(|step| matches!(step.fate, ChangeFate::Drifted { .. }));
    assert_eq!(drifted.count(), 0, "{undone:#?}");
    assert_eq!((line(UNBOUND).as_str(), line(REQUESTED).as_str()), ("b", "f"));
}

#[test]
fn a_mask_that_cannot_be_restored_next_to_a_foreign_partition_is_not_written() {
    let bench = Bench::of(&next_to_a_partition());
    let before = bench.tree();
    let mut plan = with_mask(trees::v2_plan(), "3");
    // By affinities only: cpushield has no partition that keeps unbound work off CPU 3.
    plan.steps.retain(|step| {
        matches!(&step.change, Change::KeepAffinities)
            || matches!(&step.change, Change::Write { path, .. } if path == UNBOUND)
    });
    let applied = bench.apply(&bench.host(), &plan).unwrap();
    match &applied.steps[1].done.outcome {
        Outcome::Refused { reason, .. } => {
            let wanted = "mask f was requested, but another partition keeps the mask at b";
            assert!(reason.starts_with(wanted), "{reason}");
        }
        outcome => panic!("{outcome:?}"),
    }
    assert!(apply::undo(&bench.host(), &bench.store(), None).unwrap().is_complete());
    same(&before, &bench.tree(), "refused");
}

#[test]
fn a_later_partition_does_not_prevent_undo_from_restoring_requested_affinities() {
    let bench = Bench::of(&trees::v2());
    let mut plan = trees::v2_plan();
    plan.steps.retain(|step| {
        matches!(&step.change, Change::KeepAffinities)
            || matches!(&step.change, Change::Write { path, .. } if path == UNBOUND)
    });
    bench.apply(&bench.host(), &plan).unwrap();
    // Its CPU 2 is removed from the effective mask, as in the kernel.
    bench.put(UNBOUND, "3\n");
    let undone = apply::undo(&bench.host(), &bench.store(), None).unwrap();
    assert_eq!(
        undone.steps.iter().map(|step| &step.fate).collect::<Vec<_>>(),
        [&ChangeFate::Restored]
    );
    assert_eq!(bench.host().read_line(REQUESTED).unwrap(), "f");
}

/// Linux 6.12-rt: undo was killed while the kernel dissolved the partition, before it wrote the
/// line of that step: all CPUs are requested, three in force. The plan's own step for the mask had
/// nothing to do, because the partition had narrowed the mask already.
/// Then another process may have made a partition of a CPU.
fn undone_after_a_kill(foreign: Option<&str>) -> Bench {
    let mut tree = trees::v2();
    tree.insert("sys/fs/cgroup/cpuset.cpus.isolated".into(), file("\n"));
    let bench = Bench::of(&tree);
    let applied = bench.apply(&bench.host(), &partition_and_mask()).unwrap();
    let mut of_mask = applied.steps.iter().filter(|step| step.subject == UNBOUND);
    assert_eq!(of_mask.next().unwrap().done.outcome, Outcome::AlreadySo);
    let list = format!("{}\n", foreign.unwrap_or_default());
    let mut tree = Tree::new();
    let mut put = |path: &str, text: &str| tree.insert(path.into(), file(text));
    put("sys/fs/cgroup/cpushield/cpuset.cpus.partition", "member\n");
    let effective = if foreign.is_some() { "0-2\n" } else { "0-3\n" };
    put("sys/fs/cgroup/cpuset.cpus.effective", effective);
    put("sys/fs/cgroup/cpuset.cpus.isolated", &list);
    put(&REQUESTED[1..], "f\n");
    put(&UNBOUND[1..], "7\n");
    if foreign.is_some() {
        put("sys/fs/cgroup/theirs/cgroup.procs", "");
        put("sys/fs/cgroup/theirs/cpuset.cpus", &list);
        put("sys/fs/cgroup/theirs/cpuset.cpus.partition", "isolated\n");
    }
    bench.add(&tree);
    let undone = apply::undo(&bench.host(), &bench.store(), None).unwrap();
    // A task that may use CPU 3 gets it back only without the foreign partition.
    assert_eq!(undone.is_complete(), foreign.is_none(), "{undone:#?}");
    bench
}

#[test]
fn a_mask_that_a_killed_undo_left_narrow_is_written_again() {
    let bench = undone_after_a_kill(None);
    assert_eq!(bench.host().read_line(UNBOUND).unwrap(), "f");
}

#[test]
fn a_mask_that_a_foreign_partition_restricts_is_not_written() {
    let bench = undone_after_a_kill(Some("3"));
    assert_eq!(bench.host().read_line(UNBOUND).unwrap(), "7");
}

/// A recorded machine of Linux 6.12 with two files that its recording lacks: the CPUs that were
/// requested for unbound work, and the CPUs that no partition has.
fn recorded() -> Bench {
    let root = recordings::root("6.12-rt-4");
    let bench = Bench::of_recording(&root);
    let mask = bench.host().read_line(UNBOUND).unwrap() + "\n";
    for (path, text) in
        [(REQUESTED, mask.as_str()), ("/sys/fs/cgroup/cpuset.cpus.effective", "0-3\n")]
    {
        bench.put(path, text);
    }
    bench
}

/// The only shield gets these CPUs, isolated or balanced.
fn change_to(bench: &Bench, cpus: &str, balanced: bool) {
    let cpus = cpus.parse().unwrap();
    let plan = plan_with(bench, "cpushield", |request| ShieldRequest {
        cpus: Some(cpus),
        balance: balanced,
        ..request
    });
    let (host, store) = (bench.host(), bench.store());
    if bench.journal().exists() {
        apply::replace(&host, &store, &plan.unwrap(), &mut |_| {}).unwrap();
    } else {
        bench.apply(&host, &plan.unwrap()).unwrap();
    }
}

#[test]
fn a_changed_shield_keeps_unbound_work_off_its_own_cpus_only() {
    let bench = recorded();
    let before = bench.tree();
    let line = |path: &str| bench.host().read_line(path).unwrap();
    for (cpus, balanced, mask) in [
        ("2-3", true, "3"),
        ("2-3", false, "3"),
        ("3", false, "7"),
        ("2", false, "b"),
        ("2-3", true, "3"),
        ("2", true, "b"),
        ("3", false, "7"),
        ("2", false, "b"),
    ] {
        change_to(&bench, cpus, balanced);
        assert_eq!(line(UNBOUND), mask, "CPU {cpus}, balanced: {balanced}");
    }
    assert!(apply::undo(&bench.host(), &bench.store(), None).unwrap().is_complete());
    same(&before, &bench.tree(), "undone");
}

/// Linux 7.2: the undo of one of two shields was killed while the kernel dissolved its partition,
/// and the mask in force stayed without the CPUs of both.
#[test]
fn a_mask_that_a_killed_undo_left_narrow_is_written_for_the_shield_that_stays() {
    let both = || {
        let bench = recorded();
        bench.put(ISOLATED, "\n");
        let before = bench.tree();
        for (name, cpu) in [("a", 3), ("b", 2)] {
            let cpus = Some(CpuSet::single(cpu));
            let plan = plan_with(&bench, name, |request| ShieldRequest { cpus, ..request });
            bench.apply(&bench.host(), &plan.unwrap()).unwrap();
        }
        (bench, before)
    };
    let undo =
        |bench: &Bench, host: &Host, name: &str| apply::undo(host, &bench.store(), Some(name));
    let killed_at = |at: usize| {
        let (bench, before) = both();
        let killed = undo(&bench, &bench.host().failing(InjectedFault::Stop { at }), "b");
        assert!(matches!(&killed, Err(error) if error.is_stop()), "{at}: {killed:?}");
        (bench, before)
    };
    let line = |bench: &Bench, path: &str| bench.host().read_line(path).unwrap();
    let (bench, _) = both();
    let host = bench.host();
    undo(&bench, &host, "b").unwrap();
    let writes: Vec<usize> = (0..host.writes()).collect();
    let dissolved = writes.partition_point(|at| line(&killed_at(*at).0, ISOLATED) == "2-3");
    let (bench, before) = killed_at(writes[dissolved]);
    bench.put(UNBOUND, "3\n");
    let undone = undo(&bench, &bench.host(), "b").unwrap();
    assert!(undone.is_complete(), "{undone:#?}");
    assert_eq!(line(&bench, UNBOUND), "7");
    let undone = undo(&bench, &bench.host(), "a").unwrap();
    assert!(undone.is_complete(), "{undone:#?}");
    same(&before, &bench.tree(), "undone");
}
