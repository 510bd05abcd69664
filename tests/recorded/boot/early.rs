//! `cpushield enable` and `disable`: the files are written and removed, and the init systems and
//! the shell accept them.

use super::grub::Machine;
use crate::not_run::not_run;
use clap::Parser;
use cpushield::apply;
use cpushield::boot::early::{
    self, InitFile, OperatorHelper, RunningUnit, StartCommand, StartTarget,
};
use cpushield::boot::{BootError, InitSystem, write};
use cpushield::cli::Cli;
use cpushield::cli::enable::apply_arguments;
use cpushield::policy::{Siblings, WrittenShield};
use cpushield::run;
use cpushield::ui::{OutputFormat, StatusLines, Ui};
use cpushield::workflow::WorkContext;
use cpushield::workflow::every_boot::disable_shield;
use cpushield::workflow::shield_options::ShieldOptions;
use cpushield_linux::{CommandOutput, Host};
use cpushield_simulator::{InjectedFault, Simulated};
use std::process::Command;

fn make_start_command(program: &str) -> StartCommand {
    let words = ["apply", "--cpus", "3", "--near", "it's $HOME"].map(str::to_owned).to_vec();
    let state = "/var/lib/cpushield".to_owned();
    let program = program.to_owned();
    let target = StartTarget::Shield("cpushield".to_owned());
    StartCommand { program, state, words, target, helpers: Vec::new() }
}

/// The same with a helper for the operators of each shield, which only systemd offers.
fn with_helpers(call: StartCommand, shields: &[(&str, Option<u32>)]) -> StartCommand {
    let helpers = shields.iter().map(|(shield, gid)| OperatorHelper {
        shield: (*shield).to_owned(),
        command: [run::OPERATOR_COMMAND, run::OPERATOR_SHIELD],
        socket: run::operator_socket(shield),
        gid: *gid,
        proc_gid: *gid,
    });
    StartCommand { helpers: helpers.collect(), ..call }
}

/// Two shields: of a group, and of single users.
const TWO_SHIELDS: &[(&str, Option<u32>)] = &[("lathe", Some(44)), ("mill_2", None)];

/// Simulates Debian's `update-rc.d`, which makes and removes links below `/etc/rcS.d`, and
/// OpenRC's `rc-update`, which does so below `/etc/runlevels`.
fn simulate_rc_programs(host: Host) -> Host {
    host.with_programs(|root, words, _| {
        let levels = ["boot", "sysinit", "default"].map(|it| root.join("etc/runlevels").join(it));
        match words {
            ["update-rc.d", service, action] => {
                let link = root.join(format!("etc/rcS.d/S01{service}"));
                match *action {
                    "defaults" => {
                        std::fs::create_dir_all(link.parent().unwrap()).unwrap();
                        std::os::unix::fs::symlink(format!("../init.d/{service}"), link).unwrap();
                    }
                    _ => drop(std::fs::remove_file(link)),
                }
            }
            ["rc-update", "add", service, level] => {
                let at = levels.iter().find(|it| it.ends_with(level)).unwrap().join(service);
                std::os::unix::fs::symlink(format!("../../init.d/{service}"), at).unwrap();
            }
            ["rc-update", "--all", "del", service] => {
                for level in levels {
                    let _ = std::fs::remove_file(level.join(service));
                }
            }
            ["rc-service", _, "zap"] => {}
            _ => return None,
        }
        Some(CommandOutput { status: Some(0), ..CommandOutput::default() })
    })
}

fn make_machine(init: InitSystem) -> Machine {
    let machine = Machine::debian();
    machine.write("etc/systemd/system/.keep", "");
    machine.write("etc/init.d/README", "");
    match init {
        InitSystem::Systemd => machine.write("run/systemd/system/.keep", ""),
        InitSystem::Openrc => {
            machine.write("run/openrc/softlevel", "");
            machine.write("etc/runlevels/boot/localmount", "");
            machine.write("etc/runlevels/sysinit/sysfs", "");
            machine.write("etc/runlevels/default/local", "");
        }
        InitSystem::Sysv => machine.program("usr/sbin/update-rc.d"),
    }
    machine
}

