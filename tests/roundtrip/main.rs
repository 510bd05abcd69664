//! Nothing is lost: apply and undo on copies of machines leave them as they were to the byte, with
//! every single write refused, and killed at every single write of apply and of undo.

mod bench;
mod hogs;
mod trees;

use bench::{Bench, Tree, same};
use cpushield::apply::{self, ApplyError, Fate, UndoError};
use cpushield::change::Change;
use cpushield::plan::Plan;
use cpushield::policy::Wish;
use cpushield_linux::{CpuSet, Fault, Host};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use trees::{machines, v2, v2_plan};

/// How many writes an undisturbed apply and an undisturbed undo need.
fn writes(tree: &Tree, plan: &Plan) -> (usize, usize) {
    let bench = Bench::of(tree);
    let host = bench.host();
    bench.apply(&host, plan).unwrap();
    let undoing = bench.host();
    apply::undo(&undoing, &bench.store()).unwrap();
    (host.writes(), undoing.writes())
}

#[test]
fn apply_then_undo_leaves_every_byte_as_it_was() {
    for (name, tree, plan) in machines() {
        let bench = Bench::of(&tree);
        let before = bench.tree();
        let applied = bench.apply(&bench.host(), &plan).unwrap();
        assert_ne!(before, bench.tree(), "{name}: nothing was changed");
        assert_eq!(applied.steps.len(), plan.steps.len(), "{name}");
        let second = bench.host();
        let refused = bench.apply(&second, &plan).unwrap_err();
        assert!(matches!(refused, ApplyError::Active { .. }), "{name}: {refused}");
        assert_eq!(second.writes(), 0, "{name}");
        let undone = apply::undo(&bench.host(), &bench.store()).unwrap();
        assert!(undone.is_complete(), "{name}: {undone:#?}");
        same(&before, &bench.tree(), name);
        let nothing = apply::undo(&bench.host(), &bench.store()).unwrap();
        assert_eq!(nothing, apply::Undone::nothing(), "{name}");
    }
}

