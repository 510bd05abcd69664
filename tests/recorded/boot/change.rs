//! Words that replace those of an earlier apply: only they change, undo restores the text before
//! the first change, and `boot status` has the history.

use super::grub::{Machine, mkconfig};
use super::request_cpus;
use cpushield::boot::WordSource;
use cpushield::boot::plan::{BootRequest, plan};
use cpushield::boot::write::{self, DefaultEntry, ParameterTerm, WriteMode};
use cpushield::boot::{BootError, BootPlan, earlier, loaders, status};
use cpushield::refusal::UserError;
use cpushield::report::blocks::{terminal_blocks, unpainted};
use cpushield::report::{boot_plan_blocks, boot_status_blocks, boot_written_blocks};
use cpushield::survey::survey;
use cpushield_simulator::{InjectedFault, Simulated};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Plans as `boot plan` does: on the menu without the words of an earlier apply.
pub fn make_plan(machine: &Machine, asked: &BootRequest) -> BootPlan {
    let host = machine.host();
    let menu = earlier::find_menu(&host, &machine.store()).unwrap();
    plan(&host, &survey(&host, &[]), WordSource::Request(asked), menu.as_ref()).unwrap()
}

fn apply(machine: &Machine, cpus: &str, default_entry: DefaultEntry) -> BootPlan {
    let asked = BootRequest { kernels: Some("*-rt*".to_owned()), ..request_cpus(cpus) };
    let plan = make_plan(machine, &asked);
    let mode = WriteMode { default_entry, ..WriteMode::default() };
    let written = write::write(&machine.host(), &machine.store(), &plan, &mode).unwrap();
    assert!(!written.files.is_empty());
    plan
}

/// The words of the first and of the second apply.
const FIRST: &str = "nohz_full=2-3 rcu_nocbs=2-3 irqaffinity=0-1";
const SECOND: &str = "nohz_full=3 rcu_nocbs=3 irqaffinity=0-2";

const LABELS: &str = "default l1\nlabel l0\n\tlinux /vmlinuz-6.1.0-rt\n\tappend root=/dev/sda1 ro\n\
                      label l1\n\tlinux /vmlinuz-6.1.0\n\tappend ro\n";

fn make_extlinux_machine() -> Machine {
    let machine = Machine::without_loader();
    machine.write("boot/extlinux/extlinux.conf", LABELS);
    machine
}

fn make_bls_machine() -> Machine {
    let machine = Machine::without_loader();
    for version in ["6.9.1", "6.12.1-rt"] {
        let text =
            format!("title F ({version})\nlinux /vmlinuz-{version}\noptions root=UUID=a ro\n");
        machine.write(&format!("boot/loader/entries/m-{version}.conf"), &text);
    }
    machine.write("etc/kernel/install.d/README", "");
    machine.program("usr/bin/kernel-install");
    machine
}

fn make_raspberry_pi() -> Machine {
    let machine = Machine::without_loader();
    machine.write("boot/firmware/config.txt", "arm_64bit=1\n");
    machine.write("boot/firmware/cmdline.txt", "root=PARTUUID=1 rootwait\n");
    machine
}

/// The name of a loader, and a machine that has it.
type NamedMachine = (&'static str, fn() -> Machine);

pub const MACHINES: [NamedMachine; 4] = [
    ("grub", Machine::debian),
    ("bls", make_bls_machine),
    ("extlinux", make_extlinux_machine),
    ("raspberry-pi", make_raspberry_pi),
];

/// The files of a machine by their path inside it.
fn inside(machine: &Machine) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
    let root = machine.path("");
    let files = machine.files().into_iter();
    files.map(|(path, it)| (path.strip_prefix(&root).unwrap().to_owned(), it)).collect()
}

/// The command lines of the entries of the kernel that gets the words.
fn command_lines(machine: &Machine) -> Vec<String> {
    let (_, found) = loaders::find(&machine.host()).unwrap().unwrap();
    found.entries.iter().filter(|it| it.version.contains("-rt")).map(|it| it.args.clone()).collect()
}

