//! Machines without a loader that is written: what a person is told to type fits the running
//! kernel, which is all that is known.

use super::{planned, words};
use cpushield::boot::plan::BootRequest;
use cpushield::policy::ShieldRequest;
use cpushield::report::boot_plan_text;
use cpushield_linux::Host;
use std::path::Path;

use super::grub::Machine;

/// The plan of a recorded machine, and what it says.
fn told(machine: &str, wish: ShieldRequest) -> (Vec<String>, String) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("machines").join(machine).join("root");
    let asked = BootRequest { wish, kernels: None };
    let plan = planned(&Host::recorded(&root).unwrap(), &asked).unwrap();
    (words(&plan).into_iter().map(str::to_owned).collect(), boot_plan_text(&plan, usize::MAX))
}

#[test]
fn a_word_that_the_running_kernel_does_not_know_is_not_told_to_be_typed() {
    let (given, text) = told("6.18-hybrid", ShieldRequest::default());
    assert_eq!(given, ["rcu_nocbs=1"]);
    assert!(text.contains("running kernel does not know it: built without CONFIG_NO_HZ_FULL"));
    // One that shows no configuration, but no list of such CPUs either.
    let machine = Machine::without_loader();
    machine.write("sys/devices/system/cpu/isolated", "\n");
    let asked = BootRequest {
        wish: ShieldRequest { count: Some(1), ..ShieldRequest::default() },
        kernels: None,
    };
    let both = planned(&machine.host(), &asked).unwrap();
    assert_eq!(words(&both), ["nohz_full=3", "rcu_nocbs=3", "irqaffinity=0-2"]);
    machine.remove("sys/devices/system/cpu/nohz_full");
    let one = planned(&machine.host(), &asked).unwrap();
    assert_eq!(words(&one), ["rcu_nocbs=3", "irqaffinity=0-2"]);
}

/// An RTAI machine with GRUB 0.97 and without its configuration.
#[test]
fn a_kernel_that_is_too_old_for_a_word_is_not_given_it() {
    let machine = Machine::without_loader();
    machine.remove("sys/devices/system/cpu/nohz_full");
    machine.write(
        "boot/grub/menu.lst",
        "title a\nkernel /vmlinuz-2.6.32-122 ro\ntitle b\nkernel /vmlinuz-3.9.1 ro\n",
    );
    let tell = |release: &str| {
        machine.write("proc/sys/kernel/osrelease", release);
        let plan = planned(&machine.host(), &BootRequest::default()).unwrap();
        (words(&plan).join(" "), boot_plan_text(&plan, 200), plan.instructions.join("\n"))
    };
    let (given, text, steps) = tell("2.6.32-122-rtai\n");
    assert_eq!(given, "");
    for since in ["it came with Linux 3.10", "it came with Linux 3.8"] {
        assert!(text.contains(since), "{text}");
    }
    assert!(!steps.contains("nohz_full") && !steps.contains("rcu_nocbs"), "{steps}");
    // The running kernel knows them; those of the menu are looked at one by one.
    let (given, _, steps) = tell("3.10.0\n");
    assert_eq!(given, "nohz_full=1-3 rcu_nocbs=1-3");
    assert!(steps.contains("line 2: leave it, this kernel knows none of them"), "{steps}");
    assert!(steps.contains("line 4: kernel /vmlinuz-3.9.1 ro rcu_nocbs=1-3"), "{steps}");
}

#[test]
fn a_word_that_is_there_with_another_value_is_replaced_and_not_added_a_second_time() {
    let (_, text) = told("6.12-rt-smt", ShieldRequest::default());
    assert!(text.contains("booted with nohz_full=1-3,5-7\n"), "{text}");
    assert!(text.contains("    nohz_full=1-3,5-7  by  nohz_full=2-7\n"), "{text}");
    assert!(!text.contains("add these words"), "{text}");
    // Another value and a new word beside it.
    let machine = Machine::without_loader();
    let tell = |line: &str| {
        machine.write("proc/cmdline", line);
        let wish = ShieldRequest { cpus: Some("2-3".parse().unwrap()), ..ShieldRequest::default() };
        planned(&machine.host(), &BootRequest { wish, kernels: None })
            .unwrap()
            .instructions
            .join("\n")
    };
    let mixed = tell("ro nohz_full=3 rcu_nocbs=2,3\n");
    assert!(mixed.contains("    nohz_full=3  by  nohz_full=2-3\n"), "{mixed}");
    assert!(mixed.contains("\n    irqaffinity=0-1\n") && !mixed.contains("rcu_nocbs"), "{mixed}");
    assert!(tell("ro nr_cpus=3\n").starts_with("first: nr_cpus=3 is there already"));
    let all = tell("ro nohz_full=2-3 rcu_nocbs=2-3 irqaffinity=0-1\n");
    assert_eq!(all, "the running kernel was booted with all of them: nothing is to be added");
    machine.write("run/ostree-booted", "");
    let named = tell("ro nohz_full=3\n");
    assert!(named.starts_with("take out of the kernel's command line first: nohz_full=3"));
    assert!(named.contains("--append-if-missing=nohz_full=2-3"), "{named}");
}

#[test]
fn what_plan_advises_on_this_machine_is_offered() {
    let offer = "--on isolcpus-managed-irq adds it";
    let (_, text) = told("6.18-hybrid", ShieldRequest::default());
    assert!(text.contains(offer), "{text}");
    let tunables = [("isolcpus-managed-irq".to_owned(), true)].into();
    let (given, text) = told("6.18-hybrid", ShieldRequest { tunables, ..ShieldRequest::default() });
    assert_eq!(given, ["rcu_nocbs=1", "isolcpus=managed_irq,1"]);
    assert!(!text.contains(offer), "{text}");
    // Its queues that arrive on shielded CPUs serve those alone.
    assert!(!told("6.12-nvme", ShieldRequest::default()).1.contains(offer));
}
