//! Boot parameters on machines made of files: written for the chosen kernels only, and undone byte
//! for byte, whichever write is refused or the last one. This test replaces the programs of the
//! loader; the generator of cpushield runs in a real shell.

mod by_hand;
mod data;
mod early;
mod grub;
mod init;
mod kexec;
mod once;
mod others;
mod settle;
mod trial;

use cpushield::boot::grub::generator::{self, KernelRule};
use cpushield::boot::plan::{BootRequest, plan};
use cpushield::boot::write::{self, WriteMode};
use cpushield::boot::{BootError, BootPlan, FileFate, loaders, status};
use cpushield::policy::ShieldRequest;
use cpushield::survey::survey;
use cpushield_linux::{Host, InjectedFault};
use grub::Machine;

fn planned(host: &Host, asked: &BootRequest) -> Result<BootPlan, BootError> {
    let machine = survey(host, &[]);
    plan(host, &machine, asked, loaders::find(host)?.as_ref())
}

fn cpus(list: &str) -> BootRequest {
    let wish = ShieldRequest { cpus: Some(list.parse().unwrap()), ..ShieldRequest::default() };
    BootRequest { shield: wish, kernels: None }
}

fn words(plan: &BootPlan) -> Vec<&str> {
    plan.parameters.iter().map(|it| it.word.as_str()).collect()
}

#[test]
fn rt_kernels_get_the_parameters_and_the_others_stay_unchanged() {
    let machine = Machine::debian();
    let before = machine.files();
    let plan = planned(&machine.host(), &BootRequest::default()).unwrap();
    assert_eq!(words(&plan), ["nohz_full=1-3", "rcu_nocbs=1-3"]);
    let written =
        write::write(&machine.host(), &machine.store(), &plan, &WriteMode::default()).unwrap();
    assert_eq!(written.kernels, ["6.12.9-rt-amd64"]);
    assert!(written.next_has, "{written:#?}");
    assert_eq!(written.entry.as_deref(), Some("cpushield-6.12.9-rt-amd64"));
    let (_, found) = loaders::find(&machine.host()).unwrap().unwrap();
    for entry in &found.entries {
        let has = entry.args.contains("nohz_full=1-3 rcu_nocbs=1-3");
        assert_eq!(has, entry.ours, "{entry:#?}");
        assert_eq!(entry.ours, entry.id.as_deref() == Some("cpushield-6.12.9-rt-amd64"));
    }
    assert_eq!(found.entries.iter().filter(|entry| entry.ours).count(), 1);
    // A second time nothing is written, and other parameters are refused.
    let again = machine.host();
    assert!(
        write::write(&again, &machine.store(), &plan, &WriteMode::default())
            .unwrap()
            .files
            .is_empty()
    );
    assert_eq!(again.writes(), 0);
    let other = planned(&machine.host(), &cpus("3")).unwrap();
    let refused =
        write::write(&machine.host(), &machine.store(), &other, &WriteMode::default()).unwrap_err();
    assert!(matches!(refused, BootError::Active { .. }), "{refused}");
    let undone = write::undo(&machine.host(), &machine.store()).unwrap().unwrap();
    assert!(undone.files.iter().all(|(_, fate)| *fate == FileFate::Restored), "{undone:#?}");
    assert_eq!(before, machine.files());
    assert_eq!(write::undo(&machine.host(), &machine.store()).unwrap(), None);
}

/// The output equals what earlier versions wrote, or a second `apply` would differ.
#[test]
fn the_generator_output_is_unchanged() {
    let words = ["nohz_full=1-3", "rcu_nocbs=1-3"].map(str::to_owned);
    let script = generator::script(&KernelRule::Realtime, &words);
    assert_eq!(script, include_str!("07_cpushield"));
}