#[test]
fn a_second_apply_changes_only_the_words_and_undo_restores_the_first_text() {
    for (name, make) in MACHINES {
        let alone = make();
        apply(&alone, "3", DefaultEntry::Ours);
        let machine = make();
        let before = machine.files();
        apply(&machine, "2-3", DefaultEntry::Ours);
        assert!(command_lines(&machine).iter().any(|it| it.contains(FIRST)), "{name}");
        let again = apply(&machine, "3", DefaultEntry::Ours);
        // Nothing shows that there was another list.
        assert_eq!(inside(&machine), inside(&alone), "{name}");
        assert!(again.parameters.iter().all(|it| !it.already), "{name}");
        // The plan shows the change as a diff.
        let [change] = &again.entries[..] else { panic!("{name}: {:#?}", again.entries) };
        assert_eq!(change.removed.join(" "), FIRST, "{name}");
        assert_eq!(change.added.join(" "), SECOND, "{name}");
        // GRUB's script puts the words elsewhere in the line.
        let line = format!("{SECOND} {}", change.kept);
        let lines = command_lines(&machine);
        assert!(name == "grub" || lines.contains(&line), "{name}: {lines:?}");
        assert_eq!(change.is_copied, name == "grub");
        let text = terminal_blocks(&boot_plan_blocks(&again), 60, &unpainted);
        let kept = &change.kept;
        assert!(text.contains(&format!("    - {FIRST}\n    + {SECOND}\n      {kept}\n")), "{text}");
        let undone = write::undo(&machine.host(), &machine.store()).unwrap().unwrap();
        machine.assert_fates(&undone, &before);
        assert_eq!(before, machine.files(), "{name}");
    }
}

#[test]
fn the_history_has_every_change_and_ends_with_undo() {
    let machine = Machine::debian();
    let read = || status::status(&machine.host(), &machine.store()).unwrap();
    assert_eq!(read().history, []);
    apply(&machine, "2-3", DefaultEntry::Ours);
    apply(&machine, "3", DefaultEntry::Ours);
    // The same words again are no change.
    let plan = make_plan(
        &machine,
        &BootRequest { kernels: Some("*-rt*".to_owned()), ..request_cpus("3") },
    );
    let store = machine.store();
    let same = write::write(&machine.host(), &store, &plan, &WriteMode::default()).unwrap();
    assert!(same.files.is_empty() && same.replaced.is_empty());
    let history = read().history;
    let words = |words: &[String]| words.join(" ");
    let changes: Vec<_> = history.iter().map(|it| (words(&it.before), words(&it.after))).collect();
    assert_eq!(changes, [(String::new(), FIRST.to_owned()), (FIRST.to_owned(), SECOND.to_owned())]);
    for change in &history {
        assert_eq!(change.kernels, ["6.12.9-rt-amd64"]);
        assert_eq!(change.files, ["/etc/grub.d/07_cpushield", "/boot/grub/grub.cfg"]);
        assert!(change.at_s > 1_700_000_000);
    }
    let text = terminal_blocks(&boot_status_blocks(&read()), usize::MAX, &unpainted);
    assert!(text.contains(&format!("UTC: {FIRST} → {SECOND}\n")), "{text}");
    let json = serde_json::to_value(read()).unwrap();
    assert_eq!(json["history"][1]["after"][0], "nohz_full=3");
    write::undo(&machine.host(), &store).unwrap().unwrap();
    assert_eq!(read().history, []);
}

