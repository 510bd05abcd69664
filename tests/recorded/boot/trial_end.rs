//! The end of a trial: it becomes permanent or is removed, and the next call concludes a trial
//! whose end was killed at any write.

use super::grub::Machine;
use super::make_plan;
use cpushield::boot::plan::BootRequest;
use cpushield::boot::write::{self, WriteMode};
use cpushield::boot::{
    BootError, JOURNAL, SettledAs, TrialDeadline, TrialDoubt, TrialEnd, TrialGoal, loaders,
    read_journal, status, trial,
};
use cpushield_linux::Host;
use cpushield_simulator::{InjectedFault, Simulated};

const UNIT: &str = "etc/systemd/system/cpushield-trial.service";
const LINK: &str = "etc/systemd/system/multi-user.target.wants/cpushield-trial.service";

/// What the units of a trial run.
fn program() -> Option<write::TrialProgram> {
    let [program, state_dir] = ["/usr/bin/cpushield", "/var/lib/cpushield"].map(str::to_owned);
    Some(write::TrialProgram { program, state_dir })
}

fn arm(machine: &Machine) {
    let program = program();
    machine.write("etc/systemd/system/README", "");
    let mode = WriteMode { term: write::ParameterTerm::Trial, program, ..WriteMode::default() };
    let plan = make_plan(&machine.host(), &BootRequest::default()).unwrap();
    write::write(&machine.host(), &machine.store(), &plan, &mode).unwrap();
    assert!(machine.path(LINK).exists());
}

/// The trial's entry boots, and all its parameters are in force.
fn boot(machine: &Machine) {
    machine.save("next_entry", "");
    machine.write("proc/sys/kernel/random/boot_id", "b2\n");
    machine.write("proc/cmdline", "ro nohz_full=1-3 rcu_nocbs=1-3 panic=30\n");
    machine.write("sys/devices/system/cpu/nohz_full", "1-3\n");
}

/// Does what the unit does.
fn conclude(machine: &Machine, host: &Host) -> Result<TrialEnd, BootError> {
    trial::remove_stale_unit(host, &machine.store())?;
    trial::conclude(host, &machine.store(), &[])
}

fn boots_our_entry(machine: &Machine) -> bool {
    let (_, found) = loaders::find(&machine.host()).unwrap().unwrap();
    found.entries[found.next.unwrap()].ours
}

fn unit_is_gone(machine: &Machine) -> bool {
    // A link without its file counts too.
    machine.path(UNIT).symlink_metadata().is_err() && machine.path(LINK).symlink_metadata().is_err()
}

/// A trial that no user could reach is undone with both of its units, also when the process that
/// undoes it is killed at any write.
#[test]
fn a_trial_that_cannot_be_reached_in_time_is_undone() {
    const DEADLINE: &str = "etc/systemd/system/cpushield-trial-deadline.service";
    const WANTED: &str = "etc/systemd/system/sysinit.target.wants/cpushield-trial-deadline.service";
    let until = TrialDeadline { goal: TrialGoal::Network, within_s: 300 };
    let doubt = TrialDoubt::NotReached { goal: until.goal, within_s: until.within_s };
    let mut writes = 0;
    loop {
        let machine = Machine::debian();
        machine.save("saved_entry", "0");
        machine.write("etc/systemd/system/README", "");
        let program = program();
        let mode = WriteMode {
            term: write::ParameterTerm::Trial,
            program,
            until: Some(until),
            ..WriteMode::default()
        };
        let plan = make_plan(&machine.host(), &BootRequest::default()).unwrap();
        let written = write::write(&machine.host(), &machine.store(), &plan, &mode).unwrap();
        assert_eq!(written.trial.unwrap().until, Some(until));
        assert!(machine.path(WANTED).exists());
        assert!(machine.read(DEADLINE).contains("\nConditionKernelCommandLine=nohz_full=1-3\n"));
        boot(&machine);
        assert_eq!(trial::observe(&machine.host(), &machine.store()).unwrap().until, Some(until));
        let killed = machine.host().failing(InjectedFault::Stop { at: writes });
        let end = trial::conclude(&killed, &machine.store(), std::slice::from_ref(&doubt));
        let finished = end.is_ok();
        // After a kill, the units of the next boot go on. It has the old words.
        let end = end.or_else(|_| {
            machine.write("proc/sys/kernel/random/boot_id", "b3\n");
            machine.write("proc/cmdline", "ro\n");
            conclude(&machine, &machine.host())
        });
        match end {
            Ok(end) => assert_eq!(end.end, SettledAs::TakenBack, "killed at {writes}: {end:#?}"),
            Err(error) => assert!(matches!(error, BootError::NoTrial), "{writes}: {error}"),
        }
        trial::remove_stale_unit(&machine.host(), &machine.store()).unwrap();
        for path in [UNIT, LINK, DEADLINE, WANTED] {
            assert!(machine.path(path).symlink_metadata().is_err(), "killed at {writes}: {path}");
        }
        if finished {
            let end = status::status(&machine.host(), &machine.store()).unwrap().last_trial;
            let why = end.unwrap().why.to_string();
            assert!(
                why.ends_with("a login and a network did not become available within 300 s"),
                "{why}"
            );
            break;
        }
        writes += 1;
    }
    assert!(writes > 3, "{writes}");
}