#[test]
fn a_kernel_installed_later_gets_the_parameters_and_undo_rebuilds_the_menu() {
    let machine = Machine::debian();
    let plan = planned(&machine.host(), &BootRequest::default()).unwrap();
    write::write(&machine.host(), &machine.store(), &plan, &WriteMode::default()).unwrap();
    machine.install("6.13.1-rt-amd64", true);
    machine.install("6.13.1-amd64", false);
    machine.update_grub();
    let (_, found) = loaders::find(&machine.host()).unwrap().unwrap();
    let ours: Vec<&str> =
        found.entries.iter().filter(|e| e.ours).map(|e| e.version.as_str()).collect();
    assert_eq!(ours, ["6.13.1-rt-amd64", "6.12.9-rt-amd64"]);
    let undone = write::undo(&machine.host(), &machine.store()).unwrap().unwrap();
    assert_eq!(undone.files.last().unwrap().1, FileFate::MadeAnew);
    let cfg = machine.read("boot/grub/grub.cfg");
    assert!(!cfg.contains("nohz_full") && cfg.contains("6.13.1-rt-amd64"), "{cfg}");
}

#[test]
fn without_an_rt_kernel_the_newest_or_the_saved_one_gets_the_parameters() {
    let machine = Machine::with(&[("6.12.9-amd64", false), ("6.1.4-amd64", false)]);
    let chosen = |machine: &Machine| {
        let plan = planned(&machine.host(), &cpus("2-3")).unwrap();
        assert_eq!(words(&plan), ["nohz_full=2-3", "rcu_nocbs=2-3", "irqaffinity=0-1"]);
        write::write(
            &machine.host(),
            &machine.store(),
            &plan,
            &WriteMode { keep_default: true, ..WriteMode::default() },
        )
        .unwrap()
    };
    let written = chosen(&machine);
    assert_eq!((written.kernels, written.next_has), (vec!["6.12.9-amd64".to_owned()], false));
    machine.install("6.13.1-amd64", false);
    machine.update_grub();
    let (_, found) = loaders::find(&machine.host()).unwrap().unwrap();
    let ours: Vec<&str> =
        found.entries.iter().filter(|e| e.ours).map(|e| e.version.as_str()).collect();
    assert_eq!(ours, ["6.13.1-amd64"]);

    let machine = Machine::with(&[("6.12.9-amd64", false), ("6.1.4-amd64", false)]);
    machine.save("saved_entry", "gnulinux-advanced-ab>gnulinux-6.1.4-amd64-advanced-ab");
    assert_eq!(chosen(&machine).kernels, ["6.1.4-amd64"]);
}

#[test]
fn a_boot_apply_killed_or_refused_at_any_write_is_reverted_and_the_menu_is_complete() {
    let count = {
        let (machine, host) = (Machine::debian(), Machine::debian());
        let (host, plan) =
            (host.host(), planned(&machine.host(), &BootRequest::default()).unwrap());
        write::write(&host, &machine.store(), &plan, &WriteMode::default()).unwrap();
        host.writes()
    };
    assert!(count >= 2);
    for at in 0..count {
        let machine = Machine::debian();
        let before = machine.files();
        let plan = planned(&machine.host(), &BootRequest::default()).unwrap();
        let killed = machine.host().failing(InjectedFault::Stop { at });
        let error =
            write::write(&killed, &machine.store(), &plan, &WriteMode::default()).unwrap_err();
        assert!(matches!(error, BootError::Killed), "{at}: {error}");
        // The menu that GRUB reads is the old one or the new one.
        loaders::find(&machine.host()).unwrap().unwrap();
        let refused = write::write(&machine.host(), &machine.store(), &plan, &WriteMode::default())
            .unwrap_err();
        assert!(matches!(refused, BootError::Unfinished), "{at}: {refused}");
        write::undo(&machine.host(), &machine.store()).unwrap().unwrap();
        assert_eq!(before, machine.files(), "killed at write {at}");

        let refused = machine.host().failing(InjectedFault::Refuse { at, errno: 28 });
        let error =
            write::write(&refused, &machine.store(), &plan, &WriteMode::default()).unwrap_err();
        assert!(matches!(error, BootError::Failed { undone: None, .. }), "{at}: {error}");
        assert_eq!(before, machine.files(), "refused at write {at}");
        assert_eq!(write::undo(&machine.host(), &machine.store()).unwrap(), None);

        // Undo, killed at its n-th write and called again.
        write::write(&machine.host(), &machine.store(), &plan, &WriteMode::default()).unwrap();
        let killed = machine.host().failing(InjectedFault::Stop { at });
        write::undo(&killed, &machine.store()).unwrap_err();
        write::undo(&machine.host(), &machine.store()).unwrap().unwrap();
        assert_eq!(before, machine.files(), "undo killed at write {at}");
    }
}