#[test]
fn enable_and_disable_restore_every_byte_after_a_refusal_or_a_kill() {
    // Two files, and a call of the init system for each; with operators two files and one call more
    // for each shield.
    let plain = make_start_command("/usr/bin/cpushield");
    let operators = with_helpers(plain.clone(), TWO_SHIELDS);
    for (init, call, writes) in [
        (InitSystem::Systemd, &plain, 4),
        (InitSystem::Systemd, &operators, 10),
        (InitSystem::Openrc, &operators, 4),
        (InitSystem::Sysv, &plain, 4),
    ] {
        let machine = make_machine(init);
        // A unit with such a name that cpushield has not made stays.
        machine.write("etc/systemd/system/cpushield-operators-other.socket", "[Socket]\n");
        let (before, host) = (machine.files(), simulate_rc_programs(machine.host()));
        let put = early::install(&host, &machine.store(), call).unwrap();
        assert_eq!(put.operator_paths.len(), if writes == 10 { 4 } else { 0 });
        assert_eq!(put.init, init);
        assert_eq!(early::installed(&machine.store()).unwrap().as_ref(), Some(&put));
        assert_ne!(before, machine.files());
        assert_eq!(early::remove(&host, &machine.store(), RunningUnit::Kept).unwrap(), Some(put));
        assert_eq!(before, machine.files());
        assert_eq!(early::remove(&host, &machine.store(), RunningUnit::Kept).unwrap(), None);
        for at in 0..writes {
            let host = simulate_rc_programs(machine.host())
                .failing(InjectedFault::Refuse { at, errno: 30 });
            let error = early::install(&host, &machine.store(), call).unwrap_err();
            assert!(matches!(error, BootError::Failed { undone: None, .. }), "{at}: {error}");
            assert_eq!(before, machine.files(), "refused at {at}");
            assert_eq!(early::installed(&machine.store()).unwrap(), None);
            let host = simulate_rc_programs(machine.host()).failing(InjectedFault::Stop { at });
            early::install(&host, &machine.store(), call).unwrap_err();
            let host = simulate_rc_programs(machine.host());
            early::remove(&host, &machine.store(), RunningUnit::Stopped).unwrap().unwrap();
            assert_eq!(before, machine.files(), "killed at {at}");
        }
    }
}

#[test]
fn enabling_others_that_is_refused_leaves_the_first_ones_enabled() {
    let machine = make_machine(InitSystem::Systemd);
    let plain = make_start_command("/usr/bin/cpushield");
    let first = with_helpers(plain.clone(), TWO_SHIELDS);
    let second = with_helpers(make_start_command("/opt/cpushield"), &TWO_SHIELDS[1..]);
    let host = simulate_rc_programs(machine.host());
    let put = early::install(&host, &machine.store(), &first).unwrap();
    let before = machine.files();
    let mut refused = 0;
    for at in 0..16 {
        let host =
            simulate_rc_programs(machine.host()).failing(InjectedFault::Refuse { at, errno: 30 });
        let Err(error) = early::install(&host, &machine.store(), &second) else {
            let host = simulate_rc_programs(machine.host());
            early::install(&host, &machine.store(), &first).unwrap();
            continue;
        };
        refused += 1;
        assert!(matches!(error, BootError::Failed { undone: None, .. }), "{at}: {error}");
        assert_eq!(before, machine.files(), "refused at {at}");
        assert_eq!(early::installed(&machine.store()).unwrap().as_ref(), Some(&put), "{at}");
    }
    assert!(refused > 5, "only {refused} writes were refused");
}

#[test]
fn each_shield_has_a_socket_of_its_own_and_enabling_others_removes_it() {
    let machine = make_machine(InitSystem::Systemd);
    let host = simulate_rc_programs(machine.host());
    let units = || {
        let names = host.list("/etc/systemd/system").unwrap().into_iter();
        names.filter(|name| name.starts_with("cpushield-operators")).collect::<Vec<_>>()
    };
    let plain = make_start_command("/usr/bin/cpushield");
    let install = |shields| {
        early::install(&host, &machine.store(), &with_helpers(plain.clone(), shields)).unwrap();
        let mut units = units();
        units.sort();
        units
    };
    let of = |name: &str| {
        [".socket", "@.service"].map(|suffix| format!("cpushield-operators-{name}{suffix}"))
    };
    let two: Vec<String> = of("lathe").into_iter().chain(of("mill_2")).collect();
    assert_eq!(install(TWO_SHIELDS), two);
    assert_eq!(install(&TWO_SHIELDS[1..]), of("mill_2"));
    assert_eq!(install(&[]), Vec::<String>::new());
}

