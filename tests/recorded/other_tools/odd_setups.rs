//! Setups that a tool seldom has: a kernel command line with every CPU, and files that are not
//! regular.

use super::{OtherMachine, names_and_cpus, shields};
use cpushield::survey::other_tools::{OtherTool, SetupError};
use std::fs;
use std::process::Command;

#[test]
fn a_command_line_with_every_cpu_becomes_a_policy_that_can_be_planned() {
    for line in ["nohz_full=all", "isolcpus=domain,0-3", "rcu_nocbs=all", "nohz_full=0-N"] {
        let files = [("proc/cmdline", line), ("sys/devices/system/cpu/isolated", "1-3")];
        let machine = OtherMachine::new("every-cpu", "6.1-rt-v1", &files);
        let imported = machine.import(OtherTool::Cmdline);
        assert_eq!(names_and_cpus(&imported), shields(&[("cmdline", "1-3")]), "{line}");
        let remark =
            format!("# {line} names every CPU; CPU 0, the boot CPU, stays a housekeeping CPU");
        assert!(imported.policy.contains(&remark), "{}", imported.policy);
    }
}

#[test]
fn a_fifo_in_the_place_of_a_file_of_tuned_is_an_error() {
    for path in
        ["etc/tuned/active_profile", "etc/tuned/lathe-variables.conf", "etc/tuned/bootcmdline"]
    {
        let machine = OtherMachine::new("fifo", "6.12-rt-smt", &[]);
        machine.put("etc/tuned/active_profile", "lathe\n");
        let file = machine.0.join(path);
        let _ = fs::remove_file(&file);
        assert!(Command::new("mkfifo").arg(&file).status().unwrap().success());
        match machine.setup(OtherTool::Tuned) {
            Err(SetupError::Access(error)) => {
                assert_eq!(error.path, format!("/{path}"));
                assert_eq!(error.reason(), "it is a FIFO, not a regular file");
            }
            other => panic!("{path}: {other:?}"),
        }
    }
}