#[test]
fn unsafe_or_contradictory_parameters_are_refused_before_any_write() {
    let machine = Machine::debian();
    let before = machine.files();
    let refused = |asked: &BootRequest| planned(&machine.host(), asked).unwrap_err();
    for list in ["0-3", "9", "0"] {
        assert!(matches!(refused(&cpus(list)), BootError::Refused(_) | BootError::BootCpu { .. }));
    }
    let kernels =
        |glob: &str| BootRequest { kernels: Some(glob.to_owned()), ..BootRequest::default() };
    assert!(matches!(refused(&kernels("a'b")), BootError::NotPlain { .. }));
    assert!(matches!(refused(&kernels("5.*")), BootError::NoKernel { .. }));
    let on = |name: &str| {
        let mut asked = BootRequest::default();
        asked.shield.tunables.insert(name.to_owned(), true);
        asked
    };
    assert!(matches!(refused(&on("mitigations")), BootError::Never { .. }));
    assert!(matches!(refused(&on("skew-tik")), BootError::NoSuchParameter { .. }));
    machine.write("etc/default/grub", "GRUB_CMDLINE_LINUX=\"nohz_full=2\"\n");
    machine.update_grub();
    let error = refused(&BootRequest::default());
    match &error {
        BootError::Conflict { place, .. } => assert_eq!(place, "/etc/default/grub:1"),
        error => panic!("{error}"),
    }
    machine.write("etc/default/grub", "");
    machine.update_grub();
    assert_eq!(before, machine.files());
}

#[test]
fn before_5_18_nohz_full_is_not_written_with_a_different_isolcpus_list() {
    let given = |version: &str, line: &str| {
        let machine = Machine::with(&[(version, true)]);
        machine.write("etc/default/grub", &format!("GRUB_CMDLINE_LINUX=\"{line}\"\n"));
        machine.update_grub();
        machine
    };
    for line in ["isolcpus=2-3", "isolcpus=managed_irq,domain,3 quiet"] {
        let machine = given("5.10.0-rt-amd64", line);
        let before = machine.files();
        let error = planned(&machine.host(), &BootRequest::default()).unwrap_err();
        let BootError::ListsDiffer { place, .. } = &error else { panic!("{error}") };
        assert_eq!(place, "/etc/default/grub:1");
        let text = error.to_string();
        let isolcpus = line.split(' ').next().unwrap();
        let ignores = format!("the kernel ignores {isolcpus}: nohz_full=1-3 comes first");
        assert!(text.contains(&ignores), "{text}");
        assert_eq!(before, machine.files());
    }
    // The same list is accepted, and the hint says how to get it.
    let machine = given("5.10.0-rt-amd64", "isolcpus=2-3");
    let error = planned(&machine.host(), &BootRequest::default()).unwrap_err();
    let failure = cpushield::failure::Failure::from(error).to_string();
    assert!(failure.contains("--cpus 2-3"), "{failure}");
    assert_eq!(words(&planned(&machine.host(), &cpus("2-3")).unwrap())[0], "nohz_full=2-3");
    // Later kernels accept both, and the plan says so.
    let machine = given("5.18.0-rt-amd64", "isolcpus=2-3");
    let warnings = planned(&machine.host(), &BootRequest::default()).unwrap().warnings;
    let taken = "nohz_full=1-3 and isolcpus=2-3 are different lists: this kernel takes both";
    assert!(warnings.iter().any(|it| it.contains(taken)), "{warnings:#?}");
}

