//! Machines with a loader that is not written: the instructions fit the running kernel, because
//! nothing else is known.

use super::{make_plan, words};
use crate::recordings::{self, own};
use cpushield::boot::lint::lint;
use cpushield::boot::plan::BootRequest;
use cpushield::plan::{BootAdvice, BootAdviceReason, plan};
use cpushield::policy::ShieldRequest;
use cpushield::report::blocks::{terminal_blocks, unpainted};
use cpushield::report::boot_plan_blocks;
use cpushield::survey::{CgroupMode, Irq, IrqMovability, survey};
use cpushield_linux::{CpuSet, Host};
use std::collections::BTreeMap;

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
    assert_eq!(given, ["rcu_nocbs=1", "isolcpus=domain,managed_irq,1"]);
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
    let plan_with = |release: &str, kernels: Option<&str>| {
        machine.write("proc/sys/kernel/osrelease", release);
        let kernels = kernels.map(str::to_owned);
        let plan =
            make_plan(&machine.host(), &BootRequest { kernels, ..BootRequest::default() }).unwrap();
        (
            words(&plan).join(" "),
            terminal_blocks(&boot_plan_blocks(&plan), 200, &unpainted),
            plan.instructions.join("\n"),
        )
    };
    // The same words in the table and on the line, whatever the running kernel knows.
    for release in ["2.6.32-122-rtai\n", "3.10.0\n"] {
        let (given, text, steps) = plan_with(release, None);
        assert_eq!(given, "isolcpus=3");
        for since in ["Linux 3.10 introduced it", "Linux 3.8 introduced it"] {
            assert!(text.contains(since), "{text}");
        }
        assert!(!steps.contains("nohz_full") && !steps.contains("3.9.1"), "{steps}");
        let line = "/boot/grub/menu.lst:2: kernel /vmlinuz-2.6.32-122 isolcpus=3 ro\n";
        assert!(steps.contains(line), "{steps}");
    }
    let (given, _, steps) = plan_with("3.10.0\n", Some("*"));
    assert_eq!(given, "rcu_nocbs=3 isolcpus=3");
    let newer = "/boot/grub/menu.lst:4: kernel /vmlinuz-3.9.1 rcu_nocbs=3 isolcpus=3 ro";
    assert!(steps.contains("2.6.32-122 isolcpus=3 ro\n") && steps.contains(newer), "{steps}");
    // The kernel that boots by default gets the words.
    machine.write(
        "boot/grub/menu.lst",
        "default=1\ntitle a\nkernel /vmlinuz-2.6.32-122 ro\ntitle b\nkernel /vmlinuz-3.9.1 ro\n",
    );
    let (given, _, steps) = plan_with("3.10.0\n", None);
    assert_eq!(given, "rcu_nocbs=3 isolcpus=3");
    assert!(steps.contains("menu.lst:5: kernel /vmlinuz-3.9.1 rcu"), "{steps}");
}

