//! `undo --forget` forgets one shield only. `undo` without a name completes what was interrupted,
//! and releases programs whatever another process does in that time.

use super::bench::{Bench, disturbed_writes, same};
use super::many_shields::{NAMES, machines, same_apart_from_irq_threads};
use super::status::cpushield;
use super::trees;
use cpushield::apply::{self, ShieldNote, UnrestoredChanges};
use cpushield::refusal::UserError;
use cpushield::run::{self, CpuAssignment, ShieldPlacement};
use cpushield_simulator::{InjectedFault, Simulated};
use std::path::Path;
use std::time::Duration;

fn active(bench: &Bench) -> Vec<String> {
    let plans = apply::active_plans(&bench.host(), &bench.store()).unwrap();
    plans.into_iter().map(|plan| plan.shield.name).collect()
}

#[test]
fn forgetting_what_cannot_be_restored_leaves_the_other_shield_active() {
    let mut forgotten = 0;
    for machine in &machines(2) {
        let bench = machine.with_shields(&[0, 1]);
        let host = bench.host();
        apply::undo(&host, &bench.store(), Some(NAMES[0])).unwrap();
        let only_b = bench.tree();
        for at in disturbed_writes(host.writes()) {
            let when = format!("{}: refused at {at}", machine.name);
            let bench = machine.with_shields(&[0, 1]);
            let host = bench.host().failing(InjectedFault::Refuse { at, errno: 5 });
            let store = bench.store();
            let undone =
                apply::undo_with(&host, &store, Some(NAMES[0]), UnrestoredChanges::Forget).unwrap();
            assert_eq!(active(&bench), ["b"], "{when}");
            if undone.is_complete() {
                same_apart_from_irq_threads(only_b.clone(), bench.tree(), &when);
                continue;
            }
            forgotten += 1;
            let copy = undone.journal.unwrap();
            assert!(copy.contains("forgotten-journal-1"), "{when}: {copy}");
            assert!(Path::new(&copy).is_file(), "{when}: {copy}");
            let status = run::status(&bench.host(), &store, Some("b")).unwrap();
            assert_eq!(status.shields[0].name, "b", "{when}");
            let undone = apply::undo(&bench.host(), &store, None).unwrap();
            assert!(undone.is_complete(), "{when}: {undone:#?}");
            assert!(!bench.journal().exists(), "{when}");
        }
    }
    assert!(forgotten > 3, "only {forgotten} changes could not be restored");
}

#[test]
fn undo_without_a_name_completes_the_undo_that_was_interrupted() {
    let machines = machines(2);
    let machine = &machines[0];
    let bench = machine.with_shields(&[0, 1]);
    let host = bench.host();
    apply::undo(&host, &bench.store(), Some(NAMES[1])).unwrap();
    let only_a = bench.tree();
    let at = host.writes() / 2;
    let bench = machine.with_shields(&[0, 1]).into_files();
    let unnamed = cpushield(&bench, &["undo"]);
    assert_eq!(unnamed.status.code(), Some(2), "{unnamed:?}");
    let killed = bench.host().failing(InjectedFault::Stop { at });
    let killed = apply::undo(&killed, &bench.store(), Some(NAMES[1]));
    assert!(matches!(&killed, Err(error) if error.is_stop()), "{killed:?}");
    let completed = cpushield(&bench, &["undo"]);
    assert_eq!(completed.status.code(), Some(0), "{completed:?}");
    assert_eq!(active(&bench), ["a"]);
    same(&only_a, &bench.tree(), "completed");
}

#[test]
fn undo_releases_programs_although_another_process_holds_the_lock_at_first() {
    let (tree, plan) = (trees::v2(), trees::v2_plan());
    let bench = Bench::of(&tree).into_files();
    let before = bench.tree();
    bench.apply(&bench.host(), &plan).unwrap();
    let place = ShieldPlacement::new(&bench.host(), &plan);
    run::add(&bench.host(), &bench.store(), &place, 100, CpuAssignment::One(None)).unwrap();
    let lock = bench.store().lock().unwrap();
    let undone = std::thread::scope(|scope| {
        let undo = scope.spawn(|| cpushield(&bench, &["undo"]));
        // Longer than the command needs to look at the shield.
        std::thread::sleep(Duration::from_secs(2));
        drop(lock);
        undo.join().unwrap()
    });
    assert_eq!(undone.status.code(), Some(0), "{undone:?}");
    same(&before, &bench.tree(), "undone");
}

#[test]
fn what_cannot_be_forgotten_on_a_full_disk_is_reported_and_undone_later() {
    let machines = machines(2);
    let machine = &machines[0];
    let bench = machine.with_shields(&[0, 1]);
    let host = bench.host();
    apply::undo(&host, &bench.store(), Some(NAMES[0])).unwrap();
    let only_b = bench.tree();
    for at in disturbed_writes(host.writes()) {
        let when = format!("refused at {at}");
        let bench = machine.with_shields(&[0, 1]);
        let host = bench.host().failing(InjectedFault::Refuse { at, errno: 5 });
        let full = bench.store().with_room_for(0);
        let forget = UnrestoredChanges::Forget;
        let undone = apply::undo_with(&host, &full, Some(NAMES[0]), forget).unwrap();
        if undone.is_complete() {
            continue;
        }
        let stays = |note: &ShieldNote| matches!(note, ShieldNote::JournalStays { .. });
        assert!(undone.notes.iter().any(stays), "{when}: {undone:#?}");
        assert_eq!(active(&bench), ["a", "b"], "{when}");
        let undone = apply::undo(&bench.host(), &bench.store(), Some(NAMES[0])).unwrap();
        assert!(undone.is_complete(), "{when}: {undone:#?}");
        same_apart_from_irq_threads(only_b, bench.tree(), &when);
        return;
    }
    panic!("each refused write was made by a later step");
}