#[test]
fn status_names_the_isolation_parameters_that_the_running_kernel_rejected() {
    let machine = Machine::debian();
    let line = "ro isolcpus=1 nohz_full=1-3 isolcpus=2 irqaffinity=0-1\n";
    machine.write("proc/cmdline", line);
    let status = status::status(&machine.host(), &machine.store()).unwrap();
    let text = cpushield::report::boot_status_text(&status);
    for fault in [
        "the kernel ignores isolcpus=2: isolcpus=1 comes first and names other CPUs",
        "irqaffinity=0-1 sends interrupts to CPU 1, which isolcpus=1 isolates",
    ] {
        assert!(text.contains(fault), "{text}");
    }
}

#[test]
fn unknown_or_foreign_files_are_left_alone() {
    let machine = Machine::debian();
    let plan = planned(&machine.host(), &BootRequest::default()).unwrap();
    machine.write("etc/grub.d/07_cpushield", "#!/bin/sh\necho mine\n");
    let error =
        write::write(&machine.host(), &machine.store(), &plan, &WriteMode::default()).unwrap_err();
    assert!(matches!(error, BootError::Foreign { .. }), "{error}");
    machine.remove("etc/grub.d/07_cpushield");
    // A manual edit of grub.cfg would be lost.
    let cfg = machine.read("boot/grub/grub.cfg");
    machine.write("boot/grub/grub.cfg", &format!("{cfg}# by hand\n"));
    let before = machine.files();
    let error =
        write::write(&machine.host(), &machine.store(), &plan, &WriteMode::default()).unwrap_err();
    assert!(error.to_string().contains("# by hand"), "{error}");
    assert_eq!(before, machine.files());
    machine.write("boot/grub/grub.cfg", &format!("{cfg}menuentry 'x' {{\n"));
    let error = planned(&machine.host(), &BootRequest::default()).unwrap_err();
    let line = cfg.lines().count() + 1;
    assert!(error.to_string().contains(&format!("line {line}: ")), "{error}");
}

#[test]
fn status_shows_what_is_written_booted_and_in_force() {
    let machine = Machine::debian();
    let read_status = || status::status(&machine.host(), &machine.store()).unwrap();
    assert!(read_status().words.is_empty());
    let plan = planned(&machine.host(), &BootRequest::default()).unwrap();
    write::write(&machine.host(), &machine.store(), &plan, &WriteMode::default()).unwrap();
    let seen = read_status();
    let word = &seen.words[0];
    assert_eq!((word.written, word.booted, word.in_force), (true, false, Some(false)));
    assert_eq!(seen.kernels, ["6.12.9-rt-amd64"]);
    assert!(seen.differs[0].contains("not booted with nohz_full=1-3 rcu_nocbs=1-3"), "{seen:#?}");
    machine.write("proc/cmdline", "ro nohz_full=1-3 rcu_nocbs=1-3\n");
    machine.write("sys/devices/system/cpu/nohz_full", "1-3\n");
    let seen = read_status();
    assert!(seen.words.iter().all(|word| word.booted) && seen.differs.is_empty(), "{seen:#?}");
    assert_eq!(seen.words[0].in_force, Some(true));
    // The parameters are booted, but the kernel rejected them.
    machine.write("sys/devices/system/cpu/nohz_full", "2\n");
    assert!(look().differs[0].contains("not in force"));
    // Its log says why, among messages of programs.
    machine.write(
        "dev/kmsg",
        "5,0,0,-;Kernel command line: ro nohz_full=1-3 rcu_nocbs=1-3\n\
         4,1,0,-;Housekeeping: nohz_full= must match isolcpus=\n\
         30,2,9,-;Housekeeping: by hand\n",
    );
    let seen = read_status();
    let message = "Housekeeping: nohz_full= must match isolcpus=";
    assert_eq!(
        (&seen.words[0].refusals[..], seen.words[1].refusals.len()),
        (&[message.into()][..], 0)
    );
    assert_eq!(seen.differs[1], format!("the kernel reported for nohz_full: {message}"));
}