#[test]
fn entries_that_keep_the_default_are_replaced_too() {
    use DefaultEntry::{Kept, Ours};
    for (name, make) in MACHINES {
        for (first, second) in [(Ours, Kept), (Kept, Ours), (Kept, Kept)] {
            let machine = make();
            let before = machine.files();
            apply(&machine, "2-3", first);
            apply(&machine, "3", second);
            let changed = machine.files();
            let texts: String = changed
                .iter()
                .filter(|(path, it)| before.get(*path) != Some(it))
                .map(|(_, (_, bytes))| String::from_utf8_lossy(bytes).into_owned())
                .collect();
            assert!(texts.contains(SECOND) && !texts.contains("2-3"), "{name}: {texts}");
            write::undo(&machine.host(), &machine.store()).unwrap().unwrap();
            assert_eq!(before, machine.files(), "{name} {first:?} {second:?}");
        }
    }
}

#[test]
fn a_dry_run_shows_the_files_that_an_apply_writes() {
    for (name, make) in MACHINES {
        // A trial of another loader needs a host that simulates its program.
        let terms = [ParameterTerm::Permanent, ParameterTerm::Trial];
        for term in terms.into_iter().take(if name == "grub" { 2 } else { 1 }) {
            let machine = make();
            let asked =
                |cpus| BootRequest { kernels: Some("*-rt*".to_owned()), ..request_cpus(cpus) };
            let first = make_plan(&machine, &asked("2-3"));
            let (host, store) = (machine.host(), machine.store());
            write::write(&host, &store, &first, &WriteMode::default()).unwrap();
            let plan = make_plan(&machine, &asked("1-3"));
            let mode = WriteMode { term, ..WriteMode::default() };
            let shown = write::preview(&host, &store, &plan, &mode).unwrap();
            write::write(&host, &store, &plan, &mode).unwrap();
            assert!(!shown.edits.is_empty(), "{name}");
            for edit in &shown.edits {
                let text = String::from_utf8(edit.bytes.clone()).unwrap();
                assert_eq!(
                    machine.read(edit.path.trim_start_matches('/')),
                    text,
                    "{name} {term:?} {}",
                    edit.path
                );
            }
            let has_panic = shown
                .edits
                .iter()
                .any(|edit| String::from_utf8_lossy(&edit.bytes).contains(write::PANIC));
            assert_eq!(has_panic, term == ParameterTerm::Trial, "{name}");
        }
        for choices in CHOICES {
            let (machine, plan, mode) = make_second_plan(make, choices);
            let (host, before) = (machine.host(), inside(&machine));
            let shown = write::preview(&host, &machine.store(), &plan, &mode).unwrap();
            write::write(&host, &machine.store(), &plan, &mode).unwrap();
            let mut after = inside(&machine);
            let paths = shown.edits.iter().map(|edit| (&edit.path, Some(edit.bytes.clone())));
            let removed = shown.removed.iter().map(|path| (path, None));
            for (path, bytes) in paths.chain(removed) {
                let inner = PathBuf::from(path.trim_start_matches('/'));
                let text = after.remove(&inner).map(|(_, bytes)| bytes);
                assert_eq!(text, bytes, "{name} {choices:?} {path}");
                assert_ne!(text, before.get(&inner).map(|(_, bytes)| bytes.clone()), "{path}");
            }
            let is_shown = |path: &PathBuf| {
                !path.ends_with("grub.cfg") && !path.starts_with("var") && !shown.edits.is_empty()
            };
            for (path, now) in after.iter().filter(|(path, _)| is_shown(path)) {
                assert_eq!(before.get(path), Some(now), "{name} {choices:?} {}", path.display());
            }
        }
    }
}

/// The same kernels, and the words of the first apply without the last one.
const FEWER_WORDS: &str = "*-r[t]*";

