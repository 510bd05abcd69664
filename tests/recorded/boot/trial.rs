//! Trials: the new entry boots once, becomes permanent when the shield holds, and is removed again
//! otherwise, even when the trial is killed at any write.

use super::grub::Machine;
use super::{make_plan, request_cpus};
use cpushield::boot::plan::BootRequest;
use cpushield::boot::write::{self, WriteMode};
use cpushield::boot::{
    BootError, NextReason, SettledAs, TrialDoubt, TrialGoal, TrialReason, TrialState,
    goal_of_this_boot, loaders, status, trial, uptime_s,
};
use cpushield::report::blocks::{terminal_blocks, unpainted};
use cpushield::report::boot_status_blocks;
use cpushield_simulator::{InjectedFault, Simulated};

fn make_trial_mode() -> WriteMode {
    WriteMode { term: write::ParameterTerm::Trial, ..WriteMode::default() }
}

#[test]
fn a_trial_boots_once_and_becomes_permanent_when_it_passes() {
    let machine = Machine::debian();
    let before = machine.files();
    let plan = make_plan(&machine.host(), &BootRequest::default()).unwrap();
    let written =
        write::write(&machine.host(), &machine.store(), &plan, &make_trial_mode()).unwrap();
    assert!(written.next_has && written.trial.is_some(), "{written:#?}");
    assert!(matches!(written.next.unwrap().why, NextReason::ForOneBoot { .. }));
    let early = trial::conclude(&machine.host(), &machine.store(), &[]).unwrap_err();
    assert!(matches!(early, BootError::NotBooted { .. }), "{early}");
    // GRUB has used next_entry, and the default is the old entry again.
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
fn a_machine_is_reached_by_a_login_and_a_network() {
    let machine = Machine::debian();
    let goal = || goal_of_this_boot(&machine.host());
    assert_eq!(goal(), None);
    let fields = "S 1 77 77 0 -1 4194560 0 0 0 0 0 0 0 0 20 0 1 0 500 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 \
                  0 17 0 0 0 0 0 0";
    machine.write("proc/77/task/77/stat", &format!("77 (agetty) {fields}\n"));
    assert_eq!(goal(), Some(TrialGoal::Login));
    let header = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\n";
    let route = "eth0\t00000000\t0202000A\t0003\t0\t0\t100\t00000000\t0\n";
    machine.write("proc/net/route", &format!("{header}{route}"));
    machine.write("sys/class/net/eth0/operstate", "down\n");
    assert_eq!(goal(), Some(TrialGoal::Login));
    machine.write("sys/class/net/eth0/operstate", "up\n");
    assert_eq!(goal(), Some(TrialGoal::Network));
    // systemd does not permit logins yet.
    machine.write("run/nologin", "");
    assert_eq!(goal(), None);
    machine.write("proc/uptime", "301.74 590.02\n");
    assert_eq!(uptime_s(&machine.host()), Some(301));
}

#[test]
fn status_reports_a_trial_that_crashed() {
    let machine = Machine::debian();
    let plan = make_plan(&machine.host(), &BootRequest::default()).unwrap();
    write::write(&machine.host(), &machine.store(), &plan, &make_trial_mode()).unwrap();
    let state = || status::status(&machine.host(), &machine.store()).unwrap();
    assert_eq!(state().trial_state, Some(TrialState::Armed));
    // Booted, but GRUB still has the entry for one boot.
    machine.write("proc/sys/kernel/random/boot_id", "b2\n");
    assert_eq!(state().trial_state, Some(TrialState::NotTaken));
    // GRUB booted it, it crashed before the trial was concluded, and the old entry booted.
    machine.save("next_entry", "");
    machine.write("proc/sys/kernel/random/boot_id", "b3\n");
    machine.write("proc/stat", "cpu  1 2 3\nbtime 1778335402\n");
    let status = state();
    assert_eq!(status.trial_state, Some(TrialState::FellBack { since_s: Some(1_778_335_402) }));
    assert!(status.differs.is_empty(), "{status:#?}");
    let text = terminal_blocks(&boot_status_blocks(&status), usize::MAX, &unpainted);
    let said = "Trial failed: cpushield-trial-6.12.9-rt-amd64 was booted, but the boot failed. \
                The machine fell back and has run another entry since 2026-05-09 14:03:22 UTC.";
    assert!(text.contains(said) && text.contains("cpushield boot undo"), "{text}");
    assert!(!text.contains("boot the entry"), "{text}");
    // The same boot with the words is the trial itself.
    machine.write("proc/cmdline", "ro nohz_full=1-3 rcu_nocbs=1-3 panic=30\n");
    assert_eq!(state().trial_state, Some(TrialState::Booted));
}

#[test]
fn a_trial_that_never_booted_is_removed_byte_for_byte() {
    let machine = Machine::debian();
    machine.save("saved_entry", "0");
    let before = machine.files();
    let plan = make_plan(&machine.host(), &BootRequest::default()).unwrap();
    write::write(&machine.host(), &machine.store(), &plan, &make_trial_mode()).unwrap();
    // It hung, the machine was reset, and the old entry booted.
    let env = machine.read("boot/grub/grubenv");
    let taken = env.replace("next_entry=cpushield-6.12.9-rt-amd64", "next_entry=");
    machine.write("boot/grub/grubenv", &format!("{taken:#<1024}"));
    machine.write("proc/sys/kernel/random/boot_id", "b2\n");
    let end = trial::conclude(&machine.host(), &machine.store(), &[]).unwrap();
    assert_eq!(end.end, SettledAs::TakenBack, "{end:#?}");
    machine.write("proc/sys/kernel/random/boot_id", "b1\n");
    assert_eq!(before, machine.files());
    let status = status::status(&machine.host(), &machine.store()).unwrap();
    assert_eq!(status.last_trial.unwrap().end, SettledAs::TakenBack);
    assert!(matches!(
        trial::conclude(&machine.host(), &machine.store(), &[]).unwrap_err(),
        BootError::NoTrial
    ));
}

#[test]
fn a_trial_whose_shield_does_not_hold_is_removed_byte_for_byte() {
    let machine = Machine::debian();
    let before = machine.files();
    let plan = make_plan(&machine.host(), &BootRequest::default()).unwrap();
    assert_eq!(plan.proves.to_string(), "3");
    assert_eq!(make_plan(&machine.host(), &request_cpus("2-3")).unwrap().proves.to_string(), "2-3");
    write::write(&machine.host(), &machine.store(), &plan, &make_trial_mode()).unwrap();
    let boot = |id: &str, line: &str, nohz: &str| {
        machine.write("proc/sys/kernel/random/boot_id", id);
        machine.write("proc/cmdline", line);
        machine.write("sys/devices/system/cpu/nohz_full", nohz);
    };
    boot("b2\n", "ro nohz_full=1-3 rcu_nocbs=1-3 panic=30\n", "1-3\n");
    let observed = trial::observe(&machine.host(), &machine.store()).unwrap();
    assert_eq!((observed.proves.to_string().as_str(), observed.against.len()), ("3", 0));
    let verdict = "the shield leaks on CPU 3, tick 12 times".to_owned();
    let leaks = [TrialDoubt::ShieldLeaks { verdict }];
    let end = trial::conclude(&machine.host(), &machine.store(), &leaks).unwrap();
    assert_eq!(end.end, SettledAs::TakenBack);
    assert_eq!(end.why, TrialReason::Failed { doubts: leaks.to_vec() });
    assert!(end.why.to_string().contains("failed: the shield leaks on CPU 3"), "{}", end.why);
    boot("b1\n", "BOOT_IMAGE=/boot/vmlinuz-6.12.9-rt-amd64 root=UUID=ab ro quiet\n", "  (null)\n");
    let mut now = machine.files();
    // The trial created GRUB's environment block, which is empty again.
    let block = now.keys().find(|path| path.ends_with("grubenv")).cloned().unwrap();
    now.remove(&block);
    assert_eq!(before, now);
}

#[test]
fn without_a_writable_environment_block_no_trial_is_written() {
    for (what, answer) in [("abstraction", "lvm"), ("fs", "btrfs")] {
        let machine = Machine::debian();
        let before = machine.files();
        let plan = make_plan(&machine.host(), &BootRequest::default()).unwrap();
        let host = machine.probing(what, answer);
        let error = write::write(&host, &machine.store(), &plan, &make_trial_mode()).unwrap_err();
        assert!(matches!(error, BootError::Failed { undone: None, .. }), "{error}");
        assert!(error.to_string().contains(answer), "{error}");
        assert_eq!(before, machine.files(), "{what}");
    }
}

#[test]
fn a_trial_killed_at_any_write_leaves_the_old_default_and_can_be_undone() {
    let count = {
        let machine = Machine::debian();
        let (host, plan) =
            (machine.host(), make_plan(&machine.host(), &BootRequest::default()).unwrap());
        write::write(&host, &machine.store(), &plan, &make_trial_mode()).unwrap();
        host.writes()
    };
    for at in 0..count {
        let machine = Machine::debian();
        machine.save("saved_entry", "0");
        let before = machine.files();
        let plan = make_plan(&machine.host(), &BootRequest::default()).unwrap();
        let killed = machine.host().failing(InjectedFault::Stop { at });
        write::write(&killed, &machine.store(), &plan, &make_trial_mode()).unwrap_err();
        let (_, found) = loaders::find(&machine.host()).unwrap().unwrap();
        assert!(!found.entries[found.next.unwrap()].ours, "{at}");
        write::undo(&machine.host(), &machine.store()).unwrap().unwrap();
        assert_eq!(before, machine.files(), "killed at write {at}");
    }
}
