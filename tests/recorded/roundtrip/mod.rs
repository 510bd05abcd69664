//! No setting is lost: apply and undo on copies of machines restore every byte, with each write
//! refused in turn, and after a kill at each write of apply and of undo.

mod added;
mod amend;
pub(crate) mod bench;
mod changed_deadline;
mod changed_programs;
mod changed_shields;
mod cycle;
mod documents;
mod existing_shield;
mod fair_server;
mod foreign_partition;
mod forget;
mod hogs;
mod irqbalance;
mod journals;
mod leaving;
mod lost_cpus;
mod many_shields;
mod offline;
mod operator_requests;
mod operators;
mod refused_changes;
mod repeated;
mod requested;
mod screens;
mod shared_settings;
mod status;
mod stopped;
mod threads;
mod trees;
mod units_in_slice;
mod whole_policy;
mod workqueues;

use crate::recordings;
use bench::{Bench, Tree, disturbed_writes, same};
use cpushield::apply::{self, ApplyError, ChangeFate, StepNote};
use cpushield::change::{Change, Refusal};
use cpushield::plan::{Plan, StepReason};
use cpushield::policy::ShieldRequest;
use cpushield::refusal::UserError;
use cpushield_linux::{CpuSet, Host};
use cpushield_simulator::{InjectedFault, Simulated};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use trees::{machines, machines_with_offline_sibling, v2, v2_plan};

/// The synthetic machines, also those on which a CPU goes offline.
fn all_machines() -> impl Iterator<Item = (&'static str, Tree, Plan)> {
    machines().into_iter().chain(machines_with_offline_sibling())
}

/// How many writes an undisturbed apply and an undisturbed undo need.
fn writes(tree: &Tree, plan: &Plan) -> (usize, usize) {
    let bench = Bench::of(tree);
    let host = bench.host();
    bench.apply(&host, plan).unwrap();
    let undoing = bench.host();
    apply::undo(&undoing, &bench.store(), None).unwrap();
    (host.writes(), undoing.writes())
}

#[test]
fn apply_then_undo_restores_every_byte() {
    for (name, tree, plan) in all_machines() {
        let bench = Bench::of(&tree);
        let before = bench.tree();
        let applied = bench.apply(&bench.host(), &plan).unwrap();
        assert_ne!(before, bench.tree(), "{name}: nothing was changed");
        assert_eq!(applied.steps.len(), plan.steps.len(), "{name}");
        let second = bench.host();
        let refused = bench.apply(&second, &plan).unwrap_err();
        assert!(matches!(refused, ApplyError::Active { .. }), "{name}: {refused}");
        assert_eq!(second.writes(), 0, "{name}");
        let undone = apply::undo(&bench.host(), &bench.store(), None).unwrap();
        assert!(undone.is_complete(), "{name}: {undone:#?}");
        same(&before, &bench.tree(), name);
        let nothing = apply::undo(&bench.host(), &bench.store(), None).unwrap();
        assert_eq!(nothing, apply::UndoneShield::nothing(), "{name}");
    }
}

#[test]
fn undo_restores_every_byte_whichever_write_is_refused() {
    for (name, tree, plan) in all_machines() {
        let (count, _) = writes(&tree, &plan);
        for at in 0..count {
            let when = format!("{name}: write {at} refused");
            let bench = Bench::of(&tree);
            let before = bench.tree();
            let host = bench.host().failing(InjectedFault::Refuse { at, errno: 22 });
            match bench.apply(&host, &plan) {
                Ok(_) => {
                    let undone = apply::undo(&bench.host(), &bench.store(), None).unwrap();
                    assert!(undone.is_complete(), "{when}: {undone:#?}");
                }
                Err(ApplyError::Failed { undone, .. }) => {
                    let undone = undone.unwrap();
                    assert!(undone.is_complete(), "{when}: {undone:#?}");
                }
                Err(error) => panic!("{when}: {error}"),
            }
            same(&before, &bench.tree(), &when);
            assert!(!bench.journal().exists(), "{when}");
        }
    }
}

#[test]
fn undo_restores_every_byte_after_a_kill_before_any_write_of_apply() {
    for (name, tree, plan) in all_machines() {
        let (count, _) = writes(&tree, &plan);
        for at in 0..count {
            let when = format!("{name}: killed at write {at}");
            let bench = Bench::of(&tree);
            let before = bench.tree();
            let host = bench.host().failing(InjectedFault::Stop { at });
            let killed = bench.apply(&host, &plan).unwrap_err();
            assert!(killed.is_stop(), "{when}: {killed}");
            let undone = apply::undo(&bench.host(), &bench.store(), None).unwrap();
            assert!(undone.is_complete(), "{when}: {undone:#?}");
            let drifted = undone.steps.iter().any(|s| matches!(s.fate, ChangeFate::Drifted { .. }));
            assert!(!drifted, "{when}: {undone:#?}");
            same(&before, &bench.tree(), &when);
        }
    }
}

