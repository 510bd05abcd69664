//! Units with the slice of a shield: undo stops none, and leaves only what they need. A guest shows
//! the same with systemd (`services.sh`).

use super::bench::{Bench, Tree, same};
use super::operators::put_process;
use super::trees::{Task, machines};
use cpushield::apply::{self, ApplyError, StepNote};
use cpushield::plan::Plan;

const SLICE: &str = "/sys/fs/cgroup/cpushield.slice";

/// A machine under systemd with a process that a unit in the slice will have.
fn machine_with_service() -> (Bench, Plan) {
    let (_, mut tree, plan) = machines().into_iter().find(|(name, ..)| *name == "systemd").unwrap();
    put_process(&mut tree, Task::new(4_000_001, "mill", 0, "0-3"), 0);
    (Bench::of(&tree), plan)
}

/// Without the slice, and without the group of its process.
fn without_slice(mut tree: Tree) -> Tree {
    tree.retain(|path, _| {
        !path.starts_with(&SLICE[1..])
            && !path.starts_with("proc/4000001/")
            && path != "sys/fs/cgroup/cgroup.procs"
    });
    tree
}

fn group(bench: &Bench) -> String {
    bench.host().read_line("/proc/4000001/cgroup").unwrap()
}

fn start_service(bench: &Bench) {
    let host = bench.host();
    let unit = format!("{SLICE}/mill.service");
    if !host.exists(&unit) {
        host.make_dir(&unit).unwrap();
    }
    host.write(&format!("{unit}/cgroup.procs"), "4000001").unwrap();
}

#[test]
fn a_unit_stays_in_the_slice_which_loses_its_limits_and_is_taken_over_by_the_next_shield() {
    let (bench, plan) = machine_with_service();
    let before = without_slice(bench.tree());
    for round in 0..2 {
        bench.apply(&bench.host(), &plan).unwrap();
        start_service(&bench);
        assert_eq!(bench.host().read_line(&format!("{SLICE}/cpuset.cpus")).unwrap(), "3");
        let undone = apply::undo(&bench.host(), &bench.store(), None).unwrap();
        let notes: Vec<&StepNote> =
            undone.steps.iter().filter_map(|step| step.note.as_ref()).collect();
        let stays = StepNote::UnitsStay {
            slice: "cpushield.slice".to_owned(),
            units: vec!["mill.service".to_owned()],
        };
        assert!(notes.contains(&&stays), "{notes:?}");
        assert_eq!(group(&bench), "0::/cpushield.slice/mill.service", "round {round}");
        for file in ["cpuset.cpus", "cpuset.mems", "cpuset.cpus.exclusive"] {
            let text = bench.host().read_line(&format!("{SLICE}/{file}"));
            assert!(text.as_deref().map_or(true, str::is_empty), "{file}: {text:?}");
        }
        same(&before, &without_slice(bench.tree()), "after undo");
    }
    // The unit ends.
    bench.host().write("/sys/fs/cgroup/cgroup.procs", "4000001").unwrap();
    bench.remove(&format!("{SLICE}/mill.service"));
    bench.apply(&bench.host(), &plan).unwrap();
    apply::undo(&bench.host(), &bench.store(), None).unwrap();
    assert!(!bench.host().exists(SLICE));
    same(&before, &without_slice(bench.tree()), "after the unit has ended");
}

#[test]
fn a_slice_that_cannot_be_removed_after_a_failed_start_is_removed_by_a_later_undo() {
    let (_, tree, plan) = machines().into_iter().find(|(name, ..)| *name == "systemd").unwrap();
    let bench = Bench::of(&tree);
    let before = bench.tree();
    let kept = bench.text("/errors.tsv").unwrap();
    let calls =
        ["start", "stop"].map(|verb| format!("call\tsystemctl {verb} cpushield.slice\tEIO\n"));
    bench.answer(&calls.concat());
    match bench.apply(&bench.host(), &plan).unwrap_err() {
        ApplyError::Failed { subject, refusal, undone, .. } => {
            let reason = "EIO: Input/output error";
            assert_eq!((subject.as_str(), refusal.reason.as_str()), ("cpushield.slice", reason));
            let undone = undone.unwrap();
            let failed: Vec<&str> = undone.failed().map(|step| step.subject.as_str()).collect();
            assert_eq!(failed, ["cpushield.slice"], "{undone:#?}");
        }
        error => panic!("{error}"),
    }
    bench.put("/errors.tsv", &kept);
    let undone = apply::undo(&bench.host(), &bench.store(), None).unwrap();
    assert!(undone.is_complete(), "{undone:#?}");
    same(&before, &bench.tree(), "after the second undo");
    bench.apply(&bench.host(), &plan).unwrap();
}
