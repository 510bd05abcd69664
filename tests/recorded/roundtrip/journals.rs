//! Journals that a crash or another boot left, files that are not journals, and full disks.

use super::bench::{Bench, same};
use super::trees::{machines, v2, v2_plan};
use crate::program;
use cpushield::apply::{self, ApplyError, ChangeFate, ShieldNote, UndoError};
use cpushield::change::Refusal;
use std::fs;

#[test]
fn a_truncated_journal_is_refused_before_its_begin_line_and_undone_after_it() {
    let (tree, plan) = (v2(), v2_plan());
    let shielded = Bench::of(&tree);
    let before = shielded.tree();
    shielded.apply(&shielded.host(), &plan).unwrap();
    let full = fs::read(shielded.journal()).unwrap();
    let text = String::from_utf8(full.clone()).unwrap();
    let begin = text.find("{\"begin\"").unwrap();
    let opening = begin + text[begin..].find('\n').unwrap() + 1;
    for len in (0..opening).chain((opening..full.len()).step_by(17)) {
        let bench = shielded.copy();
        fs::write(bench.journal(), &full[..len]).unwrap();
        let host = bench.host();
        let answer = apply::undo(&host, &bench.store(), None);
        if len < opening {
            let error = answer.unwrap_err();
            assert!(matches!(error, UndoError::Journal { .. }), "{len} bytes: {error}");
            assert_eq!(host.writes(), 0, "{len} bytes");
            continue;
        }
        let undone = answer.unwrap();
        assert!(undone.is_complete(), "{len} bytes: {undone:#?}");
        let torn = full[len - 1] != b'\n';
        let reported =
            undone.notes.iter().any(|note| matches!(note, ShieldNote::JournalLineDropped { .. }));
        assert_eq!(reported, torn, "{len} bytes: {:?}", undone.notes);
        same(&before, &bench.tree(), &format!("{len} bytes"));
    }
}

#[test]
fn a_file_that_is_not_a_journal_never_causes_a_write() {
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
        let undone = apply::undo(&host, &bench.store(), None).unwrap_err();
        assert!(matches!(undone, UndoError::Journal { .. }), "{undone}");
        let applied = bench.apply(&host, &plan).unwrap_err();
        assert!(matches!(applied, ApplyError::Journal { .. }), "{applied}");
        assert_eq!(host.writes(), 0, "{foreign}");
        assert_eq!(fs::read_to_string(bench.journal()).unwrap(), foreign);
    }
}

#[test]
fn after_a_reboot_nothing_is_written_and_any_journal_is_archived() {
    for (name, tree, plan) in machines() {
        let bench = Bench::of(&tree);
        bench.apply(&bench.host(), &plan).unwrap();
        let whole = fs::read_to_string(bench.journal()).unwrap();
        let (first, rest) = whole.split_once('\n').unwrap();
        let booted = Bench::of(&tree);
        booted.put("/proc/sys/kernel/random/boot_id", "another\n");
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
            let undone = apply::undo(&host, &bench.store(), None).unwrap();
            assert!(undone.other_boot && undone.is_complete(), "{when}");
            assert_eq!(undone.steps.is_empty(), !steps, "{when}");
            assert_eq!(undone.notes.is_empty(), steps, "{when}: {:?}", undone.notes);
            assert!(undone.steps.iter().all(|step| step.fate == ChangeFate::Gone), "{when}");
            assert_eq!(host.writes(), 0, "{when}");
            assert!(!bench.journal().exists(), "{when}");
            assert_eq!(fs::read_to_string(undone.journal.unwrap()).unwrap(), left, "{when}");
            fs::write(bench.journal(), &left).unwrap();
            let applied = apply::apply(&booted.host(), &bench.store(), &plan, &mut |_| {}).unwrap();
            assert!(
                applied.notes.iter().any(|note| matches!(note, ShieldNote::Rebooted { .. })),
                "{when}"
            );
            assert!(
                apply::undo(&booted.host(), &bench.store(), None).unwrap().is_complete(),
                "{when}"
            );
        }
    }
}

#[test]
fn an_unreadable_journal_can_be_discarded_and_is_archived() {
    let (tree, plan) = (v2(), v2_plan());
    let bench = Bench::of(&tree).into_files();
    bench.apply(&bench.host(), &plan).unwrap();
    let before = bench.tree();
    fs::write(bench.journal(), "not ours").unwrap();
    let (root, state) = (bench.scratch.0.join("root"), bench.scratch.0.join("state"));
    let undo = |more: &[&str]| {
        let mut undo = program::command();
        undo.arg("undo").arg("--root").arg(&root).arg("--state").arg(&state).args(more);
        undo.output().unwrap()
    };
    let refused = undo(&[]);
    assert_eq!(refused.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("undo --forget"), "{refused:?}");
    let forgotten = undo(&["--forget"]);
    let kept = state.join("forgotten-journal-1.jsonl");
    let reported = String::from_utf8_lossy(&forgotten.stdout).into_owned();
    assert!(reported.contains(&kept.display().to_string()), "{forgotten:?}");
    same(&before, &bench.tree(), "forgotten");
    let fresh = Bench::of(&tree);
    for _ in 0..12 {
        apply::apply(&fresh.host(), &bench.store(), &plan, &mut |_| {}).unwrap();
        assert!(apply::undo(&fresh.host(), &bench.store(), None).unwrap().is_complete());
    }
    assert_eq!(fs::read_to_string(kept).unwrap(), "not ours");
    let names = fs::read_dir(state).unwrap().map(|entry| entry.unwrap().file_name());
    let old = names.filter(|name| name.to_string_lossy().starts_with("journal-"));
    assert_eq!(old.count(), 10);
}