/// Lines of `menu.lst` with the words that they get, while another kernel runs. Made by hand from
/// the entries that the packages of RTAI, Xenomai and Debian install.
#[test]
fn each_kernel_of_a_menu_lst_gets_its_own_words_and_real_time_kernels_come_first() {
    let machine = Machine::without_loader();
    let plan_with = |menu: &str| {
        machine.write("boot/grub/menu.lst", menu);
        let plan = make_plan(&machine.host(), &BootRequest::default()).unwrap();
        let lines = plan.instructions.into_iter().filter(|line| line.starts_with("/boot/"));
        lines.collect::<Vec<_>>()
    };
    let rtai = "title Ubuntu\nkernel /boot/vmlinuz-2.6.32-122-rtai root=/dev/sda1 ro\n";
    let line =
        "/boot/grub/menu.lst:2: kernel /boot/vmlinuz-2.6.32-122-rtai isolcpus=3 root=/dev/sda1 ro";
    assert_eq!(plan_with(rtai), [line]);
    let generic = "title Other\nkernel /boot/vmlinuz-2.6.38-16-generic ro\n";
    let xenomai = "title Xenomai\nkernel (hd0,0)/boot/vmlinuz-2.6.38.8-xenomai ro isolcpus=3\n";
    let evl = "title EVL\nkernel /vmlinuz-5.15.98-evl ro\n";
    assert_eq!(
        plan_with(&format!("{generic}{xenomai}{evl}")),
        [
            "/boot/grub/menu.lst:4: unchanged: it already has the parameters",
            "/boot/grub/menu.lst:6: kernel /vmlinuz-5.15.98-evl isolcpus=3 ro",
        ]
    );
    // Another value is replaced, and options of GRUB, tabs and a hypervisor are no kernel.
    let xen =
        "default saved\ntitle Xen\nkernel /xen.gz dom0_mem=512M\nmodule /vmlinuz-2.6.31-rt9 ro\n";
    let typed =
        "title Typed\nkernel --type=linux /vmlinuz-2.6.32-1\troot=/dev/sda1 ro isolcpus=1 -- s\n";
    let menu = format!("{xen}{typed}");
    assert_eq!(
        plan_with(&menu),
        ["/boot/grub/menu.lst:4: module /vmlinuz-2.6.31-rt9 isolcpus=3 ro"]
    );
    machine.write("boot/grub/default", "1\n#\n");
    let line = "kernel --type=linux /vmlinuz-2.6.32-1 isolcpus=3 root=/dev/sda1 ro -- s";
    let menu = menu.replace("-rt9", "-9");
    assert_eq!(plan_with(&menu), [format!("/boot/grub/menu.lst:6: {line}")]);
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

/// What `plan` names as removed only at boot is what `boot plan` writes for the same CPUs: the same
/// parameter with at least these CPUs and flags.
#[test]
fn the_boot_plan_writes_what_the_plan_names() {
    let mut managed = 0;
    for (name, dir) in own() {
        let host = Host::recorded(&dir.join("root")).unwrap();
        let machine = survey(&host, &[]);
        let Ok(plan) = plan(&machine, &ShieldRequest::default()) else { continue };
        let cpus = Some(plan.shield.cpus.clone());
        let mut shield = ShieldRequest { cpus, ..ShieldRequest::default() };
        for BootAdvice { reason, .. } in &plan.boot {
            // What is unknown is written on request, and the plan says so.
            let name = match reason {
                BootAdviceReason::TickStops { known: false, .. } => "nohz-full",
                BootAdviceReason::CallbacksElsewhere { known: false } => "rcu-nocbs",
                _ => continue,
            };
            shield.tunables.set(name, true);
        }
        let request = BootRequest { shield, ..BootRequest::default() };
        let Ok(boot) = make_plan(&host, &request) else { continue };
        for BootAdvice { parameter, .. } in &plan.boot {
            assert!(words(&boot).contains(&parameter.as_str()), "{name}: {parameter}: {boot:?}");
            managed += usize::from(parameter.contains("managed_irq"));
        }
    }
    assert!(managed >= 1);
}

/// Line and kernel; whether survey, lint, plan and boot plan say that the shield stays open; and
/// the flag that the boot plan adds for managed interrupts.
#[test]
fn the_commands_say_the_same_about_isolcpus() {
    for (release, line, open, expected) in [
        ("6.12.9-rt", "ro isolcpus=3", true, "isolcpus=managed_irq,3"),
        ("6.12.9-rt", "ro isolcpus=managed_irq,domain,3", true, "isolcpus=managed_irq,3"),
        (
            "6.12.9-rt",
            "ro isolcpus=nohz,3",
            false,
            "isolcpus=nohz,3  with  isolcpus=nohz,managed_irq,3",
        ),
        ("6.6.9-rt", "ro isolcpus=3", false, "isolcpus=3  with  isolcpus=domain,managed_irq,3"),
        ("6.18.1", "ro isolcpus=nohz,2", false, "isolcpus=nohz,2  with  isolcpus=managed_irq,2-3"),
        ("6.18.1", "ro isolcpus=managed_irq,3", false, "isolcpus=managed_irq,3"),
        ("5.4.1", "ro", false, "isolcpus-nohz, isolcpus-managed-irq, "),
    ] {
        let machine = Machine::without_loader();
        machine.write("proc/cmdline", line);
        machine.write("proc/sys/kernel/osrelease", release);
        machine.write("sys/devices/system/cpu/isolated", "3\n");
        let mut surveyed = survey(&machine.host(), &[]);
        surveyed.irqs = vec![managed_irq()];
        surveyed.cgroup.mode = CgroupMode::V2;
        surveyed.cgroup.mount = Some("/sys/fs/cgroup".to_owned());
        let says = |text: &str| text.contains("7 to 6.17.2 cannot make");
        let linted: String = lint(&surveyed, &[]).iter().map(ToString::to_string).collect();
        let cpus = Some(CpuSet::single(3));
        let shield = ShieldRequest { cpus, ..ShieldRequest::default() };
        let warned = plan(&surveyed, &shield).unwrap().warnings;
        let warned: String = warned.iter().map(ToString::to_string).collect();
        let request = BootRequest { shield, ..BootRequest::default() };
        let boot = cpushield::boot::plan::plan(
            &machine.host(),
            &surveyed,
            cpushield::boot::WordSource::Request(&request),
            None,
        )
        .unwrap();
        let boot = terminal_blocks(&boot_plan_blocks(&boot), usize::MAX, &unpainted);
        assert_eq!([&linted, &warned, &boot].map(|it| says(it)), [open; 3], "{release} {line}");
        assert!(boot.contains(expected), "{release} {line}: {boot}");
    }
}

/// An interrupt of a queue of all CPUs that is on CPU 3, where the kernel refuses to move it.
fn managed_irq() -> Irq {
    Irq {
        irq: 36,
        chip: "PCI-MSIX-0000:00:04.0".to_owned(),
        actions: "nvme0q1".to_owned(),
        affinity: "0-3".parse().ok(),
        effective: "3".parse().ok(),
        movable: IrqMovability::No("Input/output error (EIO)".to_owned()),
        hint: None,
        counts: BTreeMap::new(),
    }
}

#[test]
fn a_requested_parameter_that_the_kernel_does_not_have_is_a_warning() {
    let mut shield = ShieldRequest { cpus: Some("1".parse().unwrap()), ..ShieldRequest::default() };
    shield.tunables.set("nohz-full", true);
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
fn the_instructions_replace_or_remove_the_words_that_a_note_advises_to_remove() {
    let (_, text) = plan_for("6.12-rt-numa", ShieldRequest::default());
    let advice = "remove isolcpus= (or only its flag domain) from the boot loader's";
    assert!(text.contains(advice), "{text}");
    // Its flag managed_irq stays.
    let (_, steps) = text.split_once("replace:").unwrap();
    let step = "    isolcpus=managed_irq,domain,6-7  with  isolcpus=managed_irq,1-3,5-7";
    assert_eq!(steps.lines().nth(1).map(str::trim_start), Some(step.trim_start()), "{text}");
    assert!(!steps.contains("remove these words"), "{text}");
    let tunables = [("isolcpus-managed-irq".to_owned(), false)].into();
    let (_, text) =
        plan_for("6.12-rt-numa", ShieldRequest { tunables, ..ShieldRequest::default() });
    let (_, steps) = text.split_once("remove these words").unwrap();
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
