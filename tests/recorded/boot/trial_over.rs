//! Trials over words that an earlier apply has written: these stay until the trial has passed, are
//! then replaced in place, and undo restores the text before the first change.

use super::grub::Machine;
use super::once::{make_extlinux_machine, make_raspberry_pi, simulate_extlinux};
use super::others::{make_systemd_boot_machine, simulate_bootctl};
use super::request_cpus;
use cpushield::boot::WordSource;
use cpushield::boot::plan::{BootRequest, plan};
use cpushield::boot::write::{self, DefaultEntry, WriteMode};
use cpushield::boot::{
    BootError, BootPlan, SettledAs, TrialDeadline, TrialGoal, WrittenParameters, earlier, loaders,
    read_journal, status, trial,
};
use cpushield::refusal::UserError;
use cpushield::report::blocks::{terminal_blocks, unpainted};
use cpushield::report::boot_written_blocks;
use cpushield::survey::survey;
use cpushield_linux::Host;
use cpushield_simulator::{InjectedFault, Simulated};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The words of the first apply, and of the trial.
const FIRST: &str = "nohz_full=2-3 rcu_nocbs=2-3 irqaffinity=0-1";
const SECOND: &str = "nohz_full=3 rcu_nocbs=3 irqaffinity=0-2";

/// A loader that can boot an entry once.
struct OnceLoader {
    name: &'static str,
    make: fn() -> Machine,
    host: fn(&Machine) -> Host,
    kernels: Option<&'static str>,
}

const LOADERS: [OnceLoader; 4] = [
    OnceLoader { name: "grub", make: Machine::debian, host: Machine::host, kernels: Some("*-rt*") },
    OnceLoader {
        name: "systemd-boot",
        make: make_systemd_boot_machine,
        host: simulate_bootctl,
        kernels: Some("*-rt*"),
    },
    OnceLoader {
        name: "extlinux",
        make: make_extlinux_machine,
        host: simulate_extlinux,
        kernels: Some("*-rt*"),
    },
    OnceLoader {
        name: "raspberry-pi",
        make: make_raspberry_pi,
        host: Machine::host,
        kernels: None,
    },
];

impl OnceLoader {
    fn plan(&self, machine: &Machine, cpus: &str) -> BootPlan {
        let host = machine.host();
        let kernels = self.kernels.map(str::to_owned);
        let asked = BootRequest { kernels, ..request_cpus(cpus) };
        let menu = earlier::find_menu(&host, &machine.store()).unwrap();
        plan(&host, &survey(&host, &[]), WordSource::Request(&asked), menu.as_ref()).unwrap()
    }

    /// Applies the first or the second words.
    fn apply(&self, machine: &Machine, cpus: &str, default_entry: DefaultEntry) {
        let mode = WriteMode { default_entry, ..WriteMode::default() };
        let plan = self.plan(machine, cpus);
        write::write(&(self.host)(machine), &machine.store(), &plan, &mode).unwrap();
    }

    /// Arms a trial of the second words.
    fn arm(&self, machine: &Machine, host: &Host) -> Result<WrittenParameters, BootError> {
        let mode = WriteMode { term: write::ParameterTerm::Trial, ..WriteMode::default() };
        write::write(host, &machine.store(), &self.plan(machine, "3"), &mode)
    }

    /// A machine with the first words, on which the trial of the second ones is armed.
    fn make_armed(&self) -> Machine {
        let machine = (self.make)();
        self.apply(&machine, "2-3", DefaultEntry::Ours);
        self.arm(&machine, &(self.host)(&machine)).unwrap();
        machine
    }

