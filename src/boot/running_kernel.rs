//! What the running kernel shows: its boot, its CPUs, and whether a parameter is in force.

use crate::survey::Machine;
use cpushield_linux::text::cmdline;
use cpushield_linux::{CpuSet, Host};
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

/// The options of the running kernel: its configuration, or what its files show of it. Empty when
/// neither is known.
pub(super) fn running_options(machine: &Machine) -> BTreeMap<String, String> {
    let mut options = machine.kernel.config.clone();
    if options.is_empty()
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

/// Reads what the kernel shows for a word, and whether that is what the word requests; `None` where
/// it shows nothing.
#[must_use]
pub fn read_effect(host: &Host, word: &str) -> (Option<String>, Option<bool>) {
    let (name, value) = word.split_once('=').unwrap_or((word, ""));
    if cmdline::same_name(name, "isolcpus") {
        return read_isolcpus(host, value);
    }
    let path = match name {
        "nohz_full" => "/sys/devices/system/cpu/nohz_full",
        "irqaffinity" => "/proc/irq/default_smp_affinity",
        "workqueue.unbound_cpus" => "/sys/devices/virtual/workqueue/cpumask",
        "nosmt" => "/sys/devices/system/cpu/smt/control",
        "clocksource" => "/sys/devices/system/clocksource/clocksource0/current_clocksource",
        _ => return (None, None),
    };
    let Ok(text) = host.read_line(path) else { return (None, None) };
    let text = text.trim();
    let wanted = value.parse::<CpuSet>().ok();
    let (found, same) = match name {
        "nohz_full" => {
            let set = text.parse::<CpuSet>().ok();
            (text.to_owned(), set.is_some() && set == wanted)
        }
        // The masks have existing CPUs only; the parameter may name more.
        "irqaffinity" | "workqueue.unbound_cpus" => match CpuSet::parse_mask(text) {
            Ok(set) => (set.to_string(), wanted.is_some_and(|wanted| set.is_subset(&wanted))),
            Err(_) => (text.to_owned(), false),
        },
        "nosmt" => (text.to_owned(), ["off", "forceoff", "notsupported"].contains(&text)),
        _ => (text.to_owned(), text == value),
    };
    let name = if cmdline::same_name(name, "nosmt") { "smt" } else { name };
    (Some(format!("{name}: {found}")), Some(same))
}

/// What the kernel shows for `isolcpus=`: the CPUs of `domain`, else those of `nohz`. It shows
/// nothing for `managed_irq`.
fn read_isolcpus(host: &Host, value: &str) -> (Option<String>, Option<bool>) {
    let last = possible_cpus(host).last();
    let Ok(wanted) = cmdline::isolcpus(value, last) else { return (None, None) };
    let name = match (wanted.domain, wanted.nohz) {
        (true, _) => "isolated",
        (false, true) => "nohz_full",
        (false, false) => return (None, None),
    };
    let Ok(text) = host.read_line(&format!("/sys/devices/system/cpu/{name}")) else {
        return (None, None);
    };
    // From 7.0 `isolated` has the CPUs of live partitions too.
    let shown: CpuSet = text.trim().parse().unwrap_or_default();
    let same = wanted.cpus.is_subset(&shown);
    (Some(format!("{name}: {}", text.trim())), Some(same && !shown.is_empty()))
}