/// A package that is removed undoes all shields first, and the policy may be gone before.
#[test]
fn a_policy_whose_file_is_gone_is_disabled_when_no_shield_is_active() {
    let machine = make_machine(InitSystem::Systemd);
    let before = machine.files();
    let target = StartTarget::Policy("/nonexistent/policy.toml".to_owned());
    let call = StartCommand { target, ..make_start_command("/usr/bin/cpushield") };
    let host = simulate_rc_programs(machine.host());
    let put = early::install(&host, &machine.store(), &call).unwrap();
    let ui = Ui::new(OutputFormat::Text, StatusLines::Suppressed);
    let (store, state_dir) = (machine.store(), machine.path("state"));
    let work = WorkContext { ui: &ui, host, store, state_dir, shield: None };
    let done = disable_shield(&work, RunningUnit::Stopped).unwrap();
    assert_eq!((done.disabled, done.undone), (Some(put), Vec::new()));
    assert_eq!(machine.files(), before);
}

/// Programs return to groups that belong to users, and root without CAP_DAC_OVERRIDE may not write
/// their lists (capabilities(7)).
#[test]
fn the_helper_may_write_the_lists_of_groups_of_users() {
    let call = with_helpers(make_start_command("/usr/bin/cpushield"), TWO_SHIELDS);
    for helper in &call.helpers {
        let [service, _] = early::operator_files(&call, helper);
        let sets: Vec<&str> = service
            .text
            .lines()
            .filter_map(|it| it.strip_prefix("CapabilityBoundingSet="))
            .collect();
        assert_eq!(sets, ["CAP_DAC_OVERRIDE CAP_SYS_NICE CAP_SYS_RESOURCE"]);
    }
}

#[test]
fn a_socket_of_other_operators_than_those_of_the_policy_is_noticed() {
    let machine = make_machine(InitSystem::Systemd);
    let host = simulate_rc_programs(machine.host());
    let call = with_helpers(make_start_command("/usr/bin/cpushield"), TWO_SHIELDS);
    let put = early::install(&host, &machine.store(), &call).unwrap();
    let [lathe, mill] = call.helpers.as_slice() else { panic!("two helpers") };
    let has = |shield, helper| early::has_socket(&host, &put, shield, helper);
    assert!(has("lathe", Some(lathe)) && has("mill_2", Some(mill)));
    let group = OperatorHelper { gid: Some(45), ..lathe.clone() };
    let users = OperatorHelper { gid: None, ..lathe.clone() };
    assert!(!has("lathe", Some(&group)) && !has("lathe", Some(&users)) && !has("lathe", None));
    let new = OperatorHelper { shield: "new".to_owned(), ..lathe.clone() };
    assert!(!has("new", Some(&new)) && has("new", None));
}

/// Only files that start programs at boot are written: no kernel setting and no cgroup.
#[test]
fn enabling_a_shield_changes_nothing_of_the_running_system() {
    for init in [InitSystem::Systemd, InitSystem::Openrc, InitSystem::Sysv] {
        let machine = make_machine(init);
        let before = machine.files();
        let host = simulate_rc_programs(machine.host());
        early::install(&host, &machine.store(), &make_start_command("/usr/bin/cpushield")).unwrap();
        let root = machine.path("");
        for (path, file) in machine.files() {
            let inside = path.strip_prefix(&root).unwrap();
            if !inside.starts_with("etc") {
                assert_eq!(before.get(&path), Some(&file), "{}", path.display());
            }
        }
        assert_eq!(apply::active_plans(&host, &machine.store()).unwrap(), []);
    }
}

#[test]
fn undo_and_boot_undo_keep_the_enabled_shield() {
    for init in [InitSystem::Systemd, InitSystem::Openrc, InitSystem::Sysv] {
        let machine = make_machine(init);
        let host = simulate_rc_programs(machine.host());
        let put =
            early::install(&host, &machine.store(), &make_start_command("/usr/bin/cpushield"))
                .unwrap();
        let enabled = machine.files();
        assert_eq!(apply::undo(&host, &machine.store(), None).unwrap().shield, None);
        assert_eq!(write::undo(&host, &machine.store()).unwrap(), None);
        assert_eq!(enabled, machine.files());
        assert_eq!(early::installed(&machine.store()).unwrap(), Some(put));
    }
}

