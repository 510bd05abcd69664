//! A CPU goes offline and online again: side effects of the kernel are restored.

use super::bench::{Bench, Tree, file, same};
use super::trees;
use cpushield::apply::OriginalState;
use cpushield::apply::journal::ApplyJournal;
use cpushield::apply::{self, AppliedPlan, StepNote};
use cpushield::change::{Change, Outcome, RefusalKind};
use cpushield::plan::Plan;
use cpushield_simulator::{InjectedFault, Simulated};
use std::fs;

/// A machine with everything that depends on CPU 3, or on every CPU.
fn machine() -> Tree {
    let mut tree = trees::v2();
    for (path, text) in [
        ("sys/fs/cgroup/other/cgroup.controllers", "cpuset\n"),
        ("sys/fs/cgroup/other/cgroup.procs", ""),
        ("sys/fs/cgroup/other/cpuset.cpus.partition", "root\n"),
        ("sys/devices/system/cpu/cpu3/cpufreq/scaling_governor", "userspace\n"),
        ("sys/devices/system/cpu/cpu3/cpufreq/scaling_setspeed", "1200000\n"),
        ("sys/devices/system/cpu/cpu3/cpufreq/energy_performance_preference", "<unknown>\n"),
        ("sys/devices/system/cpu/cpu3/cpuidle/state2/disable", "1\n"),
        ("sys/devices/system/machinecheck/machinecheck3/northbridge/dram/threshold_limit", "9\n"),
    ] {
        tree.insert(path.into(), file(text));
    }
    tree
}

fn plan() -> Plan {
    let mut plan = trees::v2_plan();
    plan.steps.truncate(2);
    plan.steps[1].change = Change::CycleCpu { cpu: 3 };
    plan
}

fn outcome(applied: &AppliedPlan) -> (&Outcome, Option<&str>, Option<&StepNote>) {
    let done = &applied.steps[1].done;
    (&done.outcome, done.left.as_deref(), done.note.as_ref())
}

#[test]
fn hotplug_side_effects_are_on_disk_before_the_cpu_goes_offline() {
    let bench = Bench::of(&machine());
    bench.apply(&bench.host(), &plan()).unwrap();
    let journal = ApplyJournal::parse(&fs::read(bench.journal()).unwrap()).unwrap();
    let OriginalState::Files { files } = &journal.intents[1].original else { panic!() };
    let files: Vec<&str> = files.keys().map(String::as_str).collect();
    assert_eq!(
        files,
        [
            "/proc/irq/24/smp_affinity_list",
            "/proc/irq/25/smp_affinity_list",
            "/proc/irq/26/smp_affinity_list",
            "/proc/irq/27/smp_affinity_list",
            "/sys/class/net/eth0/queues/tx-0/xps_cpus",
            "/sys/devices/system/cpu/cpu3/cpufreq/scaling_governor",
            "/sys/devices/system/cpu/cpu3/cpufreq/scaling_setspeed",
            "/sys/devices/system/cpu/cpu3/cpuidle/state2/disable",
            "/sys/devices/system/machinecheck/machinecheck3/northbridge/dram/threshold_limit",
            "/sys/fs/cgroup/other/cpuset.cpus.partition",
            "/sys/fs/resctrl/rt/cpus_list",
            "/sys/fs/resctrl/rt/mon_groups/seen/cpus_list",
        ]
    );
}

#[test]
fn the_resctrl_group_and_the_queues_are_restored_when_the_cpu_is_online_again() {
    let bench = Bench::of(&machine());
    let before = bench.tree();
    let applied = bench.apply(&bench.host(), &plan()).unwrap();
    assert_eq!(outcome(&applied), (&Outcome::Changed, Some("1"), None));
    // Affinities of tasks are saved and restored by a separate step.
    let but_for_tasks = |mut tree: Tree| {
        tree.retain(|path, _| !path.ends_with("/status"));
        tree
    };
    same(&but_for_tasks(before.clone()), &but_for_tasks(bench.tree()), "the CPU is back");
    assert!(apply::undo(&bench.host(), &bench.store(), None).unwrap().is_complete());
    same(&before, &bench.tree(), "undone");
}

