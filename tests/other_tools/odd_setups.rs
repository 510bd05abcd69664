//! Setups that a tool seldom has: a kernel command line with every CPU.

use super::{OtherMachine, names_and_cpus, shields};
use cpushield::survey::other_tools::OtherTool;

#[test]
fn a_command_line_with_every_cpu_becomes_a_policy_that_can_be_planned() {
    for line in ["nohz_full=all", "isolcpus=domain,0-3", "rcu_nocbs=all", "nohz_full=0-N"] {
        let machine = OtherMachine::new("every-cpu", "6.1-rt-v1", &[("proc/cmdline", line)]);
        let imported = machine.import(OtherTool::Cmdline);
        assert_eq!(names_and_cpus(&imported), shields(&[("cmdline", "1-3")]), "{line}");
        let remark = format!("# {line} has every CPU; CPU 0 stays a housekeeping CPU");
        assert!(imported.policy.contains(&remark), "{}", imported.policy);
    }
}