/// The command at boot has the same options, with absolute paths.
#[test]
fn the_boot_command_repeats_the_request() {
    let cpus = Some("2-3".to_owned());
    let siblings = Some(Siblings::Share);
    let written = WrittenShield { cpus, siblings, ..WrittenShield::default() };
    let policy = Some("/etc/mill.toml".to_owned());
    let wish = ShieldOptions { written, policy, ..ShieldOptions::default() };
    let said = ["apply", "--cpus", "2-3", "--siblings", "share", "--policy", "/etc/mill.toml"];
    assert_eq!(apply_arguments(&wish), said);
    let cli = Cli::try_parse_from(["cpushield"].into_iter().chain(said)).unwrap();
    assert!(matches!(cli.command, cpushield::cli::CliCommand::Apply(_)));
    let near = ShieldOptions { policy: Some("mill.toml".to_owned()), ..ShieldOptions::default() };
    assert!(apply_arguments(&near)[2].starts_with('/'), "{:?}", apply_arguments(&near));
}

/// `cargo xtask vm test enable-init-scripts` runs the script with the real OpenRC.
#[test]
fn openrc_gets_the_script_in_the_runlevel_that_sets_up_the_machine() {
    for (debian, level) in [(false, "boot"), (true, "sysinit")] {
        let machine = make_machine(InitSystem::Openrc);
        if debian {
            machine.write("etc/runlevels/sysinit/bootmisc.sh", "");
        }
        early::install(
            &simulate_rc_programs(machine.host()),
            &machine.store(),
            &make_start_command("/x"),
        )
        .unwrap();
        let link = machine.path(&format!("etc/runlevels/{level}/cpushield"));
        assert!(link.symlink_metadata().is_ok(), "{level}");
        // OpenRC does not start a service that needs a missing one.
        let script = machine.read("etc/init.d/cpushield");
        assert!(!script.lines().any(|line| line.trim_start().starts_with("need ")), "{script}");
    }
}

#[test]
fn a_foreign_file_of_the_same_name_is_kept() {
    let machine = make_machine(InitSystem::Sysv);
    machine.write("etc/init.d/cpushield", "#!/bin/sh\n# theirs\n");
    let error = early::install(
        &simulate_rc_programs(machine.host()),
        &machine.store(),
        &make_start_command("/x"),
    );
    assert!(matches!(error.unwrap_err(), BootError::Foreign { .. }));
    assert!(machine.read("etc/init.d/cpushield").contains("theirs"));
    let machine = Machine::debian();
    let error =
        early::install(&machine.host(), &machine.store(), &make_start_command("/x")).unwrap_err();
    assert!(error.to_string().contains("/x --quiet"), "{error}");
}