#[test]
fn a_limit_of_file_sizes_does_not_prevent_undo() {
    let (tree, plan) = (v2(), v2_plan());
    let bench = Bench::of(&tree).into_files();
    let before = bench.tree();
    let (root, state) = (bench.scratch.0.join("root"), bench.scratch.0.join("state"));
    bench.apply(&bench.host(), &plan).unwrap();
    assert!(fs::metadata(bench.journal()).unwrap().len() > 1024);
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", "ulimit -f 1; exec \"$@\"", "sh"]).arg(program::path());
    let undone = shell.arg("undo").arg("--root").arg(&root).arg("--state").arg(&state).output();
    let undone = undone.unwrap();
    assert_eq!(undone.status.code(), Some(0), "{undone:?}");
    assert!(String::from_utf8_lossy(&undone.stdout).contains("EFBIG"), "{undone:?}");
    same(&before, &bench.tree(), "undone");
}

#[test]
fn nothing_is_changed_in_a_pid_namespace_that_hides_tasks() {
    let (tree, plan) = (v2(), v2_plan());
    let bench = Bench::of(&tree);
    let in_namespace = |inode: u32| bench.link("/proc/self/ns/pid", &format!("pid:[{inode}]"));
    in_namespace(4_026_532_448);
    let before = bench.tree();
    let error = bench.apply(&bench.host(), &plan).unwrap_err();
    assert!(error.to_string().contains("PID namespace"), "{error}");
    same(&before, &bench.tree(), "apply");
    in_namespace(4_026_531_836);
    let original = bench.tree();
    bench.apply(&bench.host(), &plan).unwrap();
    in_namespace(4_026_532_448);
    let shielded = bench.tree();
    let error = apply::undo(&bench.host(), &bench.store(), None).unwrap_err();
    assert!(error.to_string().contains("PID namespace"), "{error}");
    same(&shielded, &bench.tree(), "undo");
    in_namespace(4_026_531_836);
    assert!(apply::undo(&bench.host(), &bench.store(), None).unwrap().is_removed());
    same(&original, &bench.tree(), "undone");
}

#[test]
fn undo_of_all_shields_ends_when_the_journal_cannot_be_removed() {
    let (tree, plan) = (v2(), v2_plan());
    let bench = Bench::of(&tree).into_files();
    let before = bench.tree();
    bench.apply(&bench.host(), &plan).unwrap();
    // Root may write everywhere but in a file system that is mounted read-only.
    let read_only =
        "mount --bind \"$1\" \"$1\" && mount -o remount,bind,ro \"$1\" && shift && exec \"$@\"";
    let state = bench.scratch.0.join("state");
    let mut undo = std::process::Command::new("unshare");
    undo.args(["--mount", "--map-root-user", "timeout", "60", "sh", "-c", read_only, "sh"]);
    undo.arg(&state).arg(program::path()).args(["undo", "--all", "--root"]);
    let undone =
        undo.arg(bench.scratch.0.join("root")).arg("--state").arg(&state).output().unwrap();
    assert_eq!(undone.status.code(), Some(3), "{undone:?}");
    let said = String::from_utf8_lossy(&undone.stderr);
    assert!(said.contains("the journal could not be removed"), "{undone:?}");
    same(&before, &bench.tree(), "undone");
    assert!(apply::undo(&bench.host(), &bench.store(), None).unwrap().is_removed());
    assert!(!bench.journal().exists());
}

/// An apply or undo on a disk that is full after this many writes of the journal.
fn until_the_disk_is_large_enough(mut run: impl FnMut(usize) -> bool) {
    let enough = (0..2000).find(|room| run(*room));
    assert!(enough.is_some_and(|room| room > 3), "full at {enough:?}");
}

#[test]
fn a_full_disk_stops_apply_without_a_trace_and_the_next_apply_succeeds() {
    for (name, tree, plan) in machines() {
        until_the_disk_is_large_enough(|room| {
            let when = format!("{name}: room for {room} writes");
            let bench = Bench::of(&tree);
            let before = bench.tree();
            let full = bench.store().with_room_for(room);
            match apply::apply(&bench.host(), &full, &plan, &mut |_| {}) {
                Ok(_) => return true,
                Err(ApplyError::Access(error)) => assert_eq!(error.errno(), Some(28), "{when}"),
                Err(ApplyError::Failed { undone, refusal: Refusal { reason, .. }, .. }) => {
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
fn a_full_disk_does_not_prevent_undo() {
    for (name, tree, plan) in machines() {
        until_the_disk_is_large_enough(|room| {
            let when = format!("{name}: room for {room} writes");
            let bench = Bench::of(&tree);
            let before = bench.tree();
            bench.apply(&bench.host(), &plan).unwrap();
            let full = bench.store().with_room_for(room);
            let undone = apply::undo(&bench.host(), &full, None).unwrap();
            assert!(undone.is_complete(), "{when}: {undone:#?}");
            same(&before, &bench.tree(), &when);
            assert!(!bench.journal().exists(), "{when}");
            let reported = undone.notes.iter().any(|note| note.to_string().contains("ENOSPC"));
            assert!(reported || undone.notes.is_empty(), "{when}: {undone:#?}");
            !reported
        });
    }
}
