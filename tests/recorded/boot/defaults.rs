//! Which entry boots after the words were written: a default that is a number stays the same
//! entry, and the last of two requests decides whether the default changes.

use super::change::{MACHINES, make_plan};
use super::grub::Machine;
use super::request_cpus;
use cpushield::boot::plan::BootRequest;
use cpushield::boot::write::{self, DefaultEntry, ParameterTerm, WriteMode};
use cpushield::boot::{SettledAs, WrittenParameters, loaders, status, trial};

/// Sets the default entry in `grub.cfg`.
fn set_default(machine: &Machine, default: &str) {
    let path = "etc/grub.d/00_header";
    machine.write(path, &machine.read(path).replace("${saved_entry}", default));
    machine.update_grub();
}

/// The title and the command line of the entry that boots next.
fn next_entry(machine: &Machine) -> (String, String) {
    let (_, found) = loaders::find(&machine.host()).unwrap().unwrap();
    let entry = found.next_entry().unwrap();
    (entry.title.clone(), entry.args.clone())
}

fn apply(machine: &Machine, cpus: &str, mode: &WriteMode) -> WrittenParameters {
    let asked = BootRequest { kernels: Some("*-rt*".to_owned()), ..request_cpus(cpus) };
    let plan = make_plan(machine, &asked);
    write::write(&machine.host(), &machine.store(), &plan, mode).unwrap()
}

#[test]
fn a_default_that_is_a_number_boots_the_same_entry_after_an_apply() {
    let fixed = |default: &str| {
        let machine = Machine::debian();
        set_default(&machine, default);
        machine
    };
    let saved = |entry: &str| {
        let machine = Machine::debian();
        machine.save("saved_entry", entry);
        machine
    };
    for (name, machine) in [("1>2", fixed("1>2")), ("1", fixed("1")), ("saved 1>2", saved("1>2"))] {
        let (before, next) = (machine.files(), next_entry(&machine));
        let written = apply(&machine, "2-3", &WriteMode::default());
        assert_eq!(next_entry(&machine), next, "{name}");
        assert!(!written.next_has && written.choice.is_some(), "{name}: {written:#?}");
        // The same request again changes nothing; other words stay behind the other entries.
        assert_eq!(apply(&machine, "2-3", &WriteMode::default()).files, [""; 0], "{name}");
        apply(&machine, "3", &WriteMode::default());
        assert_eq!(next_entry(&machine), next, "{name}");
        write::undo(&machine.host(), &machine.store()).unwrap().unwrap();
        assert_eq!(before, machine.files(), "{name}");
    }
    // The first entry is a default by its place: ours takes it.
    assert!(apply(&fixed("0"), "2-3", &WriteMode::default()).next_has);
    // A number that was saved since counts our entries.
    let machine = Machine::debian();
    assert!(apply(&machine, "2-3", &WriteMode::default()).next_has);
    machine.save("saved_entry", "2>2");
    let next = next_entry(&machine);
    apply(&machine, "3", &WriteMode::default());
    assert_eq!(next_entry(&machine), next);
}

#[test]
fn a_trial_that_passed_leaves_a_default_that_is_a_number() {
    let machine = Machine::debian();
    set_default(&machine, "1>2");
    let next = next_entry(&machine);
    let mode = WriteMode { term: ParameterTerm::Trial, ..WriteMode::default() };
    assert!(apply(&machine, "1-3", &mode).next_has);
    machine.save("next_entry", "");
    machine.write("proc/sys/kernel/random/boot_id", "b2\n");
    let words = "nohz_full=1-3 rcu_nocbs=1-3 irqaffinity=0";
    machine.write("proc/cmdline", &format!("ro {words} panic=30\n"));
    machine.write("sys/devices/system/cpu/nohz_full", "1-3\n");
    let end = trial::conclude(&machine.host(), &machine.store(), &[]).unwrap();
    assert_eq!(end.end, SettledAs::Permanent, "{end:#?}");
    assert_eq!(next_entry(&machine), next);
    let (_, found) = loaders::find(&machine.host()).unwrap().unwrap();
    assert!(found.entries.iter().any(|it| it.ours && !it.args.contains("panic=30")));
}

#[test]
fn a_second_apply_of_the_same_words_changes_what_becomes_of_the_default() {
    use DefaultEntry::{Kept, Ours};
    let mode = |default_entry| WriteMode { default_entry, ..WriteMode::default() };
    for (name, make) in MACHINES {
        for (first, second) in [(Ours, Kept), (Kept, Ours)] {
            let alone = make();
            let wanted = apply(&alone, "2-3", &mode(second));
            let machine = make();
            let before = machine.files();
            apply(&machine, "2-3", &mode(first));
            let written = apply(&machine, "2-3", &mode(second));
            assert_eq!(written.next_has, wanted.next_has, "{name} {second:?}");
            assert!(!written.files.is_empty() && written.replaced.is_empty(), "{name}");
            let files = |machine: &Machine| {
                let root = machine.path("");
                let files = machine.files().into_iter();
                let inside =
                    files.map(|(path, it)| (path.strip_prefix(&root).unwrap().to_owned(), it));
                inside.collect::<Vec<_>>()
            };
            assert_eq!(files(&machine), files(&alone), "{name} {second:?}");
            // The words have not changed.
            let seen = status::status(&machine.host(), &machine.store()).unwrap();
            assert_eq!(seen.history.len(), 1, "{name}: {:#?}", seen.history);
            assert_eq!(apply(&machine, "2-3", &mode(second)).files, [""; 0], "{name}");
            write::undo(&machine.host(), &machine.store()).unwrap().unwrap();
            assert_eq!(before, machine.files(), "{name} {second:?}");
        }
    }
}