    /// The next boot: the loader has used the entry for one boot.
    fn boot(&self, machine: &Machine, id: &str, words: &str) {
        let host = (self.host)(machine);
        let trial = read_journal(&machine.store()).unwrap().unwrap().trial;
        if let Some(trial) = trial {
            let (loader, _) = loaders::find(&host).unwrap().unwrap();
            loader.cancel_boot_once(&host, &trial.entry).unwrap();
        }
        machine.write("proc/sys/kernel/random/boot_id", id);
        machine.write("proc/cmdline", &format!("{words} ro\n"));
        let cpus = if words.contains("2-3") { "2-3\n" } else { "3\n" };
        machine.write("sys/devices/system/cpu/nohz_full", cpus);
    }
}

/// The command lines of every entry.
fn command_lines(machine: &Machine) -> Vec<String> {
    let (_, found) = loaders::find(&machine.host()).unwrap().unwrap();
    found.entries.iter().map(|it| it.args.clone()).collect()
}

/// The boot files by their path inside the machine, without those that the loader's programs
/// change.
fn boot_files(machine: &Machine) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
    let root = machine.path("");
    let files = machine.files().into_iter();
    let inside = files.map(|(path, it)| (path.strip_prefix(&root).unwrap().to_owned(), it));
    let is_boot_file = |path: &PathBuf| {
        (path.starts_with("etc") || path.starts_with("boot"))
            && !path.ends_with("grubenv")
            && !path.ends_with("ldlinux.sys")
    };
    inside.filter(|(path, _)| is_boot_file(path)).collect()
}

fn undo(loader: &OnceLoader, machine: &Machine) {
    write::undo(&(loader.host)(machine), &machine.store()).unwrap().unwrap();
}

fn conclude(loader: &OnceLoader, machine: &Machine) -> Result<SettledAs, BootError> {
    trial::conclude(&(loader.host)(machine), &machine.store(), &[]).map(|end| end.end)
}

#[test]
fn a_trial_leaves_the_written_words_in_place() {
    for loader in &LOADERS {
        let name = loader.name;
        let machine = (loader.make)();
        let before = boot_files(&machine);
        loader.apply(&machine, "2-3", DefaultEntry::Ours);
        let between = boot_files(&machine);
        let written = loader.arm(&machine, &(loader.host)(&machine)).unwrap();
        let lines = command_lines(&machine);
        let trial = format!("{SECOND} panic=30");
        for words in [FIRST, &trial] {
            assert!(lines.iter().any(|it| it.contains(words)), "{name}: {words} {lines:#?}");
        }
        // Files of the loader that have all entries have more of them; any other one stays.
        let now = boot_files(&machine);
        for (path, text) in &between {
            let grows = path.ends_with("grub.cfg") || path.ends_with("extlinux.conf");
            assert!(grows || now.get(path) == Some(text), "{name}: {}", path.display());
        }
        let text = terminal_blocks(&boot_written_blocks(&written), usize::MAX, &unpainted);
        let kept = format!("kept until the trial has passed: {FIRST}\n");
        assert!(text.contains(&kept), "{name}: {text}");
        // Undo goes back to the text before the first change.
        undo(loader, &machine);
        assert_eq!(before, boot_files(&machine), "{name}");
    }
}

#[test]
fn entries_that_keep_the_default_stay_too() {
    for loader in &LOADERS {
        let name = loader.name;
        let machine = (loader.make)();
        let before = boot_files(&machine);
        loader.apply(&machine, "2-3", DefaultEntry::Kept);
        let between = boot_files(&machine);
        match loader.arm(&machine, &(loader.host)(&machine)) {
            Ok(_) => {
                let lines = command_lines(&machine);
                for words in [FIRST, SECOND] {
                    assert!(lines.iter().any(|it| it.contains(words)), "{name}: {lines:#?}");
                }
            }
            // The firmware reads one `tryboot.txt`, which has the written words already.
            Err(error) => {
                assert_eq!(name, "raspberry-pi", "{error}");
                let why = "tryboot.txt already has the written parameters";
                assert!(error.to_string().contains(why), "{error}");
                assert_eq!(between, boot_files(&machine), "{name}");
            }
        }
        undo(loader, &machine);
        assert_eq!(before, boot_files(&machine), "{name}");
    }
}