#[test]
fn a_trial_boots_once_and_is_permanent_when_it_holds() {
    let machine = Machine::debian();
    let before = machine.files();
    let plan = planned(&machine.host(), &BootRequest::default()).unwrap();
    let written = write::write(&machine.host(), &machine.store(), &plan, &on_trial()).unwrap();
    assert!(written.next_has && written.trial.is_some(), "{written:#?}");
    assert!(written.next.unwrap().contains("for one boot"));
    let early = trial::conclude(&machine.host(), &machine.store(), &[]).unwrap_err();
    assert!(matches!(early, BootError::NotBooted { .. }), "{early}");
    // GRUB has consumed the one-shot entry, and the default is the old entry again.
    machine.save("next_entry", "");
    let (_, found) = loaders::find(&machine.host()).unwrap().unwrap();
    assert!(!found.entries[found.next.unwrap()].ours);
    assert!(found.entries.iter().any(|entry| entry.ours && entry.args.contains("panic=30")));
    machine.write("proc/sys/kernel/random/boot_id", "b2\n");
    machine.write("proc/cmdline", "ro nohz_full=1-3 rcu_nocbs=1-3 panic=30\n");
    machine.write("sys/devices/system/cpu/nohz_full", "1-3\n");
    let end = trial::conclude(&machine.host(), &machine.store(), &[]).unwrap();
    assert_eq!(end.end, SettledAs::Permanent, "{end:#?}");
    let (_, found) = loaders::find(&machine.host()).unwrap().unwrap();
    assert!(found.entries[found.next.unwrap()].ours);
    assert!(found.entries.iter().all(|entry| !entry.args.contains("panic=30")));
    write::undo(&machine.host(), &machine.store()).unwrap().unwrap();
    let now = machine.files();
    let boot = |files: &std::collections::BTreeMap<_, _>| {
        let of_loader = |path: &std::path::PathBuf| {
            let path = path.to_string_lossy();
            path.contains("/etc/") || path.contains("/boot/") && !path.ends_with("grubenv")
        };
        files
            .iter()
            .filter(|(path, _)| of_loader(path))
            .map(|(a, b): (&_, &(u32, Vec<u8>))| (a.clone(), b.clone()))
            .collect::<Vec<_>>()
    };
    assert_eq!(boot(&before), boot(&now));
}

#[test]
fn a_crashed_trial_boot_is_not_reported_as_running() {
    let machine = Machine::debian();
    let plan = planned(&machine.host(), &BootRequest::default()).unwrap();
    write::write(&machine.host(), &machine.store(), &plan, &on_trial()).unwrap();
    let state = || status::status(&machine.host(), &machine.store()).unwrap();
    assert_eq!(state().trial_state, Some(TrialState::Armed));
    // Booted, but GRUB still has the one-shot entry.
    machine.write("proc/sys/kernel/random/boot_id", "b2\n");
    assert_eq!(state().trial_state, Some(TrialState::NotTaken));
    // GRUB consumed it, it crashed before the conclusion, and the old entry booted.
    machine.save("next_entry", "");
    machine.write("proc/sys/kernel/random/boot_id", "b3\n");
    machine.write("proc/stat", "cpu  1 2 3\nbtime 1778335402\n");
    let status = state();
    assert_eq!(status.trial_state, Some(TrialState::FellBack { since_s: Some(1_778_335_402) }));
    assert_eq!(status.differs, [""; 0]);
    let text = cpushield::report::boot_status_text(&status);
    let said = "Trial failed: cpushield-6.12.9-rt-amd64 was booted and the boot did not end well. \
                The machine fell back: another entry runs since 2026-05-09 14:03:22 UTC.";
    assert!(text.contains(said) && text.contains("cpushield boot undo"), "{text}");
    assert!(!text.contains("boot its entry"), "{text}");
    // The same boot with the parameters is the trial itself.
    machine.write("proc/cmdline", "ro nohz_full=1-3 rcu_nocbs=1-3 panic=30\n");
    assert_eq!(state().trial_state, Some(TrialState::Booted));
}

