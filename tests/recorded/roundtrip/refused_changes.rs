//! A request that is refused changes nothing: one that would leave no housekeeping CPU, and one
//! that has waited in vain for the change of another process.

use super::bench::{Bench, Tree, same};
use super::many_shields::{NAMES, machines, plan_shield};
use cpushield::apply::{ShieldPresence, ShieldWork, UnfinishedWork, find_shield};
use cpushield::failure::{Failure, FailureKind};
use cpushield::policy::Siblings;
use cpushield::survey::survey;
use cpushield::ui::{OutputFormat, StatusLines, Ui};
use cpushield::workflow::WorkContext;
use cpushield::workflow::apply_shield::{PlanSource, ProgramsInTheWay, apply_source};
use cpushield::workflow::shield_options::ShieldOptions;
use cpushield_linux::CpuSet;
use cpushield_simulator::{InjectedFault, Simulated};
use std::fs;

/// Applies a request as `cpushield apply --shield NAME --cpus LIST` does.
fn apply(bench: &Bench, name: &str, cpus: &CpuSet) -> Result<(), Failure> {
    let ui = Ui::new(OutputFormat::Text, StatusLines::Suppressed);
    let state_dir = bench.scratch.0.join("state");
    let work =
        WorkContext { ui: &ui, host: bench.host(), store: bench.store(), state_dir, shield: None };
    let mut options = ShieldOptions::of_list(cpus);
    options.shield = Some(name.to_owned());
    options.written.siblings = Some(Siblings::Share);
    apply_source(&work, &PlanSource::Options(options), ProgramsInTheWay::Refuse).map(drop)
}

/// The files of the machine, and the journal.
fn state(bench: &Bench) -> (Tree, Vec<u8>) {
    (bench.tree(), fs::read(bench.journal()).unwrap())
}

#[track_caller]
fn same_state(before: &(Tree, Vec<u8>), bench: &Bench, when: &str) {
    let (tree, journal) = state(bench);
    same(&before.0, &tree, when);
    assert!(journal == before.1, "{when}: the journal has changed");
}

#[test]
fn a_change_that_would_leave_no_housekeeping_cpu_is_refused() {
    for machine in &machines(2) {
        let bench = machine.with_shields(&[0, 1]);
        let before = state(&bench);
        let online = survey(&bench.host(), &[]).topology.online;
        let all_others = online.difference(&machine.cpus[1]);
        let refused = apply(&bench, NAMES[0], &all_others).unwrap_err();
        let message = format!(
            "other shields leave only CPU {all_others}, but interrupts and other programs need at \
             least one CPU"
        );
        let hints = vec![
            "take a shield down: cpushield undo --shield NAME (cpushield status lists the shields)"
                .to_owned(),
        ];
        let expected = (FailureKind::Machine, message, hints);
        assert_eq!((refused.kind, refused.message, refused.hints), expected, "{}", machine.name);
        same_state(&before, &bench, &machine.name);
    }
}

/// It waits for 15 seconds.
#[test]
fn apply_names_the_process_whose_change_it_has_waited_for() {
    let machine = &machines(2)[0];
    let bench = machine.with_shields(&[0]);
    let before = state(&bench);
    let lock = bench.store().lock().unwrap();
    let refused = apply(&bench, NAMES[1], &machine.cpus[1]).unwrap_err();
    let (path, pid) = (bench.store().path("lock"), std::process::id());
    let message = format!("cannot lock {path}\n  cause: process {pid} holds the lock");
    let expected = (FailureKind::Machine, message, Vec::new());
    assert_eq!((refused.kind, refused.message, refused.hints), expected);
    same_state(&before, &bench, "refused");
    drop(lock);
    apply(&bench, NAMES[1], &machine.cpus[1]).unwrap();
}

#[test]
fn a_second_apply_that_was_interrupted_is_named_so() {
    let machine = &machines(2)[0];
    let bench = machine.with_shields(&[0]);
    let plan = plan_shield(&bench, NAMES[1], Some(&machine.cpus[1])).unwrap();
    bench.apply(&bench.host().failing(InjectedFault::Stop { at: 0 }), &plan).unwrap_err();
    let ShieldPresence::Part(_, unfinished) = find_shield(&bench.host(), &bench.store()).unwrap()
    else {
        panic!("the shield is complete")
    };
    assert_eq!(unfinished, UnfinishedWork::Interrupted { work: ShieldWork::Apply });
}
