//! What the running kernel shows: its boot, its CPUs, and whether a parameter is in force.

use super::parameters::{KernelFacts, KernelParameter, ParameterSupport};
use crate::survey::Machine;
use cpushield_linux::text::cmdline;
use cpushield_linux::text::first_releases;
use cpushield_linux::{CpuSet, Host, Task};
use std::collections::BTreeMap;

const NOHZ_FULL: &str = "/sys/devices/system/cpu/nohz_full";

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

/// Whether the running kernel has a parameter.
pub(super) fn support(parameter: &KernelParameter, machine: &Machine) -> ParameterSupport {
    let kernel = &machine.kernel;
    let (arch, release) = (kernel.arch.as_deref(), kernel.release.as_deref());
    parameter.support(&KernelFacts { options: &running_options(machine), arch, release })
}

/// Reads what the kernel shows for a word, and whether that is what the word requests; `None` where
/// it shows nothing, or a list cannot be read.
#[must_use]
pub fn read_effect(host: &Host, word: &str) -> (Option<String>, Option<bool>) {
    let (name, value) = word.split_once('=').unwrap_or((word, ""));
    let path = match name {
        "nohz_full" => NOHZ_FULL,
        "irqaffinity" => "/proc/irq/default_smp_affinity",
        "workqueue.unbound_cpus" => "/sys/devices/virtual/workqueue/cpumask",
        "nosmt" => "/sys/devices/system/cpu/smt/control",
        "clocksource" => "/sys/devices/system/clocksource/clocksource0/current_clocksource",
        "isolcpus" => return read_isolated(host, value),
        "rcu_nocbs" => return read_offloaded(host, value),
        _ => return (None, None),
    };
    let Ok(text) = host.read_line(path) else { return (None, None) };
    let text = text.trim();
    let possible = possible_cpus(host);
    let wanted = CpuSet::parse_list(value, possible.last()).ok();
    // Without the possible CPUs, `N` may be any CPU. Otherwise the kernel cannot parse it either.
    let in_force = |same: Option<bool>| same.or((!possible.is_empty()).then_some(false));
    let (found, same) = match name {
        "nohz_full" => {
            // It shows `(null)` without a list.
            let set = text.parse::<CpuSet>().ok();
            (text.to_owned(), in_force(wanted.map(|wanted| set == Some(wanted))))
        }
        // The masks have existing CPUs only; the parameter may name more. The kernel adds the boot
        // CPU to the default affinity, which is CPU 0 except after kexec (`irq_affinity_setup()`,
        // kernel/irq/irqdesc.c, 04b5989e9209).
        "irqaffinity" | "workqueue.unbound_cpus" => match CpuSet::parse_mask(text) {
            Ok(set) => {
                let added = if name == "irqaffinity" { CpuSet::single(0) } else { CpuSet::new() };
                let same = wanted.map(|wanted| set.is_subset(&wanted.union(&added)));
                (set.to_string(), in_force(same))
            }
            Err(_) => (text.to_owned(), None),
        },
        "nosmt" => (text.to_owned(), Some(["off", "forceoff", "notsupported"].contains(&text))),
        _ => (text.to_owned(), Some(text == value)),
    };
    let name = if cmdline::same_name(name, "nosmt") { "smt" } else { name };
    (Some(format!("{name}: {found}")), same)
}

/// The CPUs of a list in which `N` and `all` are allowed, as in `nohz_full=2-N`; `None` when it
/// cannot be parsed.
fn parse_list(host: &Host, list: &str) -> Option<CpuSet> {
    CpuSet::parse_list(list, possible_cpus(host).last()).ok()
}

/// What the kernel shows for `isolcpus=`: `isolated` for the flag `domain`, `nohz_full` for `nohz`.
/// It does not show the CPUs of `managed_irq`. From 7.0 live partitions can add CPUs to `isolated`,
/// so CPUs in addition to those of the word are no difference there. In `nohz_full` they are one:
/// an earlier `nohz_full=` has set them, and the kernel has ignored this word.
fn read_isolated(host: &Host, value: &str) -> (Option<String>, Option<bool>) {
    let Ok(wanted) = cmdline::isolcpus(value, possible_cpus(host).last()) else {
        return (None, None);
    };
    let files = [
        (wanted.domain, "isolated", "/sys/devices/system/cpu/isolated"),
        (wanted.nohz, "nohz_full", NOHZ_FULL),
    ];
    let (mut shows, mut same) = (Vec::new(), true);
    for (_, name, path) in files.into_iter().filter(|(requested, ..)| *requested) {
        let Ok(text) = host.read_line(path) else { continue };
        let Ok(cpus) = text.trim().parse::<CpuSet>() else { continue };
        same &= match path == NOHZ_FULL {
            true => wanted.cpus == cpus,
            false => wanted.cpus.is_subset(&cpus),
        };
        shows.push(format!("{name}: {}", text.trim()));
    }
    match shows.is_empty() {
        true => (None, None),
        false => (Some(shows.join(", ")), Some(same)),
    }
}

/// What the kernel shows for `rcu_nocbs=`: a thread for each of its online CPUs. With
/// `nocb_is_setup` other CPUs have one too, so more threads are no difference
/// (`rcu_spawn_cpu_nocb_kthread()`, kernel/rcu/tree_nocb.h, 6.12).
fn read_offloaded(host: &Host, value: &str) -> (Option<String>, Option<bool>) {
    let online = host.read_line("/sys/devices/system/cpu/online").unwrap_or_default();
    let (Some(wanted), Ok(online)) = (parse_list(host, value), online.parse::<CpuSet>()) else {
        return (None, None);
    };
    let tasks = host.tasks().unwrap_or_default();
    let Some(threads) = offloaded_cpus(tasks.iter()) else { return (None, None) };
    let shows = if threads.is_empty() { "none".to_owned() } else { threads.to_string() };
    let same = wanted.intersection(&online).is_subset(&threads);
    (Some(format!("rcuo threads: {shows}")), Some(same))
}

/// CPUs with a thread that runs their RCU callbacks: `rcuop/3`, or `rcuos/3` without preemption and
/// `rcuob/3` of old kernels (`rcu_spawn_cpu_nocb_kthread()`, kernel/rcu/tree_nocb.h, 6.12). `None`
/// when no kernel thread is visible, as in a container.
pub(super) fn offloaded_cpus<'a>(tasks: impl Iterator<Item = &'a Task>) -> Option<CpuSet> {
    let mut kthreads = tasks.filter(|task| task.kthread).peekable();
    kthreads.peek()?;
    let numbers = kthreads.filter_map(|task| {
        let (flavor, cpu) = task.comm.strip_prefix("rcuo")?.split_once('/')?;
        ["p", "s", "b"].contains(&flavor).then(|| cpu.parse().ok())?
    });
    Some(numbers.collect())
}