#[test]
fn a_trial_of_an_unknown_loader_is_an_error_and_not_an_absent_trial() {
    let machine = Machine::debian();
    machine.save("saved_entry", "0");
    arm(&machine);
    boot(&machine);
    let journal = machine.store().path(JOURNAL);
    let text = std::fs::read_to_string(&journal).unwrap();
    std::fs::write(&journal, text.replace("\"loader\": \"grub\"", "\"loader\": \"lilo\"")).unwrap();
    match conclude(&machine, &machine.host()) {
        Err(BootError::Journal { why, .. }) => assert!(why.contains("\"lilo\""), "{why}"),
        end => panic!("{end:?}"),
    }
}

#[test]
fn a_trial_passes_when_a_kernel_is_installed_or_removed_before_its_boot() {
    let rt = ("6.12.9-rt-amd64", true);
    for come in [true, false] {
        let machine = Machine::with(&[("6.12.9-amd64", false), rt, ("6.1.4-rt-amd64", true)]);
        arm(&machine);
        if come {
            machine.install("6.13.1-amd64", false);
        } else {
            machine.remove("boot/vmlinuz-6.1.4-rt-amd64");
        }
        machine.update_grub();
        boot(&machine);
        let end = conclude(&machine, &machine.host()).unwrap();
        assert_eq!(end.end, SettledAs::Permanent, "{end:#?}");
        assert!(boots_our_entry(&machine) && unit_is_gone(&machine));
        write::undo(&machine.host(), &machine.store()).unwrap().unwrap();
        let left = machine.read("boot/grub/grub.cfg");
        machine.update_grub();
        assert_eq!(left, machine.read("boot/grub/grub.cfg"));
        assert_eq!(left.contains("6.13.1-amd64"), come);
        assert_eq!(left.contains("6.1.4-rt-amd64"), come);
        assert!(!left.contains("nohz_full"), "{left}");
    }
}

#[test]
fn a_trial_that_cannot_become_permanent_is_removed() {
    let machine = Machine::debian();
    arm(&machine);
    let cfg = machine.read("boot/grub/grub.cfg");
    machine.write("boot/grub/grub.cfg", &format!("{cfg}# by hand\n"));
    boot(&machine);
    let end = conclude(&machine, &machine.host()).unwrap();
    assert_eq!(end.end, SettledAs::TakenBack);
    let why = end.why.to_string();
    assert!(
        why.contains("but was not kept: the parameters cannot be made permanent")
            && why.contains("# by hand")
    );
    let left = machine.read("boot/grub/grub.cfg");
    assert!(left.ends_with("# by hand\n") && !left.contains("nohz_full"), "{left}");
    // The next kernel package must not add our entries.
    machine.update_grub();
    assert!(!boots_our_entry(&machine) && unit_is_gone(&machine));
    assert_eq!(write::undo(&machine.host(), &machine.store()).unwrap(), None);
}

#[test]
fn the_next_call_concludes_a_trial_whose_end_was_killed_or_refused_at_any_write() {
    let (count, wanted) = {
        let machine = Machine::debian();
        arm(&machine);
        boot(&machine);
        let host = machine.host();
        assert_eq!(conclude(&machine, &host).unwrap().end, SettledAs::Permanent);
        (host.writes(), machine.read("boot/grub/grub.cfg"))
    };
    assert!(count >= 5, "{count}");
    for at in 0..count {
        let machine = Machine::debian();
        arm(&machine);
        boot(&machine);
        let killed = machine.host().failing(InjectedFault::Stop { at });
        conclude(&machine, &killed).unwrap_err();
        // The unit that would conclude it at the next boot is still enabled.
        let journal = read_journal(&machine.store()).unwrap();
        if journal.is_some_and(|journal| journal.trial.is_some()) {
            assert!(machine.path(LINK).exists(), "killed at write {at}");
        }
        match conclude(&machine, &machine.host()) {
            Ok(end) => assert_eq!(end.end, SettledAs::Permanent, "killed at write {at}"),
            Err(BootError::NoTrial) => {}
            Err(error) => panic!("killed at write {at}: {error}"),
        }
        assert_eq!(machine.read("boot/grub/grub.cfg"), wanted, "killed at write {at}");
        assert!(unit_is_gone(&machine), "killed at write {at}");

        let machine = Machine::debian();
        arm(&machine);
        boot(&machine);
        let refused = machine.host().failing(InjectedFault::Refuse { at, errno: 28 });
        // After a refusal the next boot tries again, or the trial was removed.
        let end = conclude(&machine, &refused).or_else(|_| conclude(&machine, &machine.host()));
        let permanent = match end {
            Ok(end) => end.end == SettledAs::Permanent,
            Err(BootError::NoTrial) => true,
            Err(error) => panic!("refused at write {at}: {error}"),
        };
        machine.update_grub();
        assert_eq!(boots_our_entry(&machine), permanent, "refused at write {at}");
    }
}

#[test]
fn a_shield_on_other_cpus_proves_nothing() {
    let unproved = |proves: &str, shielded: &str| {
        trial::why_unproved(&proves.parse().unwrap(), &shielded.parse().unwrap())
    };
    assert_eq!(unproved("3", "2-3"), None);
    let why = unproved("2-3", "1-2").unwrap().to_string();
    assert!(why.starts_with("the active shield has CPU 1-2 but not CPU 3,"), "{why}");
}
