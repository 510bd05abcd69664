//! What the running kernel shows: its boot, its CPUs, and the parameters that it has.

use crate::documents::machine::Machine;
use cpushield_linux::text::first_releases;
use cpushield_linux::{CpuSet, Host, Task};
use std::collections::BTreeMap;

/// The id of this boot; `None` when it cannot be read.
pub(super) fn boot_id(host: &Host) -> Option<String> {
    host.read_line("/proc/sys/kernel/random/boot_id").ok()
}

/// CPUs that the kernel could ever have; empty when they cannot be read.
pub(super) fn possible_cpus(host: &Host) -> CpuSet {
    let text = host.read_line("/sys/devices/system/cpu/possible").unwrap_or_default();
    text.parse().unwrap_or_default()
}

/// CPUs that are online; empty when they cannot be read.
pub(super) fn online_cpus(host: &Host) -> CpuSet {
    let text = host.read_line("/sys/devices/system/cpu/online").unwrap_or_default();
    text.parse().unwrap_or_default()
}

/// Whether a machine with this text in `smt/control` has SMT, which may be switched off.
pub(super) fn has_smt(control: &str) -> bool {
    ["on", "off", "forceoff"].contains(&control)
}

/// Whether the machine has SMT; `false` when that cannot be read.
pub(super) fn shows_smt(host: &Host) -> bool {
    host.read_line("/sys/devices/system/cpu/smt/control").is_ok_and(|text| has_smt(text.trim()))
}

/// The options of the running kernel: its configuration, or what its files show of it. Empty when
/// neither is known.
pub(super) fn running_options(machine: &Machine) -> BTreeMap<String, String> {
    let mut options = machine.kernel.config.clone();
    // Of a kernel older than the option, the version says why it cannot.
    let older = machine.kernel.version.is_some_and(|version| version < first_releases::NOHZ_FULL);
    if options.is_empty()
        && !older
        && let Some(stops) = machine.can_stop_tick()
    {
        let value = if stops { "y" } else { "n" };
        options.insert("CONFIG_NO_HZ_FULL".to_owned(), value.to_owned());
        // NO_HZ_FULL selects RCU_NOCB_CPU (kernel/time/Kconfig, 3.10 and 6.12).
        if stops {
            options.insert("CONFIG_RCU_NOCB_CPU".to_owned(), value.to_owned());
        }
    }
    options
}

/// CPUs with a thread that runs their RCU callbacks: `rcuop/3`, or `rcuos/3` without preemption and
/// `rcuob/3` of old kernels (`rcu_spawn_cpu_nocb_kthread()`, kernel/rcu/tree_nocb.h, 6.12). `None`
/// when no kernel thread is visible, as in a container.
pub(super) fn offloaded_cpus<'a>(tasks: impl Iterator<Item = &'a Task>) -> Option<CpuSet> {
    let mut kthreads = tasks.filter(|task| task.kthread).peekable();
    kthreads.peek()?;
    let numbers = kthreads.filter_map(|task| {
        let (flavor, cpu) = task.comm.strip_prefix("rcuo")?.split_once('/')?;
        ["p", "s", "b"].contains(&flavor).then(|| cpu.parse::<usize>().ok())?
    });
    Some(numbers.collect())
}
