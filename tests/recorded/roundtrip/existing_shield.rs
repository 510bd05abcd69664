//! A command that makes a temporary shield asks whether a shield exists already. An incomplete
//! shield, and another process at work on it, are separate answers.

use super::bench::{Bench, same};
use super::many_shields::{NAMES, machines};
use super::trees::{v2, v2_plan};
use crate::program;
use cpushield::apply::ShieldPresence;
use cpushield::failure::FailureKind;
use cpushield::policy::DisturbanceConsent;
use cpushield::ui::{OutputFormat, StatusLines, Ui};
use cpushield::workflow::WorkContext;
use cpushield::workflow::active_shields::{
    check_name, find_settled_shield, refuse_active, undo_named,
};
use cpushield::workflow::trace_disturbance::check_disturbance;
use cpushield_simulator::{InjectedFault, Simulated};
use std::collections::BTreeSet;
use std::process::{Command, Stdio};
use std::time::Duration;

fn refused(bench: &Bench) -> Option<String> {
    refuse_active(&bench.host(), &bench.store(), "hint").err().map(|failure| failure.message)
}

#[test]
fn a_shield_an_incomplete_shield_and_a_running_process_are_each_refused_with_a_reason() {
    let bench = Bench::of(&v2());
    assert_eq!(refused(&bench), None);
    // Another process is about to make one; there is no journal yet.
    let lock = bench.scratch.0.join("state/lock");
    std::fs::create_dir_all(lock.parent().unwrap()).unwrap();
    let mut other = Command::new("flock")
        .arg("--no-fork")
        .arg(&lock)
        .args(["sleep", "100"])
        .stdin(Stdio::null())
        .spawn()
        .expect("flock of util-linux");
    while bench.store().holder().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(10));
    }
    let why = refused(&bench).expect("another process is at work");
    assert!(why.contains("under way"), "{why}");
    other.kill().unwrap();
    other.wait().unwrap();
    // A shield whose apply was killed.
    let stopped = bench.host().failing(InjectedFault::Stop { at: 9 });
    bench.apply(&stopped, &v2_plan()).unwrap_err();
    let why = refused(&bench).expect("a part is there");
    assert!(why.contains("an apply was interrupted"), "{why}");
    cpushield::apply::undo(&bench.host(), &bench.store(), None).unwrap();
    bench.apply(&bench.host(), &v2_plan()).unwrap();
    assert_eq!(refused(&bench).as_deref(), Some("CPU 3 is already shielded"));
}

#[test]
fn the_watchdog_undoes_its_own_shield_complete_or_not_and_no_other() {
    let plan = v2_plan();
    let name = plan.shield.name.clone();
    for fault in [None, Some(InjectedFault::Stop { at: 9 })] {
        let bench = Bench::of(&v2());
        let before = bench.tree();
        let host = match fault {
            None => bench.host(),
            Some(fault) => bench.host().failing(fault),
        };
        let _ = bench.apply(&host, &plan);
        let there = bench.tree();
        undo_named(&bench.host(), &bench.store(), "other").unwrap();
        same(&there, &bench.tree(), "not its own");
        undo_named(&bench.host(), &bench.store(), &name).unwrap();
        same(&before, &bench.tree(), "its own");
        let found = find_settled_shield(&bench.host(), &bench.store()).unwrap();
        assert!(matches!(found, ShieldPresence::Absent), "{found:?}");
    }
}

#[test]
fn a_trace_is_refused_where_the_journal_does_not_tell_whom_it_interrupts() {
    let bench = Bench::of(&v2());
    let ui = Ui::new(OutputFormat::Text, StatusLines::Suppressed);
    let state_dir = bench.scratch.0.join("state");
    let (host, store) = (bench.host(), bench.store());
    let work = WorkContext { ui: &ui, host, store, state_dir, shield: None };
    let refused = |cpus: &str, consent| {
        let refused = check_disturbance(&work, &cpus.parse().unwrap(), consent).err();
        refused.map(|failure| failure.message)
    };
    let (no, yes) = (DisturbanceConsent::NotGiven, DisturbanceConsent::Given);
    assert_eq!(refused("2", no), None);
    bench.apply(&bench.host(), &v2_plan()).unwrap();
    assert_eq!((refused("3", no), refused("2", yes)), (None, None));
    let other = refused("2", no).unwrap();
    assert!(other.contains("would interrupt shield cpushield (CPU 3):"), "{other}");
    std::fs::write(bench.journal(), "{}\n").unwrap();
    let damaged = refused("2", no).unwrap();
    assert!(damaged.contains("journal.jsonl"), "{damaged}");
    assert_eq!(refused("2", yes), None);
}

#[test]
fn a_refused_trace_names_every_shield_that_it_would_interrupt_and_the_measured_kernel() {
    let mut kernels = BTreeSet::new();
    for machine in machines(3) {
        let bench = machine.with_shields(&[0, 1, 2]);
        let ui = Ui::new(OutputFormat::Text, StatusLines::Suppressed);
        let state_dir = bench.scratch.0.join("state");
        let (host, store) = (bench.host(), bench.store());
        let release = host.read_line("/proc/sys/kernel/osrelease").unwrap();
        let is_measured = release.starts_with("6.12.");
        kernels.insert(is_measured);
        let work = WorkContext { ui: &ui, host, store, state_dir, shield: None };
        for watched in 0..3 {
            let refused =
                check_disturbance(&work, &machine.cpus[watched], DisturbanceConsent::NotGiven);
            let message = refused.unwrap_err().message;
            for (other, cpus) in machine.cpus.iter().enumerate() {
                let named = message.contains(&format!("shield {} (CPU {cpus})", NAMES[other]));
                assert_eq!(named, other != watched, "{}: {message}", machine.name);
            }
            assert!(message.contains("on Linux 6.12"), "{message}");
            assert_eq!(!message.contains("not measured"), is_measured, "{release}: {message}");
        }
    }
    assert_eq!(kernels.len(), 2, "{kernels:?}");
}

#[test]
fn an_invalid_name_is_refused_with_the_rule_whether_a_shield_is_active_or_not() {
    let bench = Bench::of(&v2());
    for is_active in [false, true] {
        if is_active {
            bench.apply(&bench.host(), &v2_plan()).unwrap();
        }
        for name in ["A", "../x", "", "housekeeping"] {
            let failure = check_name(&bench.host(), &bench.store(), name).unwrap_err();
            assert_eq!(failure.kind, FailureKind::Usage, "{name}");
            assert!(failure.message.contains("cannot be a shield's name; use"), "{failure:?}");
        }
        let failure = check_name(&bench.host(), &bench.store(), "other").unwrap_err();
        assert_eq!(failure.kind, FailureKind::Machine);
    }
    for (words, code) in [
        (&["undo", "--shield", "A"][..], 2),
        (&["status", "--shield", "A"], 2),
        (&["run", "--shield", "../x", "--", "true"], 125),
    ] {
        let mut command = program::command();
        command.arg("--state").arg(bench.scratch.0.join("none")).args(words);
        let done = command.output().unwrap();
        let text = String::from_utf8(done.stderr).unwrap();
        assert_eq!(done.status.code(), Some(code), "{words:?}: {text}");
        assert!(text.contains("cannot be a shield's name"), "{words:?}: {text}");
    }
}