#[test]
fn a_trial_that_passes_replaces_the_written_words_in_place() {
    for loader in &LOADERS {
        let name = loader.name;
        let before = boot_files(&(loader.make)());
        let machine = loader.make_armed();
        loader.boot(&machine, "b2\n", SECOND);
        assert_eq!(conclude(loader, &machine).unwrap(), SettledAs::Permanent, "{name}");
        // The files are those of an apply of the second words alone.
        let alone = (loader.make)();
        loader.apply(&alone, "3", DefaultEntry::Ours);
        assert_eq!(boot_files(&machine), boot_files(&alone), "{name}");
        let history = status::status(&machine.host(), &machine.store()).unwrap().history;
        assert_eq!(history.len(), 2, "{name}");
        undo(loader, &machine);
        assert_eq!(before, boot_files(&machine), "{name}");
    }
}

#[test]
fn a_trial_that_fails_leaves_the_written_words() {
    for loader in &LOADERS {
        let name = loader.name;
        let machine = (loader.make)();
        let before = boot_files(&machine);
        loader.apply(&machine, "2-3", DefaultEntry::Ours);
        let between = boot_files(&machine);
        loader.arm(&machine, &(loader.host)(&machine)).unwrap();
        // It hung, and the old entry booted.
        loader.boot(&machine, "b2\n", FIRST);
        assert_eq!(conclude(loader, &machine).unwrap(), SettledAs::TakenBack, "{name}");
        assert_eq!(between, boot_files(&machine), "{name}");
        let seen = status::status(&machine.host(), &machine.store()).unwrap();
        let words: Vec<&str> = seen.words.iter().map(|it| it.word.as_str()).collect();
        assert_eq!((words.join(" ").as_str(), seen.history.len()), (FIRST, 1), "{name}");
        assert_eq!(seen.differs, [], "{name}");
        undo(loader, &machine);
        assert_eq!(before, boot_files(&machine), "{name}");
    }
}

#[test]
fn a_kernel_that_is_installed_during_the_trial_stays_in_the_menu() {
    for words in [FIRST, SECOND] {
        let [grub, ..] = &LOADERS;
        let machine = grub.make_armed();
        machine.install("6.13.1-rt-amd64", true);
        machine.update_grub();
        grub.boot(&machine, "b2\n", words);
        conclude(grub, &machine).unwrap();
        let cfg = machine.read("boot/grub/grub.cfg");
        machine.update_grub();
        assert_eq!(cfg, machine.read("boot/grub/grub.cfg"));
        let (_, found) = loaders::find(&machine.host()).unwrap().unwrap();
        let ours: Vec<_> = found.entries.iter().filter(|it| it.ours).collect();
        let versions: Vec<&str> = ours.iter().map(|it| it.version.as_str()).collect();
        assert_eq!(versions, ["6.13.1-rt-amd64", "6.12.9-rt-amd64"]);
        assert!(ours.iter().all(|it| it.args.contains(words) && !it.args.contains("panic=30")));
        undo(grub, &machine);
        assert!(!machine.read("boot/grub/grub.cfg").contains("nohz_full"));
    }
}

#[test]
fn a_trial_over_written_words_killed_or_refused_at_any_write_loses_nothing() {
    for loader in &LOADERS {
        let name = loader.name;
        let before = boot_files(&(loader.make)());
        for at in 0.. {
            let machine = (loader.make)();
            loader.apply(&machine, "2-3", DefaultEntry::Ours);
            let between = boot_files(&machine);
            let refused = (loader.host)(&machine).failing(InjectedFault::Refuse { at, errno: 28 });
            if loader.arm(&machine, &refused).is_ok() {
                assert!(at >= 1, "{name}");
                break;
            }
            assert_eq!(between, boot_files(&machine), "{name}: refused at write {at}");
            let killed = (loader.host)(&machine).failing(InjectedFault::Stop { at });
            let error = loader.arm(&machine, &killed).unwrap_err();
            assert!(error.is_stop(), "{name} {at}: {error}");
            loaders::find(&machine.host()).unwrap().unwrap();
            undo(loader, &machine);
            assert_eq!(before, boot_files(&machine), "{name}: killed at write {at}");
        }
    }
}