#[test]
fn the_next_undo_completes_an_undo_killed_before_any_write() {
    for (name, tree, plan) in all_machines() {
        let (_, count) = writes(&tree, &plan);
        for at in 0..count {
            let when = format!("{name}: undo killed at write {at}");
            let bench = Bench::of(&tree);
            let before = bench.tree();
            bench.apply(&bench.host(), &plan).unwrap();
            let host = bench.host().failing(InjectedFault::Stop { at });
            let killed = apply::undo(&host, &bench.store(), None).unwrap_err();
            assert!(killed.is_stop(), "{when}: {killed}");
            let undone = apply::undo(&bench.host(), &bench.store(), None).unwrap();
            assert!(undone.is_complete(), "{when}: {undone:#?}");
            same(&before, &bench.tree(), &when);
        }
    }
}

/// The plan for a recorded machine, for the CPUs that cpushield chooses.
fn planned(host: &Host, no_partition: Option<&str>) -> Plan {
    let mut machine = cpushield::survey::survey(host, &cpushield::tunables::reads());
    machine.cgroup.no_partition = no_partition.map(str::to_owned);
    cpushield::plan::plan(&machine, &ShieldRequest::default()).unwrap()
}

#[test]
fn recorded_machines_are_unchanged_after_apply_and_undo_disturbed_or_not() {
    let machines = recordings::own();
    assert!(machines.len() >= 7, "only {} recorded machines", machines.len());
    for (name, dir) in machines {
        let bench = Bench::of_recording(&dir.join("root"));
        let (before, mut plan) = (bench.tree(), planned(&bench.host(), None));
        let mut host = bench.host();
        if let Err(error) = bench.apply(&host, &plan) {
            // One was booted with isolcpus=, and its kernel accepts no partition there.
            let answer = error.no_partition().unwrap_or_else(|| panic!("{name}: {error}"));
            same(&before, &bench.tree(), &name);
            plan = planned(&bench.host(), Some(answer));
            host = bench.host();
            bench.apply(&host, &plan).unwrap_or_else(|error| panic!("{name}: {error}"));
        }
        assert_ne!(before, bench.tree(), "{name}");
        let undone = apply::undo(&bench.host(), &bench.store(), None).unwrap();
        assert!(undone.is_complete(), "{name}: {undone:#?}");
        same(&before, &bench.tree(), &name);
        let count = host.writes();
        for at in disturbed_writes(count) {
            for fault in [InjectedFault::Stop { at }, InjectedFault::Refuse { at, errno: 22 }] {
                let when = format!("{name}: {fault:?}");
                let _ = bench.apply(&bench.host().failing(fault), &plan);
                let _ = apply::undo(
                    &bench.host().failing(InjectedFault::Stop { at }),
                    &bench.store(),
                    None,
                );
                let undone = apply::undo(&bench.host(), &bench.store(), None).unwrap();
                assert!(undone.is_complete(), "{when}: {undone:#?}");
                same(&before, &bench.tree(), &when);
            }
        }
    }
}