#[test]
fn unrestored_side_effects_are_reported_and_undo_restores_only_those() {
    let bench = Bench::of(&machine());
    let before = bench.tree();
    // The queue is written once more after each failure, so both writes are refused.
    let path = "write\t/sys/class/net/eth0/queues/tx-0/xps_cpus\tEBUSY\n";
    let kept = bench.text("/errors.tsv").unwrap();
    bench.answer(path);
    let applied = bench.apply(&bench.host(), &plan()).unwrap();
    let (path, why) = (
        "/sys/class/net/eth0/queues/tx-0/xps_cpus".to_owned(),
        "EBUSY: Device or resource busy".to_owned(),
    );
    let unrestored = vec![path.clone()];
    let note = StepNote::FilesNotRestored { path, why, more: 0 };
    assert_eq!(outcome(&applied), (&Outcome::Changed, Some("1"), Some(&note)));
    assert_eq!(applied.steps[1].done.unrestored, unrestored);
    let journal = ApplyJournal::parse(&fs::read(bench.journal()).unwrap()).unwrap();
    assert_eq!(journal.outcomes[&1].unrestored, unrestored);
    let undone = apply::undo(&bench.host(), &bench.store(), None).unwrap();
    assert_eq!(undone.failed().count(), 1, "{undone:#?}");
    // Another process moves an interrupt that was already restored: its change is kept.
    bench.host().write("/proc/irq/24/smp_affinity_list", "1").unwrap();
    bench.put("/errors.tsv", &kept);
    let undone = apply::undo(&bench.host(), &bench.store(), None).unwrap();
    assert!(undone.is_complete(), "{undone:#?}");
    assert_eq!(bench.host().read_line("/proc/irq/24/smp_affinity_list").unwrap(), "1");
    bench.host().write("/proc/irq/24/smp_affinity_list", "0-3").unwrap();
    same(&before, &bench.tree(), "put back by the second undo");
}

#[test]
fn after_a_kill_before_the_cpu_went_offline_nothing_else_is_written() {
    let bench = Bench::of(&machine());
    let mut plan = plan();
    let (cycle, mut other) = (plan.steps[1].clone(), plan.steps[1].clone());
    other.change = Change::MakeDir { path: "/sys/fs/cgroup/cpushield".to_owned() };
    plan.steps = vec![plan.steps[0].clone(), other, cycle];
    bench.apply(&bench.host().failing(InjectedFault::Stop { at: 0 }), &plan).unwrap_err();
    bench.host().write("/proc/irq/24/smp_affinity_list", "1").unwrap();
    assert!(apply::undo(&bench.host(), &bench.store(), None).unwrap().is_complete());
    assert_eq!(bench.host().read_line("/proc/irq/24/smp_affinity_list").unwrap(), "1");
}

#[test]
fn a_cpu_that_is_the_whole_of_a_v1_cpuset_stays_online() {
    let mut tree = machine();
    for (name, text) in [("tasks", "200\n"), ("cgroup.procs", "200\n"), ("cpuset.cpus", "3\n")] {
        tree.insert(format!("sys/fs/cgroup/cpuset/mine/{name}"), file(text));
    }
    let bench = Bench::of(&tree);
    let mut plan = plan();
    plan.steps[1].required = false;
    let host = bench.host();
    let applied = bench.apply(&host, &plan).unwrap();
    let reason = "/sys/fs/cgroup/cpuset/mine has no other CPU: the kernel would permanently move \
                  its programs out of it";
    let reason = reason.to_owned();
    assert_eq!(
        outcome(&applied),
        (&Outcome::Refused { kind: RefusalKind::Other, reason }, None, None)
    );
    assert_eq!(host.writes(), 0);
}

#[test]
fn a_cpu_that_another_process_took_offline_before_its_cycle_stays_offline() {
    let bench = Bench::of(&machine());
    let mut plan = plan();
    let (cycle, mut other) = (plan.steps[1].clone(), plan.steps[1].clone());
    other.change = Change::MakeDir { path: "/sys/fs/cgroup/cpushield".to_owned() };
    plan.steps = vec![plan.steps[0].clone(), other, cycle];
    bench.apply(&bench.host().failing(InjectedFault::Stop { at: 0 }), &plan).unwrap_err();
    let online = "/sys/devices/system/cpu/cpu3/online";
    bench.host().write(online, "0").unwrap();
    apply::undo(&bench.host(), &bench.store(), None).unwrap();
    assert_eq!(bench.host().read_line(online).unwrap(), "0");
}
