//! Machines with a loader that is not written: the instructions fit the running kernel, because
//! nothing else is known.

use super::{make_plan, words};
use crate::recordings;
use cpushield::boot::plan::BootRequest;
use cpushield::policy::ShieldRequest;
use cpushield::report::blocks::{terminal_blocks, unpainted};
use cpushield::report::boot_plan_blocks;
use cpushield_linux::Host;

use super::grub::Machine;

/// The words and the text of the plan for a recorded machine.
fn plan_for(machine: &str, shield: ShieldRequest) -> (Vec<String>, String) {
    let root = recordings::root(machine);
    let request = BootRequest { shield, kernels: None, ..BootRequest::default() };
    let plan = make_plan(&Host::recorded(&root).unwrap(), &request).unwrap();
    (
        words(&plan).into_iter().map(str::to_owned).collect(),
        terminal_blocks(&boot_plan_blocks(&plan), usize::MAX, &unpainted),
    )
}

#[test]
fn instructions_leave_out_words_that_the_running_kernel_does_not_know() {
    let (given, text) = plan_for("6.18-hybrid", ShieldRequest::default());
    assert_eq!(given, ["rcu_nocbs=1", "isolcpus=1"]);
    assert!(text.contains("running kernel does not support it: built without CONFIG_NO_HZ_FULL"));
    // A kernel without a configuration, and without a list of nohz_full CPUs.
    let machine = Machine::without_loader();
    machine.write("sys/devices/system/cpu/isolated", "\n");
    let request = BootRequest {
        shield: ShieldRequest { count: Some(1), ..ShieldRequest::default() },
        ..BootRequest::default()
    };
    let both = make_plan(&machine.host(), &request).unwrap();
    assert_eq!(words(&both), ["nohz_full=3", "rcu_nocbs=3", "irqaffinity=0-2"]);
    machine.remove("sys/devices/system/cpu/nohz_full");
    let one = make_plan(&machine.host(), &request).unwrap();
    assert_eq!(words(&one), ["rcu_nocbs=3", "irqaffinity=0-2", "isolcpus=3"]);
}

/// An RTAI machine with GRUB 0.97 and without its configuration.
#[test]
fn instructions_leave_out_words_that_a_kernel_is_too_old_for() {
    let machine = Machine::without_loader();
    machine.remove("sys/devices/system/cpu/nohz_full");
    machine.write(
        "boot/grub/menu.lst",
        "title a\nkernel /vmlinuz-2.6.32-122 ro\ntitle b\nkernel /vmlinuz-3.9.1 ro\n",
    );
    let plan_with = |release: &str| {
        machine.write("proc/sys/kernel/osrelease", release);
        let plan = make_plan(&machine.host(), &BootRequest::default()).unwrap();
        (
            words(&plan).join(" "),
            terminal_blocks(&boot_plan_blocks(&plan), 200, &unpainted),
            plan.instructions.join("\n"),
        )
    };
    let (given, text, steps) = plan_with("2.6.32-122-rtai\n");
    assert_eq!(given, "isolcpus=3");
    for since in ["Linux 3.10 introduced it", "Linux 3.8 introduced it"] {
        assert!(text.contains(since), "{text}");
    }
    assert!(!steps.contains("nohz_full"), "{steps}");
    assert!(steps.contains("line 2: kernel /vmlinuz-2.6.32-122 ro isolcpus=3\n"), "{steps}");
    // The running kernel knows them; each kernel of the menu gets the words that it knows.
    let (given, _, steps) = plan_with("3.10.0\n");
    assert_eq!(given, "nohz_full=1-3 rcu_nocbs=1-3");
    assert!(steps.contains("line 2: kernel /vmlinuz-2.6.32-122 ro isolcpus=3\n"), "{steps}");
    let newer = "line 4: kernel /vmlinuz-3.9.1 ro rcu_nocbs=3 isolcpus=3";
    assert!(steps.contains(newer), "{steps}");
}

/// Lines of `menu.lst` with the words that they get, while another kernel runs. Made by hand from
/// the entries that the packages of RTAI, Xenomai and Debian install.
#[test]
fn each_kernel_of_a_menu_lst_gets_its_own_words_and_real_time_kernels_come_first() {
    let machine = Machine::without_loader();
    let plan_with = |menu: &str| {
        machine.write("boot/grub/menu.lst", menu);
        let plan = make_plan(&machine.host(), &BootRequest::default()).unwrap();
        let lines = plan.instructions.into_iter().filter(|line| line.starts_with("line "));
        lines.collect::<Vec<_>>()
    };
    let rtai = "title Ubuntu\nkernel /boot/vmlinuz-2.6.32-122-rtai root=/dev/sda1 ro\n";
    let line = "line 2: kernel /boot/vmlinuz-2.6.32-122-rtai root=/dev/sda1 ro isolcpus=3";
    assert_eq!(plan_with(rtai), [line]);
    let generic = "title Other\nkernel /boot/vmlinuz-2.6.38-16-generic ro\n";
    let xenomai = "title Xenomai\nkernel (hd0,0)/boot/vmlinuz-2.6.38.8-xenomai ro isolcpus=3\n";
    let evl = "title EVL\nkernel /vmlinuz-5.15.98-evl ro\n";
    assert_eq!(
        plan_with(&format!("{generic}{xenomai}{evl}")),
        [
            "line 4: unchanged: it already has the parameters",
            "line 6: kernel /vmlinuz-5.15.98-evl ro isolcpus=3",
        ]
    );
    // A configuration decides before a name.
    machine.write("boot/config-6.1.9-own", "CONFIG_PREEMPT_RT=y\nCONFIG_NO_HZ_FULL=y\n");
    let own = "title Own\nkernel /vmlinuz-6.1.9-own ro\n";
    let said = plan_with(&format!("{generic}{own}"));
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].contains("nohz_full=1-3"), "{said:?}");
}