#[test]
fn a_foreign_change_is_left_alone_and_reported() {
    let (tree, plan) = (v2(), v2_plan());
    let bench = Bench::of(&tree);
    let mut before = bench.tree();
    bench.apply(&bench.host(), &plan).unwrap();
    // The user: a sysctl, an interrupt, a program's affinity, a program in the shield.
    let user = bench.host();
    for (path, value) in [
        ("/proc/sys/vm/stat_interval", "10"),
        ("/proc/irq/24/smp_affinity", "1"),
        ("/sys/fs/cgroup/cpushield/cgroup.procs", "100"),
    ] {
        user.write(path, value).unwrap();
    }
    user.set_affinity(200, &CpuSet::single(1)).unwrap();
    user.set_affinity(100, &CpuSet::single(3)).unwrap();
    let now = bench.tree();
    let undone = apply::undo(&bench.host(), &bench.store(), None).unwrap();
    assert!(undone.is_complete(), "{undone:#?}");
    assert_eq!(undone.drifted_tasks.iter().map(|id| id.tid).collect::<Vec<_>>(), [200]);
    let drifted = undone.steps.iter().filter(|s| matches!(s.fate, ChangeFate::Drifted { .. }));
    let mut drifted: Vec<&str> = drifted.map(|step| step.subject.as_str()).collect();
    drifted.dedup();
    assert_eq!(drifted, ["/proc/irq/24/smp_affinity", "/proc/sys/vm/stat_interval"]);
    assert_eq!(bench.host().affinity(100).unwrap().to_string(), "0-3", "it was in the shield");
    let notes = undone.steps.iter().filter_map(|step| step.note.clone());
    let (to, names) = ("/sys/fs/cgroup".to_owned(), vec!["sshd (100)".to_owned()]);
    assert_eq!(notes.collect::<Vec<_>>(), [StepNote::TasksMoved { to, count: 1, names }]);
    for kept in
        ["sys/vm/stat_interval", "irq/24/smp_affinity", "irq/24/smp_affinity_list", "200/status"]
    {
        let path = format!("proc/{kept}");
        before.insert(path.clone(), now[&path].clone());
    }
    same(&before, &bench.tree(), "drift");
}

/// Foreign changes between two undos: a file, tasks with a requested mask and tasks without. The
/// expected result is written into `before`.
fn change_between(bench: &Bench, before: &mut Tree) {
    let user = bench.host();
    user.write("/proc/sys/vm/stat_interval", "10").unwrap();
    user.write("/proc/irq/24/smp_affinity", "1").unwrap();
    user.set_affinity(100, &CpuSet::single(2)).unwrap();
    user.set_affinity(202, &CpuSet::single(1)).unwrap();
    let now = bench.tree();
    for name in [
        "sys/vm/stat_interval",
        "irq/24/smp_affinity",
        "irq/24/smp_affinity_list",
        "100/status",
        "202/status",
    ] {
        let path = format!("proc/{name}");
        before.insert(path.clone(), now[&path].clone());
    }
}

#[test]
fn a_foreign_change_between_two_undos_is_kept() {
    for (name, tree, plan) in machines() {
        let (_, count) = writes(&tree, &plan);
        let mut again = 0;
        for at in 0..count {
            for fault in [InjectedFault::Refuse { at, errno: 1 }, InjectedFault::Stop { at }] {
                let when = format!("{name}: first undo {fault:?}");
                let bench = Bench::of(&tree);
                let mut before = bench.tree();
                bench.apply(&bench.host(), &plan).unwrap();
                let first = apply::undo(&bench.host().failing(fault), &bench.store(), None);
                if first.is_ok_and(|undone| undone.is_complete()) {
                    continue;
                }
                again += 1;
                change_between(&bench, &mut before);
                let undone = apply::undo(&bench.host(), &bench.store(), None).unwrap();
                assert!(undone.is_complete(), "{when}: {undone:#?}");
                same(&before, &bench.tree(), &when);
            }
        }
        assert!(again > count, "{name}: only {again} undos had to be called again");
    }
}

#[test]
fn a_partition_that_the_kernel_calls_invalid_ends_apply_with_the_reason() {
    let (tree, mut plan) = (v2(), v2_plan());
    plan.steps.retain(|step| {
        !matches!(&step.change, Change::Write { path, .. } if path.ends_with("/cpuset.cpus"))
    });
    let bench = Bench::of(&tree);
    let before = bench.tree();
    match bench.apply(&bench.host(), &plan).unwrap_err() {
        ApplyError::Failed { refusal: Refusal { reason, .. }, undone, .. } => {
            assert!(reason.contains("isolated invalid (Cpu list"), "{reason}");
            assert!(undone.unwrap().is_complete());
        }
        error => panic!("{error}"),
    }
    same(&before, &bench.tree(), "invalid partition");
}

/// The commands of a dry run, with every path of the machine in a copy, and with programs that
/// record their arguments and do nothing.
fn script(plan: &Plan, root: &Path, calls: &Path) -> String {
    let mut script = String::from("set -u\n");
    for program in ["taskset", "systemctl", "socat"] {
        let calls = calls.display();
        script.push_str(&format!("{program}() {{ echo \"{program} $*\" >> {calls}; }}\n"));
    }
    for step in &plan.steps {
        let command = step.change.shell();
        let root = root.display().to_string();
        let command = command.replace(" /sys/", &format!(" {root}/sys/"));
        script.push_str(&(command.replace(" /proc/", &format!(" {root}/proc/")) + "\n"));
    }
    script
}