/// The default entry and the kernels of an apply.
type ApplyChoice = (DefaultEntry, &'static str);

/// Two applies, of which the second also writes and removes other files, or leaves words out.
const CHOICES: [[ApplyChoice; 2]; 5] = {
    use DefaultEntry::{Kept, Ours};
    [
        [(Ours, "*-rt*"), (Ours, "*-rt*")],
        [(Ours, "*-rt*"), (Ours, FEWER_WORDS)],
        [(Ours, "*-rt*"), (Kept, "*-rt*")],
        [(Kept, "*-rt*"), (Ours, "*-rt*")],
        [(Ours, "*-rt*"), (Ours, "*")],
    ]
};

/// A machine after the first apply, and the plan of the second one.
fn make_second_plan(
    make: fn() -> Machine,
    [(first, first_kernels), (second, second_kernels)]: [ApplyChoice; 2],
) -> (Machine, BootPlan, WriteMode) {
    let machine = make();
    let asked = |cpus, kernels: &str| BootRequest {
        kernels: Some(kernels.to_owned()),
        ..request_cpus(cpus)
    };
    let plan = make_plan(&machine, &asked("2-3", first_kernels));
    let mode = WriteMode { default_entry: first, ..WriteMode::default() };
    write::write(&machine.host(), &machine.store(), &plan, &mode).unwrap();
    let fewer = second_kernels == FEWER_WORDS;
    let mut asked = asked(if fewer { "2-3" } else { "3" }, second_kernels);
    asked.shield.tunables.set("irqaffinity", !fewer);
    let plan = make_plan(&machine, &asked);
    (machine, plan, WriteMode { default_entry: second, ..WriteMode::default() })
}

#[test]
fn a_second_apply_killed_or_refused_at_any_write_loses_nothing() {
    for (name, make) in MACHINES {
        let before = inside(&make());
        for choices in CHOICES {
            let what = format!("{name} {choices:?}");
            let (machine, plan, mode) = make_second_plan(make, choices);
            let host = machine.host();
            write::write(&host, &machine.store(), &plan, &mode).unwrap();
            let count = host.writes();
            assert!(count >= 1, "{what}");
            for at in 0..count {
                let (machine, plan, mode) = make_second_plan(make, choices);
                let (between, store) = (inside(&machine), machine.store());
                let read_status = || {
                    serde_json::to_value(status::status(&machine.host(), &store).unwrap()).unwrap()
                };
                let status = read_status();
                // A refusal restores what the first apply wrote.
                let refused = machine.host().failing(InjectedFault::Refuse { at, errno: 28 });
                let error = write::write(&refused, &store, &plan, &mode).unwrap_err();
                assert!(matches!(error, BootError::Failed { undone: None, .. }), "{what}: {error}");
                assert_eq!(between, inside(&machine), "{what}: refused at write {at}");
                assert_eq!(status, read_status(), "{what}: refused at write {at}");
                // After a kill the menu is whole, and undo restores the first text.
                let killed = machine.host().failing(InjectedFault::Stop { at });
                let error = write::write(&killed, &store, &plan, &mode).unwrap_err();
                assert!(error.is_stop(), "{what}: {error}");
                loaders::find(&machine.host()).unwrap().unwrap();
                let undone = write::undo(&machine.host(), &store).unwrap().unwrap();
                assert_eq!(undone.notes, [], "{what}: killed at write {at}");
                assert_eq!(before, inside(&machine), "{what}: killed at write {at}");
            }
        }
    }
}

/// For example a kernel is installed while `grub-mkconfig` runs.
#[test]
fn a_change_of_another_process_during_a_second_apply_that_fails_stays() {
    let [.., kept_then_ours, _] = CHOICES;
    let (machine, plan, mode) = make_second_plan(Machine::debian, kept_then_ours);
    let host = machine.host().with_programs(|root, words, _| {
        let ["grub-mkconfig"] = words else { return None };
        let menu = mkconfig(root);
        let path = root.join("boot/grub/grub.cfg");
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(path, text + "# theirs\n").unwrap();
        Some(menu)
    });
    let error = write::write(&host, &machine.store(), &plan, &mode).unwrap_err();
    let BootError::Failed { undone: Some(why), .. } = &error else { panic!("{error}") };
    let theirs = "another process changed these files, so they were not restored: /boot/grub";
    assert!(why.contains(theirs), "{why}");
    assert!(machine.read("boot/grub/grub.cfg").ends_with("# theirs\n"));
    // The scripts are those of the first apply.
    assert!(!machine.path("etc/grub.d/07_cpushield").exists());
    assert!(machine.read("etc/grub.d/42_cpushield").contains(FIRST));
}

#[test]
fn a_file_in_the_place_of_one_of_cpushield_refuses_a_second_apply() {
    let (machine, plan, mode) = make_second_plan(Machine::debian, CHOICES[0]);
    machine.write("etc/grub.d/07_cpushield", "#!/bin/sh\n# theirs\n");
    let between = inside(&machine);
    let error = write::write(&machine.host(), &machine.store(), &plan, &mode).unwrap_err();
    assert!(matches!(error, BootError::Foreign { .. }), "{error}");
    assert_eq!(between, inside(&machine));
}

#[test]
fn a_change_of_another_program_between_two_applies_stays() {
    let machine = make_extlinux_machine();
    let path = "boot/extlinux/extlinux.conf";
    apply(&machine, "2-3", DefaultEntry::Ours);
    machine.write(path, &machine.read(path).replace("ro\n", "ro theirs\n"));
    apply(&machine, "3", DefaultEntry::Ours);
    let theirs = LABELS.replace("ro\n", "ro theirs\n");
    assert_eq!(machine.read(path), theirs.replacen("append ", &format!("append {SECOND} "), 1));
    write::undo(&machine.host(), &machine.store()).unwrap().unwrap();
    assert_eq!(machine.read(path), theirs);
    // A kernel was installed in between.
    let machine = Machine::debian();
    apply(&machine, "2-3", DefaultEntry::Ours);
    machine.install("6.13.1-rt-amd64", true);
    machine.update_grub();
    apply(&machine, "3", DefaultEntry::Ours);
    let own: Vec<String> =
        command_lines(&machine).into_iter().filter(|it| it.contains("nohz_full")).collect();
    assert!(own.len() == 2 && own.iter().all(|it| it.contains(SECOND)), "{own:?}");
    write::undo(&machine.host(), &machine.store()).unwrap().unwrap();
    let bare = machine.read("boot/grub/grub.cfg");
    machine.update_grub();
    assert_eq!(bare, machine.read("boot/grub/grub.cfg"));
}

#[test]
fn a_kernel_that_is_no_longer_chosen_loses_the_words() {
    let machine = make_bls_machine();
    let before = machine.files();
    let all = BootRequest { kernels: Some("*".to_owned()), ..request_cpus("2-3") };
    let plan = make_plan(&machine, &all);
    let store = machine.store();
    write::write(&machine.host(), &store, &plan, &WriteMode::default()).unwrap();
    assert!(machine.read("boot/loader/entries/m-6.9.1.conf").contains(FIRST));
    apply(&machine, "3", DefaultEntry::Ours);
    let other = machine.read("boot/loader/entries/m-6.9.1.conf");
    assert!(other.contains("options root=UUID=a ro"), "{other}");
    write::undo(&machine.host(), &store).unwrap().unwrap();
    assert_eq!(before, machine.files());
}

#[test]
fn the_report_names_the_words_that_were_replaced() {
    let machine = Machine::debian();
    apply(&machine, "2-3", DefaultEntry::Ours);
    let asked = BootRequest { kernels: Some("*-rt*".to_owned()), ..request_cpus("3") };
    let plan = make_plan(&machine, &asked);
    let written =
        write::write(&machine.host(), &machine.store(), &plan, &WriteMode::default()).unwrap();
    let text = terminal_blocks(&boot_written_blocks(&written), usize::MAX, &unpainted);
    let wanted = format!("Written: {SECOND}\n  for 6.12.9-rt-amd64\n  instead of: {FIRST}\n");
    assert!(text.contains(&wanted), "{text}");
}