#[test]
fn the_end_of_a_trial_over_written_words_killed_at_any_write_is_finished_later() {
    for loader in &LOADERS {
        let name = loader.name;
        let before = boot_files(&(loader.make)());
        let [first, second] = ["2-3", "3"].map(|cpus| {
            let machine = (loader.make)();
            loader.apply(&machine, cpus, DefaultEntry::Ours);
            boot_files(&machine)
        });
        // The next boot has the words of the trial, or else the old ones.
        for (words, wanted) in [(SECOND, &second), (FIRST, &first)] {
            for at in 0.. {
                let machine = loader.make_armed();
                loader.boot(&machine, "b2\n", SECOND);
                let killed = (loader.host)(&machine).failing(InjectedFault::Stop { at });
                if trial::conclude(&killed, &machine.store(), &[]).is_ok() {
                    assert!(at >= 2, "{name}: {at}");
                    break;
                }
                loader.boot(&machine, "b3\n", words);
                let wanted = match conclude(loader, &machine) {
                    Ok(_) => wanted,
                    Err(BootError::NoTrial) => &second,
                    Err(error) => panic!("{name}: killed at write {at}: {error}"),
                };
                assert_eq!(*wanted, boot_files(&machine), "{name}: killed at write {at}");
                undo(loader, &machine);
                assert_eq!(before, boot_files(&machine), "{name}: killed at write {at}");
            }
        }
    }
}

/// Only the trial writes the entry of that kernel, which existed before.
#[test]
fn the_entry_of_a_kernel_that_only_the_trial_has_chosen_survives_a_killed_end() {
    let [_, real_time, ..] = &LOADERS;
    let all = OnceLoader { kernels: Some("*"), ..*real_time };
    let make = || {
        let machine = (all.make)();
        machine.install("6.9.1", false);
        real_time.apply(&machine, "2-3", DefaultEntry::Ours);
        machine
    };
    let first = boot_files(&make());
    let mut undone = 0;
    for at in 0.. {
        let machine = make();
        all.arm(&machine, &(all.host)(&machine)).unwrap();
        all.boot(&machine, "b2\n", SECOND);
        let killed = (all.host)(&machine).failing(InjectedFault::Stop { at });
        if trial::conclude(&killed, &machine.store(), &[]).is_ok() {
            break;
        }
        // The next boot does not have the words of the trial.
        all.boot(&machine, "b3\n", FIRST);
        if conclude(&all, &machine).is_ok_and(|end| end == SettledAs::TakenBack) {
            assert_eq!(first, boot_files(&machine), "killed at write {at}");
            undone += 1;
        }
    }
    assert!(undone > 1, "{undone}");
}

