//! A program under SCHED_DEADLINE in a shield that is changed: the kernel admitted it for the CPUs
//! of the shield, so a change of these CPUs needs the user's consent.

use super::bench::same;
use super::changed_programs::{FIRST, add, change, has, machine, replace, shield, undo, version};
use cpushield::apply::ShieldNote;
use cpushield::documents::process_note::ProcessNote;
use cpushield::run::{CpuAssignment, NoPlaceReason};
use cpushield_linux::SchedPolicy;

const DEADLINE: SchedPolicy =
    SchedPolicy::Deadline { runtime_ns: 1_000_000, deadline_ns: 10_000_000, period_ns: 10_000_000 };

#[test]
fn a_program_with_a_deadline_is_in_the_way_of_a_change_of_the_cpus() {
    let bench = machine(false, [0, 0]);
    shield(&bench, "a", "2-3");
    add(&bench, "a", FIRST, CpuAssignment::All).unwrap();
    bench.host().set_scheduling(FIRST, DEADLINE).unwrap();
    let (change, _) = version(&bench, "a", "3");
    let reasons: Vec<_> = change.in_the_way.iter().map(|thread| &thread.reason).collect();
    assert_eq!(reasons, [&NoPlaceReason::Deadline]);
    let text = change.in_the_way[0].to_string();
    assert!(text.contains("runs under SCHED_DEADLINE, and the kernel admitted it"), "{text}");
    assert_eq!(version(&bench, "a", "2-3").0.in_the_way, []);
}

#[test]
fn with_consent_a_program_with_a_deadline_gets_the_cpus_of_the_new_version() {
    let bench = machine(false, [0, 0]);
    let before = bench.tree();
    shield(&bench, "a", "2-3");
    add(&bench, "a", FIRST, CpuAssignment::All).unwrap();
    bench.host().set_scheduling(FIRST, DEADLINE).unwrap();
    let policy = bench.host().scheduling(FIRST).unwrap();
    assert!(!version(&bench, "a", "3").0.in_the_way[0].reason.is_unsafe());
    for cpus in ["3", "2-3", "2"] {
        change(&bench, "a", cpus);
        has(&bench, FIRST, cpus);
        assert_eq!(bench.host().scheduling(FIRST).unwrap(), policy);
    }
    bench.host().set_scheduling(FIRST, SchedPolicy::Other { nice: 0 }).unwrap();
    undo(&bench, "a");
    same(&before, &bench.tree(), "undone");
}

#[test]
fn a_program_with_a_deadline_that_the_kernel_does_not_move_is_reported() {
    let bench = machine(false, [0, 0]);
    shield(&bench, "a", "2-3");
    add(&bench, "a", FIRST, CpuAssignment::All).unwrap();
    bench.host().set_scheduling(FIRST, DEADLINE).unwrap();
    bench.answer(&format!("set-affinity\t/proc/{FIRST}\tEBUSY\n"));
    let (mut change, new) = version(&bench, "a", "3");
    change.prepare(&bench.host(), &bench.store()).unwrap();
    assert!(replace(&bench, &bench.host(), &new));
    let notes = change.finish(&bench.host(), &bench.store());
    let [note] = notes.as_slice() else { panic!("{notes:?}") };
    let ShieldNote::Process { process } = note else { panic!("{note:?}") };
    let ProcessNote::AffinityRefused { tid: FIRST, answer, .. } = process else {
        panic!("{process:?}")
    };
    assert!(answer.contains("EBUSY"), "{answer}");
}
