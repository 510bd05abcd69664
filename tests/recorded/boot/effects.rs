//! Whether a word is in force: what the running kernel shows for each of them.

use super::grub::Machine;
use cpushield::boot::parameter_effect::ParameterEffect;
use cpushield::boot::running_lint::nohz_full_difference;

#[test]
fn each_word_is_compared_with_what_the_kernel_shows_for_it() {
    let machine = Machine::debian();
    let effect = |word| ParameterEffect::read(&machine.host(), word);
    let shows =
        |text: &str, same| ParameterEffect { shows: Some(text.to_owned()), in_force: Some(same) };
    machine.write("sys/devices/system/cpu/isolated", "2-3\n");
    machine.write("sys/devices/system/cpu/nohz_full", "2\n");
    machine.write("proc/irq/default_smp_affinity", "3\n");
    assert_eq!(effect("isolcpus=3"), shows("isolated: 2-3", true));
    assert_eq!(effect("isolcpus=1-3"), shows("isolated: 2-3", false));
    assert_eq!(effect("isolcpus=nohz,domain,2-3"), shows("isolated: 2-3, nohz_full: 2", false));
    assert_eq!(effect("isolcpus=managed_irq,2-3"), ParameterEffect::default());
    assert_eq!(effect("irqaffinity=0-1"), shows("irqaffinity: 0-1", true));
    assert_eq!(effect("irqaffinity=0"), shows("irqaffinity: 0-1", false));
    // The kernel adds the boot CPU.
    assert_eq!(effect("irqaffinity=1"), shows("irqaffinity: 0-1", true));
    // Without kernel threads, as in a container, nothing is known about RCU callbacks.
    assert_eq!(effect("rcu_nocbs=2-3"), ParameterEffect::default());
    for (pid, name) in [(2, "kthreadd"), (31, "rcuog/2"), (32, "rcuop/2")] {
        machine.write(&format!("proc/{pid}/stat"), &kernel_thread(pid, name));
    }
    assert_eq!(effect("rcu_nocbs=2-3"), shows("rcuo threads: 2", false));
    machine.write("proc/33/stat", &kernel_thread(33, "rcuop/3"));
    assert_eq!(effect("rcu_nocbs=2-3"), shows("rcuo threads: 2-3", true));
}

/// The form `2-N` fits every machine: the kernel puts its last CPU there (6.12).
#[test]
fn a_list_up_to_the_last_cpu_is_in_force_when_the_kernel_shows_these_cpus() {
    let machine = Machine::debian();
    machine.write("sys/devices/system/cpu/nohz_full", "1-3\n");
    machine.write("proc/irq/default_smp_affinity", "f\n");
    machine.write("sys/devices/virtual/workqueue/cpumask", "c\n");
    for (pid, name) in [(2, "kthreadd"), (31, "rcuop/2"), (32, "rcuop/3")] {
        machine.write(&format!("proc/{pid}/stat"), &kernel_thread(pid, name));
    }
    for (word, in_force) in [
        ("nohz_full=1-N", true),
        ("nohz_full=2-N", false),
        ("nohz_full=all", false),
        ("rcu_nocbs=2-N", true),
        ("rcu_nocbs=all", false),
        ("irqaffinity=0-N", true),
        ("workqueue.unbound_cpus=2-N", true),
        ("workqueue.unbound_cpus=N", false),
        ("isolcpus=nohz,1-N", true),
    ] {
        assert_eq!(ParameterEffect::read(&machine.host(), word).in_force, Some(in_force), "{word}");
    }
}

#[test]
fn whether_a_list_is_in_force_is_unknown_if_its_last_cpu_is() {
    let machine = Machine::debian();
    machine.write("sys/devices/system/cpu/nohz_full", "(null)\n");
    assert_eq!(ParameterEffect::read(&machine.host(), "nohz_full=1-N").in_force, Some(false));
    std::fs::remove_file(machine.path("sys/devices/system/cpu/possible")).unwrap();
    assert_eq!(ParameterEffect::read(&machine.host(), "nohz_full=1-N").in_force, None);
    assert_eq!(ParameterEffect::read(&machine.host(), "nohz_full=1-3").in_force, Some(false));
}

/// The kernel keeps the list that comes first: `housekeeping_setup()`, kernel/sched/isolation.c
/// (6.12).
#[test]
fn an_isolcpus_that_the_kernel_ignored_because_of_nohz_full_is_not_in_force() {
    let machine = Machine::debian();
    machine.write("proc/cmdline", "ro nohz_full=1-3 isolcpus=nohz,2-3\n");
    machine.write("sys/devices/system/cpu/nohz_full", "1-3\n");
    let ignored = ParameterEffect::read(&machine.host(), "isolcpus=nohz,2-3");
    assert_eq!((ignored.shows.as_deref(), ignored.in_force), (Some("nohz_full: 1-3"), Some(false)));
    assert_eq!(ParameterEffect::read(&machine.host(), "nohz_full=1-3").in_force, Some(true));
}

/// The `stat` of a kernel thread (`PF_KTHREAD`, 0x200000).
pub fn kernel_thread(pid: i32, name: &str) -> String {
    let zeros = ["0"; 43].join(" ");
    format!("{pid} ({name}) S 0 0 0 0 -1 2097152 {zeros}\n")
}

#[test]
fn a_nohz_full_that_is_not_in_force_is_reported_with_the_message_of_the_kernel() {
    let machine = Machine::debian();
    machine.write("proc/cmdline", "ro nohz_full=1-3\n");
    let difference = || nohz_full_difference(&machine.host()).map(|it| it.to_string());
    machine.write("sys/devices/system/cpu/nohz_full", "1-3\n");
    assert_eq!(difference(), None);
    machine.write("sys/devices/system/cpu/nohz_full", "1-2\n");
    let differs =
        "nohz_full=1-3 requests CPU 1-3, but /sys/devices/system/cpu/nohz_full has CPU 1-2";
    assert_eq!(difference().as_deref(), Some(differs));
    let message = "NO_HZ: Clearing 3 from nohz_full range for timekeeping";
    machine.write("dev/kmsg", &format!("4,1,0,-;{message}\n"));
    assert_eq!(difference(), Some(format!("{differs}; the kernel reported: {message}")));
    // CPUs that a partition would have added are a difference too.
    machine.write("sys/devices/system/cpu/nohz_full", "0-3\n");
    assert!(difference().is_some_and(|text| text.contains("has CPU 0-3")));
    machine.write("proc/cmdline", "ro quiet\n");
    machine.write("sys/devices/system/cpu/nohz_full", "3\n");
    let observed = "/sys/devices/system/cpu/nohz_full has CPU 3, which no word of the command \
                    line requests";
    assert_eq!(difference().as_deref(), Some(observed));
    machine.write("sys/devices/system/cpu/nohz_full", "\n");
    assert_eq!(difference(), None);
}