#[test]
fn a_word_with_another_value_is_replaced_and_not_added_twice() {
    let (_, text) = plan_for("6.12-rt-smt", ShieldRequest::default());
    assert!(text.contains("booted with nohz_full=1-3,5-7\n"), "{text}");
    assert!(text.contains("    nohz_full=1-3,5-7  with  nohz_full=2-7\n"), "{text}");
    assert!(!text.contains("add these words"), "{text}");
    // Another value together with a new word.
    let machine = Machine::without_loader();
    let plan_with = |line: &str| {
        machine.write("proc/cmdline", line);
        let shield =
            ShieldRequest { cpus: Some("2-3".parse().unwrap()), ..ShieldRequest::default() };
        make_plan(&machine.host(), &BootRequest { shield, kernels: None, ..BootRequest::default() })
            .unwrap()
            .instructions
            .join("\n")
    };
    let mixed = plan_with("ro nohz_full=3 rcu_nocbs=2,3\n");
    assert!(mixed.contains("    nohz_full=3  with  nohz_full=2-3\n"), "{mixed}");
    assert!(mixed.contains("\n    irqaffinity=0-1\n") && !mixed.contains("rcu_nocbs"), "{mixed}");
    assert!(
        plan_with("ro nr_cpus=3\n")
            .starts_with("first resolve this conflict: nr_cpus=3 is already on the command line")
    );
    let all = plan_with("ro nohz_full=2-3 rcu_nocbs=2-3 irqaffinity=0-1\n");
    assert_eq!(all, "the running kernel was booted with all parameters: there is nothing to add");
    machine.write("run/ostree-booted", "");
    let named = plan_with("ro nohz_full=3\n");
    assert!(named.starts_with("first remove from the kernel command line: nohz_full=3"));
    assert!(named.contains("--append-if-missing=nohz_full=2-3"), "{named}");
}

#[test]
fn managed_irqs_are_offered_on_machines_that_have_them() {
    let offer = "--on isolcpus-managed-irq adds it";
    let (_, text) = plan_for("6.18-hybrid", ShieldRequest::default());
    assert!(text.contains(offer), "{text}");
    let tunables = [("isolcpus-managed-irq".to_owned(), true)].into();
    let (given, text) =
        plan_for("6.18-hybrid", ShieldRequest { tunables, ..ShieldRequest::default() });
    assert_eq!(given, ["rcu_nocbs=1", "isolcpus=domain,managed_irq,1"]);
    assert!(!text.contains(offer), "{text}");
    // Its queues on shielded CPUs serve only those CPUs.
    assert!(!plan_for("6.12-nvme", ShieldRequest::default()).1.contains(offer));
}

#[test]
fn a_requested_parameter_that_the_kernel_does_not_have_is_a_warning() {
    let mut shield = ShieldRequest { cpus: Some("1".parse().unwrap()), ..ShieldRequest::default() };
    shield.tunables.insert("nohz-full".to_owned(), true);
    let (_, text) = plan_for("6.18-hybrid", shield);
    let warning = "nohz-full was requested, but does nothing: the running kernel does not support \
                   it: built without CONFIG_NO_HZ_FULL";
    assert!(text.contains(warning), "{text}");
}

#[test]
fn a_cpu_of_the_present_list_is_left_out_with_the_reason() {
    let (_, text) = plan_for("6.12-rt-smt", ShieldRequest::default());
    assert!(text.contains("CPU 1 is left out: its sibling CPU 0 is the boot CPU\n"), "{text}");
    // The user has left it out.
    let cpus = Some("2-3".parse().unwrap());
    let (_, text) = plan_for("6.12-rt-smt", ShieldRequest { cpus, ..ShieldRequest::default() });
    assert!(!text.contains("is left out"), "{text}");
}

#[test]
fn the_instructions_also_remove_the_words_that_a_note_advises_to_remove() {
    let (_, text) = plan_for("6.12-rt-numa", ShieldRequest::default());
    let advice = "remove isolcpus= from the loader's configuration";
    assert!(text.contains(advice), "{text}");
    let (_, steps) = text.split_once("remove these words from the kernel command line").unwrap();
    assert!(steps.lines().nth(1).unwrap().contains("isolcpus="), "{text}");
}

#[test]
fn a_booted_parameter_that_is_not_in_force_is_shown_as_such() {
    let machine = Machine::without_loader();
    machine.write("proc/cmdline", "ro nohz_full=2-3\n");
    let shield = ShieldRequest { cpus: Some("2-3".parse().unwrap()), ..ShieldRequest::default() };
    let request = BootRequest { shield, ..BootRequest::default() };
    let show = || {
        let plan = make_plan(&machine.host(), &request).unwrap();
        terminal_blocks(&boot_plan_blocks(&plan), usize::MAX, &unpainted)
    };
    let text = show();
    assert!(text.contains("booted with it, but not in force"), "{text}");
    let substitute = "irqaffinity=0-1: the tunable irq-affinity does this at runtime\n";
    assert!(text.contains(substitute), "{text}");
    machine.write("sys/devices/system/cpu/nohz_full", "2-3\n");
    let text = show();
    assert!(text.contains("booted with it") && !text.contains("but not in force"), "{text}");
}