#[test]
fn if_no_parameter_applies_nothing_is_written_and_the_reason_is_given() {
    let machine = Machine::with(&[("6.12.9-amd64", false)]);
    machine.write("boot/config-6.12.9-amd64", "# CONFIG_NO_HZ_FULL is not set\nCONFIG_HZ=250\n");
    let before = machine.files();
    let plan = planned(&machine.host(), &BootRequest::default()).unwrap();
    assert_eq!(words(&plan), [""; 0]);
    let refused = write::write(&machine.host(), &machine.store(), &plan, &WriteMode::default());
    let preview = write::preview(&machine.host(), &plan, false).map(drop);
    for error in [refused.unwrap_err(), preview.unwrap_err()] {
        let text = error.to_string();
        assert!(text.contains("nohz-full: built without CONFIG_NO_HZ_FULL"), "{text}");
        assert!(text.contains("rcu-nocbs: built without CONFIG_RCU_NOCB_CPU"), "{text}");
    }
    let text = cpushield::report::boot_plan_text(&plan, 80);
    assert!(text.contains("none apply") && !text.contains("gets them"), "{text}");
    assert_eq!(before, machine.files());
    // Parameters that the loader passes already are no such case, and cause no write either.
    let machine = Machine::debian();
    let all = "GRUB_CMDLINE_LINUX=\"nohz_full=1-3 rcu_nocbs=1-3\"\n";
    machine.write("etc/default/grub", all);
    machine.update_grub();
    let plan = planned(&machine.host(), &BootRequest::default()).unwrap();
    assert_eq!(write::preview(&machine.host(), &plan, false).unwrap(), Default::default());
    let written =
        write::write(&machine.host(), &machine.store(), &plan, &WriteMode::default()).unwrap();
    assert_eq!(written.files, [""; 0]);
}

#[test]
fn the_first_kernel_of_a_menu_is_not_called_the_newest() {
    let machine = Machine::with(&[("6.12.9-amd64", false), ("6.1.4-amd64", false)]);
    let plan = planned(&machine.host(), &BootRequest::default()).unwrap();
    let text = cpushield::report::boot_plan_text(&plan, 200);
    let said = "there is no PREEMPT_RT kernel: the first one of the menu gets the parameters";
    assert!(text.contains(said) && !text.contains("newe"), "{text}");
}

#[test]
fn a_trial_that_does_not_hold_is_reverted_byte_for_byte() {
    let machine = Machine::debian();
    machine.save("saved_entry", "0");
    let before = machine.files();
    let plan = planned(&machine.host(), &BootRequest::default()).unwrap();
    write::write(&machine.host(), &machine.store(), &plan, &on_trial()).unwrap();
    // The trial hung, the machine was reset, and the old entry booted.
    let env = machine.read("boot/grub/grubenv");
    let taken = env.replace("next_entry=cpushield-6.12.9-rt-amd64", "next_entry=");
    machine.write("boot/grub/grubenv", &format!("{taken:#<1024}"));
    machine.write("proc/sys/kernel/random/boot_id", "b2\n");
    let end = trial::conclude(&machine.host(), &machine.store(), &[]).unwrap();
    assert_eq!(end.end, SettledAs::TakenBack, "{end:#?}");
    machine.write("proc/sys/kernel/random/boot_id", "b1\n");
    assert_eq!(before, machine.files());
    let told = status::status(&machine.host(), &machine.store()).unwrap();
    assert_eq!(told.last_trial.unwrap().end, SettledAs::TakenBack);
    assert!(matches!(
        trial::conclude(&machine.host(), &machine.store(), &[]).unwrap_err(),
        BootError::NoTrial
    ));
}