#[test]
fn whichever_write_is_refused_undo_leaves_every_byte_as_it_was() {
    for (name, tree, plan) in machines() {
        let (count, _) = writes(&tree, &plan);
        for at in 0..count {
            let when = format!("{name}: write {at} refused");
            let bench = Bench::of(&tree);
            let before = bench.tree();
            let host = bench.host().failing(Fault::Refuse { at, errno: 22 });
            match bench.apply(&host, &plan) {
                Ok(_) => {
                    let undone = apply::undo(&bench.host(), &bench.store()).unwrap();
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
fn killed_before_any_write_of_apply_undo_leaves_every_byte_as_it_was() {
    for (name, tree, plan) in machines() {
        let (count, _) = writes(&tree, &plan);
        for at in 0..count {
            let when = format!("{name}: killed at write {at}");
            let bench = Bench::of(&tree);
            let before = bench.tree();
            let host = bench.host().failing(Fault::Stop { at });
            let killed = bench.apply(&host, &plan).unwrap_err();
            assert!(matches!(killed, ApplyError::Killed), "{when}: {killed}");
            let undone = apply::undo(&bench.host(), &bench.store()).unwrap();
            assert!(undone.is_complete(), "{when}: {undone:#?}");
            let drifted = undone.steps.iter().any(|s| matches!(s.fate, Fate::Drifted { .. }));
            assert!(!drifted, "{when}: {undone:#?}");
            same(&before, &bench.tree(), &when);
        }
    }
}

#[test]
fn killed_before_any_write_of_undo_the_next_undo_completes_it() {
    for (name, tree, plan) in machines() {
        let (_, count) = writes(&tree, &plan);
        for at in 0..count {
            let when = format!("{name}: undo killed at write {at}");
            let bench = Bench::of(&tree);
            let before = bench.tree();
            bench.apply(&bench.host(), &plan).unwrap();
            let host = bench.host().failing(Fault::Stop { at });
            let killed = apply::undo(&host, &bench.store()).unwrap_err();
            assert!(matches!(killed, UndoError::Killed), "{when}: {killed}");
            let undone = apply::undo(&bench.host(), &bench.store()).unwrap();
            assert!(undone.is_complete(), "{when}: {undone:#?}");
            same(&before, &bench.tree(), &when);
        }
    }
}

/// The plan for a recorded machine, for the CPUs that the tool itself chooses.
fn planned(host: &Host) -> Plan {
    let machine = cpushield::survey::survey(host, &cpushield::tunables::reads());
    cpushield::plan::plan(&machine, &Wish::default()).unwrap()
}

#[test]
fn recorded_machines_are_as_they_were_after_apply_and_undo_disturbed_or_not() {
    let machines = Path::new(env!("CARGO_MANIFEST_DIR")).join("machines");
    let mut seen = 0;
    for entry in fs::read_dir(machines).unwrap() {
        let root = entry.unwrap().path().join("root");
        if !root.is_dir() {
            continue;
        }
        seen += 1;
        let name = root.display().to_string();
        let bench = Bench::of_recording(&root);
        let (before, plan) = (bench.tree(), planned(&bench.host()));
        let host = bench.host();
        bench.apply(&host, &plan).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_ne!(before, bench.tree(), "{name}");
        let undone = apply::undo(&bench.host(), &bench.store()).unwrap();
        assert!(undone.is_complete(), "{name}: {undone:#?}");
        same(&before, &bench.tree(), &name);
        let count = host.writes();
        for at in (0..count).step_by(count / 4 + 1) {
            for fault in [Fault::Stop { at }, Fault::Refuse { at, errno: 22 }] {
                let when = format!("{name}: {fault:?}");
                let _ = bench.apply(&bench.host().failing(fault), &plan);
                let _ = apply::undo(&bench.host().failing(Fault::Stop { at }), &bench.store());
                let undone = apply::undo(&bench.host(), &bench.store()).unwrap();
                assert!(undone.is_complete(), "{when}: {undone:#?}");
                same(&before, &bench.tree(), &when);
            }
        }
    }
    assert!(seen >= 7, "only {seen} recorded machines");
}

#[test]
fn a_journal_cut_anywhere_is_refused_before_its_begin_and_undone_after_it() {
    let (tree, plan) = (v2(), v2_plan());
    let bench = Bench::of(&tree);
    let before = bench.tree();
    bench.apply(&bench.host(), &plan).unwrap();
    let (full, shielded) = (fs::read(bench.journal()).unwrap(), bench.tree());
    let text = String::from_utf8(full.clone()).unwrap();
    let begin = text.find("{\"begin\"").unwrap();
    let opening = begin + text[begin..].find('\n').unwrap() + 1;
    for len in (0..opening).chain((opening..full.len()).step_by(17)) {
        fs::write(bench.journal(), &full[..len]).unwrap();
        let host = bench.host();
        let answer = apply::undo(&host, &bench.store());
        if len < opening {
            let error = answer.unwrap_err();
            assert!(matches!(error, UndoError::Journal { .. }), "{len} bytes: {error}");
            assert_eq!(host.writes(), 0, "{len} bytes");
            continue;
        }
        let undone = answer.unwrap();
        assert!(undone.is_complete(), "{len} bytes: {undone:#?}");
        let torn = full[len - 1] != b'\n';
        let told = undone.notes.iter().any(|note| note.contains("torn"));
        assert_eq!(told, torn, "{len} bytes: {:?}", undone.notes);
        same(&before, &bench.tree(), &format!("{len} bytes"));
        let again = Bench::of(&shielded);
        fs::remove_dir_all(bench.scratch.0.join("root")).unwrap();
        fs::rename(again.scratch.0.join("root"), bench.scratch.0.join("root")).unwrap();
    }
}

#[test]
fn a_file_that_is_no_journal_of_ours_never_leads_to_a_write() {
    let (tree, plan) = (v2(), v2_plan());
    let bench = Bench::of(&tree);
    bench.apply(&bench.host(), &plan).unwrap();
    let ours = fs::read_to_string(bench.journal()).unwrap();
    let (header, rest) = ours.split_once('\n').unwrap();
    for foreign in [
        String::new(),
        "\n".to_owned(),
        "{}\n".to_owned(),
        "not JSON\n".to_owned(),
        rest.to_owned(),
        ours.replacen("cpushield", "othertool", 1),
        ours.replacen("\"schema\":1", "\"schema\":2", 1),
        format!("{header}\n{header}\n{rest}"),
        ours.replacen("\"begin\"", "\"done\"", 1),
        ours.replacen("\"outcome\"", "\"unknown\"", 1),
        ours.replace('\n', " "),
    ] {
        fs::write(bench.journal(), &foreign).unwrap();
        let host = bench.host();
        let undone = apply::undo(&host, &bench.store()).unwrap_err();
        assert!(matches!(undone, UndoError::Journal { .. }), "{undone}");
        let applied = bench.apply(&host, &plan).unwrap_err();
        assert!(matches!(applied, ApplyError::Journal { .. }), "{applied}");
        assert_eq!(host.writes(), 0, "{foreign}");
        assert_eq!(fs::read_to_string(bench.journal()).unwrap(), foreign);
    }
}

#[test]
fn after_a_boot_nothing_is_written_and_the_journal_is_put_away_whatever_is_left_of_it() {
    for (name, tree, plan) in machines() {
        let bench = Bench::of(&tree);
        bench.apply(&bench.host(), &plan).unwrap();
        let whole = fs::read_to_string(bench.journal()).unwrap();
        let (first, rest) = whole.split_once('\n').unwrap();
        let booted = Bench::of(&tree);
        let boot_id = booted.scratch.0.join("root/proc/sys/kernel/random/boot_id");
        fs::write(boot_id, "another\n").unwrap();
        for (left, steps) in [
            (whole.clone(), true),
            (format!("{whole}{{\"outco"), true),
            (format!("{whole}\0\0\0"), true),
            (format!("{first}\n"), false),
            (format!("{first}\n{}", &rest[..100]), false),
            (format!("{first}\nnot ours\n"), false),
            (format!("{}\n{rest}", first.replace("\"schema\":1", "\"schema\":2")), false),
        ] {
            let end = left.len().saturating_sub(40);
            let when = format!("{name}: {} bytes, {:?} at the end", left.len(), &left[end..]);
            fs::write(bench.journal(), &left).unwrap();
            let host = booted.host();
            let undone = apply::undo(&host, &bench.store()).unwrap();
            assert!(undone.other_boot && undone.is_complete(), "{when}");
            assert_eq!(undone.steps.is_empty(), !steps, "{when}");
            assert_eq!(undone.notes.is_empty(), steps, "{when}: {:?}", undone.notes);
            assert!(undone.steps.iter().all(|step| step.fate == Fate::Gone), "{when}");
            assert_eq!(host.writes(), 0, "{when}");
            assert!(!bench.journal().exists(), "{when}");
            assert_eq!(fs::read_to_string(undone.journal.unwrap()).unwrap(), left, "{when}");
            fs::write(bench.journal(), &left).unwrap();
            let applied = apply::apply(&booted.host(), &bench.store(), &plan, &mut |_| {}).unwrap();
            assert!(applied.notes.iter().any(|note| note.contains("booted")), "{when}");
            assert!(apply::undo(&booted.host(), &bench.store()).unwrap().is_complete(), "{when}");
        }
    }
}

#[test]
fn a_journal_that_cannot_be_read_can_be_forgotten_and_is_kept_for_good() {
    let (tree, plan) = (v2(), v2_plan());
    let bench = Bench::of(&tree);
    bench.apply(&bench.host(), &plan).unwrap();
    let before = bench.tree();
    fs::write(bench.journal(), "not ours").unwrap();
    let (root, state) = (bench.scratch.0.join("root"), bench.scratch.0.join("state"));
    let undo = |more: &[&str]| {
        let mut undo = std::process::Command::new(env!("CARGO_BIN_EXE_cpushield"));
        undo.arg("undo").arg("--root").arg(&root).arg("--state").arg(&state).args(more);
        undo.output().unwrap()
    };
    let refused = undo(&[]);
    assert_eq!(refused.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("undo --forget"), "{refused:?}");
    let forgotten = undo(&["--forget"]);
    let kept = state.join("forgotten-journal-1.jsonl");
    let told = String::from_utf8_lossy(&forgotten.stdout).into_owned();
    assert!(told.contains(&kept.display().to_string()), "{forgotten:?}");
    same(&before, &bench.tree(), "forgotten");
    let fresh = Bench::of(&tree);
    for _ in 0..12 {
        apply::apply(&fresh.host(), &bench.store(), &plan, &mut |_| {}).unwrap();
        assert!(apply::undo(&fresh.host(), &bench.store()).unwrap().is_complete());
    }
    assert_eq!(fs::read_to_string(kept).unwrap(), "not ours");
    let names = fs::read_dir(state).unwrap().map(|entry| entry.unwrap().file_name());
    let old = names.filter(|name| name.to_string_lossy().starts_with("journal-"));
    assert_eq!(old.count(), 10);
}

#[test]
fn what_somebody_else_changed_meanwhile_is_left_alone_and_told() {
    let (tree, plan) = (v2(), v2_plan());
    let bench = Bench::of(&tree);
    let mut before = bench.tree();
    bench.apply(&bench.host(), &plan).unwrap();
    // The user: a sysctl, an interrupt, a program's affinity, a program of his own in the shield.
    let user = bench.host();
    for (path, value) in [
        ("/proc/sys/vm/stat_interval", "10"),
        ("/proc/irq/24/smp_affinity", "1"),
        ("/sys/fs/cgroup/cpushield/cgroup.procs", "100"),
    ] {
        user.write(path, value).unwrap();
    }
    user.set_affinity(200, &CpuSet::one(1)).unwrap();
    user.set_affinity(100, &CpuSet::one(3)).unwrap();
    let now = bench.tree();
    let undone = apply::undo(&bench.host(), &bench.store()).unwrap();
    assert!(undone.is_complete(), "{undone:#?}");
    assert_eq!(undone.drifted_tasks.iter().map(|id| id.tid).collect::<Vec<_>>(), [200]);
    let drifted = undone.steps.iter().filter(|s| matches!(s.fate, Fate::Drifted { .. }));
    let mut drifted: Vec<&str> = drifted.map(|step| step.subject.as_str()).collect();
    drifted.dedup();
    assert_eq!(drifted, ["/proc/irq/24/smp_affinity", "/proc/sys/vm/stat_interval"]);
    assert_eq!(bench.host().affinity(100).unwrap().to_string(), "0-3", "it was in the shield");
    let told = undone.steps.iter().filter_map(|step| step.note.as_deref());
    assert_eq!(told.collect::<Vec<_>>(), ["1 tasks that ran in it are now in /sys/fs/cgroup"]);
    for kept in ["sys/vm/stat_interval", "irq/24/smp_affinity", "irq/24/smp_affinity_list"] {
        let path = Path::new("proc").join(kept);
        before.insert(path.clone(), now[&path].clone());
    }
    let path = Path::new("proc/200/status").to_owned();
    before.insert(path.clone(), now[&path].clone());
    same(&before, &bench.tree(), "drift");
}

/// What somebody else does between two undos: a file and tasks, those that had a mask of their own
/// and those that had not. What it must come to is written into `before`.
fn change_between(bench: &Bench, before: &mut Tree) {
    let user = bench.host();
    user.write("/proc/sys/vm/stat_interval", "10").unwrap();
    user.write("/proc/irq/24/smp_affinity", "1").unwrap();
    user.set_affinity(100, &CpuSet::one(2)).unwrap();
    user.set_affinity(202, &CpuSet::one(1)).unwrap();
    let now = bench.tree();
    for name in [
        "sys/vm/stat_interval",
        "irq/24/smp_affinity",
        "irq/24/smp_affinity_list",
        "100/status",
        "202/status",
    ] {
        let path = Path::new("proc").join(name);
        before.insert(path.clone(), now[&path].clone());
    }
}

#[test]
fn what_somebody_changes_between_two_undos_is_theirs() {
    for (name, tree, plan) in machines() {
        let (_, count) = writes(&tree, &plan);
        let mut again = 0;
        for at in 0..count {
            for fault in [Fault::Refuse { at, errno: 1 }, Fault::Stop { at }] {
                let when = format!("{name}: first undo {fault:?}");
                let bench = Bench::of(&tree);
                let mut before = bench.tree();
                bench.apply(&bench.host(), &plan).unwrap();
                let first = apply::undo(&bench.host().failing(fault), &bench.store());
                if first.is_ok_and(|undone| undone.is_complete()) {
                    continue;
                }
                again += 1;
                change_between(&bench, &mut before);
                let undone = apply::undo(&bench.host(), &bench.store()).unwrap();
                assert!(undone.is_complete(), "{when}: {undone:#?}");
                same(&before, &bench.tree(), &when);
            }
        }
        assert!(again > count, "{name}: only {again} undos had to be called again");
    }
}

/// An apply or undo on a disk that is full after so many writes of the journal.
fn until_the_disk_is_large_enough(mut run: impl FnMut(usize) -> bool) {
    let enough = (0..2000).find(|room| run(*room));
    assert!(enough.is_some_and(|room| room > 3), "full at {enough:?}");
}

#[test]
fn a_full_disk_stops_apply_without_a_trace_and_the_next_one_can_shield() {
    for (name, tree, plan) in machines() {
        until_the_disk_is_large_enough(|room| {
            let when = format!("{name}: room for {room} writes");
            let bench = Bench::of(&tree);
            let before = bench.tree();
            let full = bench.store().with_room_for(room);
            match apply::apply(&bench.host(), &full, &plan, &mut |_| {}) {
                Ok(_) => return true,
                Err(ApplyError::Access(error)) => assert_eq!(error.errno(), Some(28), "{when}"),
                Err(ApplyError::Failed { undone, reason, .. }) => {
                    assert!(reason.starts_with("ENOSPC"), "{when}: {reason}");
                    let undone = undone.unwrap();
                    assert!(undone.is_complete(), "{when}: {undone:#?}");
                }
                Err(error) => panic!("{when}: {error}"),
            }
            same(&before, &bench.tree(), &when);
            assert!(!bench.journal().exists(), "{when}");
            bench.apply(&bench.host(), &plan).unwrap();
            false
        });
    }
}

#[test]
fn a_full_disk_does_not_keep_undo_from_its_work() {
    for (name, tree, plan) in machines() {
        until_the_disk_is_large_enough(|room| {
            let when = format!("{name}: room for {room} writes");
            let bench = Bench::of(&tree);
            let before = bench.tree();
            bench.apply(&bench.host(), &plan).unwrap();
            let full = bench.store().with_room_for(room);
            let undone = apply::undo(&bench.host(), &full).unwrap();
            assert!(undone.is_complete(), "{when}: {undone:#?}");
            same(&before, &bench.tree(), &when);
            assert!(!bench.journal().exists(), "{when}");
            let told = undone.notes.iter().any(|note| note.contains("ENOSPC"));
            assert!(told || undone.notes.is_empty(), "{when}: {undone:#?}");
            !told
        });
    }
}

#[test]
fn a_partition_that_the_kernel_calls_invalid_ends_apply_with_its_reason() {
    let (tree, mut plan) = (v2(), v2_plan());
    plan.steps.retain(|step| {
        !matches!(&step.change, Change::Write { path, .. } if path.ends_with("/cpuset.cpus"))
    });
    let bench = Bench::of(&tree);
    let before = bench.tree();
    match bench.apply(&bench.host(), &plan).unwrap_err() {
        ApplyError::Failed { reason, undone, .. } => {
            assert!(reason.contains("isolated invalid (Cpu list"), "{reason}");
            assert!(undone.unwrap().is_complete());
        }
        error => panic!("{error}"),
    }
    same(&before, &bench.tree(), "invalid partition");
}

/// The commands of a dry run, with every path of the machine in a copy, and with programs that
/// write down how they were called instead of doing anything.
fn script(plan: &Plan, root: &Path, calls: &Path) -> String {
    let mut script = String::from("set -u\n");
    for program in ["taskset", "chrt", "systemctl", "socat"] {
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
fn the_commands_of_a_dry_run_do_what_apply_does() {
    for (name, tree, plan) in machines() {
        let bench = Bench::of(&tree);
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
                Change::Scheduling { task, .. } => {
                    assert!(calls.contains(&format!("chrt -f -p 2 {}", task.tid)), "{name}");
                }
                Change::Slice { unit, .. } => {
                    assert!(calls.contains(&format!("systemctl start {unit}")), "{name}");
                }
                Change::CycleCpu { .. }
                | Change::MoveTasks { .. }
                | Change::KeepAffinities
                | Change::BanFromIrqbalance { .. } => {}
            }
        }
        for (path, value) in last {
            // A shell cannot make what only the kernel makes: groups' files and interrupts.
            let there = root.join(path.trim_start_matches('/'));
            let text = fs::read_to_string(&there);
            let absent = text.is_err() && said.contains(path.as_str());
            assert!(absent || text.is_ok_and(|t| t.trim() == value), "{name}: {path}: {said}");
        }
        let moved = calls.lines().filter(|line| line.starts_with("socat")).count();
        assert_eq!(moved, 1, "{name}: {calls}");
    }
}
