//! A command that makes a temporary shield asks whether a shield exists already. An incomplete
//! shield, and another process at work on it, are separate answers.

use super::bench::{Bench, same};
use super::trees::{v2, v2_plan};
use cpushield::apply::ShieldPresence;
use cpushield::policy::DisturbanceConsent;
use cpushield::ui::{OutputFormat, StatusLines, Ui};
use cpushield::workflow::WorkContext;
use cpushield::workflow::active_shields::{find_settled_shield, refuse_active, undo_named};
use cpushield::workflow::trace_disturbance::check_disturbance;
use cpushield_linux::InjectedFault;
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
    assert!(other.contains("would interrupt CPU 3 of shield cpushield"), "{other}");
    std::fs::write(bench.journal(), "{}\n").unwrap();
    let damaged = refused("2", no).unwrap();
    assert!(damaged.contains("journal.jsonl"), "{damaged}");
    assert_eq!(refused("2", yes), None);
}