#[test]
fn words_of_the_user_and_a_change_during_the_trial_stay() {
    let [_, _, extlinux, _] = &LOADERS;
    let file = "boot/extlinux/extlinux.conf";
    let theirs = "label debug\n\tlinux /vmlinuz-6.1.0\n\tappend nohz_full=3 ro\n";
    let make = || {
        let machine = (extlinux.make)();
        machine.write(file, &format!("{}\n{theirs}", machine.read(file)));
        extlinux.apply(&machine, "2-3", DefaultEntry::Ours);
        extlinux.arm(&machine, &(extlinux.host)(&machine)).unwrap();
        machine.write(file, &machine.read(file).replace("timeout 50", "timeout 9"));
        extlinux.boot(&machine, "b2\n", SECOND);
        machine
    };
    for at in 0.. {
        let machine = make();
        let killed = (extlinux.host)(&machine).failing(InjectedFault::Stop { at });
        let is_whole = trial::conclude(&killed, &machine.store(), &[]).is_ok();
        if !is_whole {
            let end = conclude(extlinux, &machine);
            assert!(matches!(end, Ok(SettledAs::Permanent) | Err(BootError::NoTrial)), "{end:?}");
        }
        let text = machine.read(file);
        assert!(text.contains(theirs) && text.contains("timeout 9"), "killed at {at}: {text}");
        assert!(text.contains(SECOND) && !text.contains(FIRST), "killed at {at}: {text}");
        undo(extlinux, &machine);
        let text = machine.read(file);
        assert!(text.contains(theirs) && !text.contains(SECOND), "killed at {at}: {text}");
        if is_whole {
            break;
        }
    }
}

#[test]
fn a_trial_of_a_part_of_the_written_words_is_refused() {
    let [grub, ..] = &LOADERS;
    let machine = (grub.make)();
    grub.apply(&machine, "2-3", DefaultEntry::Ours);
    let between = machine.files();
    let mut plan = grub.plan(&machine, "2-3");
    plan.parameters.truncate(2);
    let mode = WriteMode { term: write::ParameterTerm::Trial, ..WriteMode::default() };
    let error = write::write(&machine.host(), &machine.store(), &plan, &mode).unwrap_err();
    let why = format!("cannot try nohz_full=2-3 rcu_nocbs=2-3: {FIRST} is already written");
    assert!(error.to_string().starts_with(&why), "{error}");
    assert_eq!(between, machine.files());
}

/// Otherwise the options of the second command would be lost without a word.
#[test]
fn a_pending_trial_is_not_repeated_with_another_default_entry_or_deadline() {
    let [grub, ..] = &LOADERS;
    let machine = grub.make_armed();
    let between = machine.files();
    let plan = grub.plan(&machine, "3");
    let [program, state_dir] = ["/usr/bin/cpushield", "/var/lib/cpushield"].map(str::to_owned);
    let until = Some(TrialDeadline { goal: TrialGoal::Login, within_s: 600 });
    let same = WriteMode { term: write::ParameterTerm::Trial, ..WriteMode::default() };
    let other_default = WriteMode { default_entry: DefaultEntry::Kept, ..same.clone() };
    let program = Some(write::TrialProgram { program, state_dir });
    let other_deadline = WriteMode { program, until, ..same.clone() };
    for mode in [other_default, other_deadline] {
        let error = write::write(&machine.host(), &machine.store(), &plan, &mode).unwrap_err();
        assert!(matches!(error, BootError::TrialPending { .. }), "{error}");
    }
    let written = write::write(&machine.host(), &machine.store(), &plan, &same).unwrap();
    assert_eq!(written.files, [""; 0]);
    assert_eq!(between, machine.files());
}

#[test]
fn a_pending_trial_is_neither_replaced_nor_made_permanent() {
    use write::ParameterTerm::{Permanent, Trial};
    for loader in &LOADERS {
        let machine = loader.make_armed();
        let between = machine.files();
        let host = (loader.host)(&machine);
        // Of these, only the first plan has the words of the trial.
        for (cpus, term) in [("3", Permanent), ("2", Permanent), ("2", Trial)] {
            let mode = WriteMode { term, ..WriteMode::default() };
            let plan = loader.plan(&machine, cpus);
            let error = write::write(&host, &machine.store(), &plan, &mode).unwrap_err();
            assert!(matches!(error, BootError::TrialPending { .. }), "{}: {error}", loader.name);
            assert_eq!(between, machine.files());
            let error = write::preview(&host, &machine.store(), &plan, &mode).unwrap_err();
            assert!(matches!(error, BootError::TrialPending { .. }), "{}: {error}", loader.name);
        }
    }
}