/// The output and the exit status of a shell command with a script of an init system.
fn run_script(file: &InitFile, command: &str, name: &str) -> (Option<i32>, String) {
    let dir = std::env::temp_dir().join(format!("cpushield-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let script = dir.join("script");
    std::fs::write(&script, &file.text).unwrap();
    let said = Command::new("sh").args(["-c", command, "sh"]).arg(&script).output().unwrap();
    std::fs::remove_dir_all(dir).unwrap();
    (said.status.code(), String::from_utf8(said.stdout).unwrap())
}

const STARTED: &str = "--quiet --state /var/lib/cpushield apply --cpus 3 --near it's $HOME\n";
const STOPPED: &str =
    "--quiet --state /var/lib/cpushield undo --unless-shutdown --shield cpushield\n";
const BANNED: &str = "__irqbalance --quiet --state /var/lib/cpushield\n";

/// The shell runs the scripts, and `echo` prints the words that it receives.
#[test]
fn the_scripts_pass_every_word_unchanged() {
    let [shield, ban] = early::files(InitSystem::Sysv, &make_start_command("/bin/echo"));
    assert_eq!((shield.mode, ban.mode), (0o755, 0o755));
    let sysv = |file: &InitFile, words: &str| run_script(file, &format!("sh $1 {words}"), "words");
    assert_eq!(sysv(&shield, "start"), (Some(0), STARTED.to_owned()));
    assert_eq!(sysv(&shield, "x").0, Some(2));
    assert_eq!(sysv(&ban, "start"), (Some(0), BANNED.to_owned()));
    // OpenRC defines functions before it reads a script.
    let [shield, ban] = early::files(InitSystem::Openrc, &make_start_command("/bin/echo"));
    let around = "ebegin() { :; }; eend() { exit $1; }; . \"$1\"; start";
    assert_eq!(run_script(&shield, around, "words"), (Some(0), STARTED.to_owned()));
    assert_eq!(run_script(&ban, around, "words"), (Some(0), BANNED.to_owned()));
}

#[test]
fn a_stopped_script_undoes_the_shield_except_while_the_system_goes_down() {
    let [shield, _] = early::files(InitSystem::Sysv, &make_start_command("/bin/echo"));
    for (level, wanted) in [("", STOPPED), ("RUNLEVEL=2", STOPPED), ("RUNLEVEL=1", STOPPED)] {
        let stop = format!("unset RUNLEVEL; {level} sh $1 stop");
        assert_eq!(run_script(&shield, &stop, "stop"), (Some(0), wanted.to_owned()), "{level}");
    }
    for level in ["RUNLEVEL=0", "RUNLEVEL=6"] {
        let stop = format!("{level} sh $1 stop");
        assert_eq!(run_script(&shield, &stop, "stop"), (Some(0), String::new()), "{level}");
    }
    let restart = run_script(&shield, "chmod +x $1; unset RUNLEVEL; $1 restart", "stop");
    assert_eq!(restart, (Some(0), format!("{STOPPED}{STARTED}")));
    let [shield, _] = early::files(InitSystem::Openrc, &make_start_command("/bin/echo"));
    let around = "ebegin() { :; }; eend() { exit $1; }; . \"$1\"; stop";
    for (level, wanted) in [("default", STOPPED), ("single", STOPPED), ("shutdown", "")] {
        let stop = format!("RC_RUNLEVEL={level}; {around}");
        assert_eq!(run_script(&shield, &stop, "stop"), (Some(0), wanted.to_owned()), "{level}");
    }
}

#[test]
fn a_script_whose_program_is_gone_does_nothing() {
    for init in [InitSystem::Openrc, InitSystem::Sysv] {
        for file in early::files(init, &make_start_command("/nonexistent/cpushield")) {
            for action in ["start", "stop"] {
                let around = match init {
                    InitSystem::Openrc if file.service != "cpushield" && action == "stop" => {
                        continue;
                    }
                    InitSystem::Openrc => format!("RC_RUNLEVEL=default; . $1; {action}"),
                    _ => format!("sh $1 {action}"),
                };
                let said = run_script(&file, &around, "gone");
                assert_eq!(said, (Some(0), String::new()), "{}: {action}", file.service);
            }
        }
    }
}

#[test]
fn systemd_accepts_the_units() {
    let dir = std::env::temp_dir().join(format!("cpushield-unit-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let call = with_helpers(make_start_command("/bin/echo"), TWO_SHIELDS);
    let for_operators = call.helpers.iter().flat_map(|it| early::operator_files(&call, it));
    for file in early::files(InitSystem::Systemd, &call).into_iter().chain(for_operators) {
        let unit = dir.join(file.path.rsplit('/').next().unwrap());
        std::fs::write(&unit, file.text).unwrap();
        // Checks this unit alone: other units of this machine may have errors.
        let mut verify = Command::new("systemd-analyze");
        match verify.args(["verify", "--recursive-errors=no"]).arg(&unit).output() {
            Ok(said) => {
                let errors = String::from_utf8_lossy(&said.stderr);
                let old = errors.contains("unrecognized option");
                assert!(said.status.success() || old, "{errors}");
                if old {
                    not_run("this systemd-analyze looks at other units too");
                }
            }
            Err(error) => not_run(&format!("systemd-analyze: {error}")),
        }
    }
    std::fs::remove_dir_all(dir).unwrap();
}

/// The journal alone names the sockets of an earlier installation.
#[test]
fn a_damaged_journal_is_an_error_and_nothing_is_written() {
    let machine = make_machine(InitSystem::Systemd);
    let (host, store) = (simulate_rc_programs(machine.host()), machine.store());
    let call = with_helpers(make_start_command("/usr/bin/cpushield"), TWO_SHIELDS);
    early::install(&host, &store, &call).unwrap();
    let before = machine.files();
    store.replace_json(early::JOURNAL, &"torn").unwrap();
    let plain = make_start_command("/usr/bin/cpushield");
    let installed = early::install(&host, &store, &plain).unwrap_err();
    let removed = early::remove(&host, &store, RunningUnit::Kept).unwrap_err();
    for error in [installed, removed] {
        assert!(matches!(error, BootError::Journal { .. }), "{error}");
        let text = cpushield::failure::Failure::from(error).to_string();
        assert!(text.contains("Made by cpushield"), "{text}");
    }
    assert_eq!(before, machine.files());
}