#[test]
fn cpusets_stay_enabled_for_every_setting_of_another_group() {
    for (file, value) in [
        ("cpuset.cpus", "0"),
        ("cpuset.mems", "0"),
        ("cpuset.cpus.exclusive", "0"),
        ("cpuset.cpus.partition", "root invalid (Cpu list in cpuset.cpus not exclusive)"),
    ] {
        for (name, tree, plan) in machines().into_iter().take(3) {
            let bench = Bench::of(&tree);
            bench.apply(&bench.host(), &plan).unwrap();
            // As another program leaves it.
            let place = format!("/sys/fs/cgroup/mine/{file}");
            bench.put(&place, &format!("{value}\n"));
            let undone = apply::undo(&bench.host(), &bench.store(), None).unwrap();
            let notes = undone.steps.iter().filter_map(|step| step.note.clone());
            let stays = StepNote::CpusetsStayEnabled { group: "/sys/fs/cgroup/mine".to_owned() };
            assert!(notes.into_iter().any(|note| note == stays), "{name}, {file}: {undone:#?}");
            assert!(bench.text(&place).is_some(), "{name}, {file}");
        }
    }
}

#[test]
fn a_number_of_an_interrupt_that_another_device_has_now_is_left_alone() {
    let (irq, file) = (27, "/proc/irq/27/smp_affinity_list");
    for (actions, now, left) in [
        ("nvme0q3, usb", Some("eth0"), "0-2"),
        ("nvme0q3, usb", Some("usb"), "3"),
        // It has no driver now, or had none.
        ("nvme0q3, usb", None, "3"),
        ("", Some("eth0"), "3"),
    ] {
        let (tree, mut plan) = (v2(), v2_plan());
        plan.steps.retain(|step| step.change.subject() == file);
        plan.steps[0].reason = StepReason::Irq { irq, actions: actions.to_owned() };
        let bench = Bench::of(&tree);
        bench.apply(&bench.host(), &plan).unwrap();
        if let Some(now) = now {
            bench.make_dir(&format!("/proc/irq/27/{now}"));
        }
        let undone = apply::undo(&bench.host(), &bench.store(), None).unwrap();
        let fate = if left == "3" { ChangeFate::Restored } else { ChangeFate::Gone };
        assert_eq!(undone.steps[0].fate, fate, "{actions:?}, {now:?}");
        assert_eq!(bench.host().read_line(file).unwrap(), left, "{actions:?}, {now:?}");
    }
}

#[test]
fn the_commands_of_a_dry_run_do_what_apply_does() {
    for (name, tree, plan) in machines() {
        let bench = Bench::of(&tree).into_files();
        let (root, calls) = (bench.scratch.0.join("root"), bench.scratch.0.join("calls"));
        let file = bench.scratch.0.join("script");
        fs::write(&file, script(&plan, &root, &calls)).unwrap();
        let ran = std::process::Command::new("sh").arg(&file).output().unwrap();
        let said = String::from_utf8_lossy(&ran.stderr).into_owned();
        let calls = fs::read_to_string(&calls).unwrap();
        let mut last = BTreeMap::new();
        for step in &plan.steps {
            match &step.change {
                Change::Write { path, value, .. } => drop(last.insert(path, value)),
                Change::MakeDir { path } => {
                    assert!(root.join(path.trim_start_matches('/')).is_dir(), "{name}: {path}");
                }
                Change::Affinity { task, .. } => {
                    assert!(calls.contains(&format!("taskset -pc 0-2 {}", task.tid)), "{name}");
                }
                Change::Slice { unit, .. } => {
                    assert!(calls.contains(&format!("systemctl start {unit}")), "{name}");
                }
                Change::CycleCpu { .. }
                | Change::GiveToGroup { .. }
                | Change::MoveTasks { .. }
                | Change::MoveProcess { .. }
                | Change::KeepAffinities
                | Change::OfflineSibling { .. }
                | Change::BanFromIrqbalance { .. } => {}
            }
        }
        for (path, value) in last {
            // A shell cannot create what only the kernel creates: files of cgroups, and interrupts.
            let there = root.join(path.trim_start_matches('/'));
            let text = fs::read_to_string(&there);
            let absent = text.is_err() && said.contains(path.as_str());
            assert!(absent || text.is_ok_and(|t| t.trim() == value), "{name}: {path}: {said}");
        }
        let moved = calls.lines().filter(|line| line.starts_with("socat")).count();
        assert_eq!(moved, 1, "{name}: {calls}");
    }
}