#[test]
fn a_trial_in_force_whose_shield_does_not_hold_is_reverted_byte_for_byte() {
    let machine = Machine::debian();
    let before = machine.files();
    let plan = planned(&machine.host(), &BootRequest::default()).unwrap();
    assert_eq!(plan.proves.to_string(), "3");
    assert_eq!(planned(&machine.host(), &cpus("2-3")).unwrap().proves.to_string(), "2-3");
    write::write(&machine.host(), &machine.store(), &plan, &on_trial()).unwrap();
    let boot = |id: &str, line: &str, nohz: &str| {
        machine.write("proc/sys/kernel/random/boot_id", id);
        machine.write("proc/cmdline", line);
        machine.write("sys/devices/system/cpu/nohz_full", nohz);
    };
    boot("b2\n", "ro nohz_full=1-3 rcu_nocbs=1-3 panic=30\n", "1-3\n");
    let seen = trial::look(&machine.host(), &machine.store()).unwrap();
    assert_eq!((seen.proves.to_string().as_str(), seen.against.len()), ("3", 0));
    let leaks = ["the shield leaks on CPU 3, tick 12 times".to_owned()];
    let end = trial::conclude(&machine.host(), &machine.store(), &leaks).unwrap();
    assert_eq!(end.end, SettledAs::TakenBack);
    assert!(end.why.contains("does not hold: the shield leaks on CPU 3"), "{}", end.why);
    boot("b1\n", "BOOT_IMAGE=/boot/vmlinuz-6.12.9-rt-amd64 root=UUID=ab ro quiet\n", "  (null)\n");
    let mut now = machine.files();
    // GRUB's block was made by the trial, and is empty again.
    let block = now.keys().find(|path| path.ends_with("grubenv")).cloned().unwrap();
    now.remove(&block);
    assert_eq!(before, now);
}

#[test]
fn if_grub_cannot_clear_the_one_shot_entry_no_trial_is_made() {
    for (what, answer) in [("abstraction", "lvm"), ("fs", "btrfs")] {
        let machine = Machine::debian();
        let before = machine.files();
        let plan = planned(&machine.host(), &BootRequest::default()).unwrap();
        let host = machine.probing(what, answer);
        let error = write::write(&host, &machine.store(), &plan, &on_trial()).unwrap_err();
        assert!(matches!(error, BootError::Failed { undone: None, .. }), "{error}");
        assert!(error.to_string().contains(answer), "{error}");
        assert_eq!(before, machine.files(), "{what}");
    }
}

#[test]
fn a_trial_killed_at_any_write_leaves_the_old_default_and_is_reverted() {
    let count = {
        let machine = Machine::debian();
        let (host, plan) =
            (machine.host(), planned(&machine.host(), &BootRequest::default()).unwrap());
        write::write(&host, &machine.store(), &plan, &on_trial()).unwrap();
        host.writes()
    };
    for at in 0..count {
        let machine = Machine::debian();
        machine.save("saved_entry", "0");
        let before = machine.files();
        let plan = planned(&machine.host(), &BootRequest::default()).unwrap();
        let killed = machine.host().failing(InjectedFault::Stop { at });
        write::write(&killed, &machine.store(), &plan, &on_trial()).unwrap_err();
        let (_, found) = loaders::find(&machine.host()).unwrap().unwrap();
        assert!(!found.entries[found.next.unwrap()].ours, "{at}");
        write::undo(&machine.host(), &machine.store()).unwrap().unwrap();
        assert_eq!(before, machine.files(), "killed at write {at}");
    }
}
