//! Settings of other tools that a tunable makes too. Pure.

use crate::glob;
use crate::survey::other_tools::{SettingTarget, ToolSetting};

/// What a setting of another tool is for cpushield.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SettingMeaning {
    /// These tunables have the same effect.
    Tunables(&'static [&'static str]),
    /// This tunable sets the same file to another value.
    OtherValue(&'static str),
    /// No tunable is about it.
    Unknown,
}

/// Kernel files, the values for which a tunable has the same effect (empty: any value), and the
/// tunable.
const FILES: &[(&str, &[&str], &str)] = &[
    ("/proc/sys/kernel/sched_rt_runtime_us", &["-1"], "rt-throttling"),
    ("/proc/irq/default_smp_affinity", &[], "irq-affinity"),
    ("/sys/devices/virtual/workqueue/cpumask", &[], "workqueues"),
    ("/sys/devices/virtual/workqueue/*/cpumask", &[], "workqueues"),
    ("/sys/bus/workqueue/devices/*/cpumask", &[], "workqueues"),
    ("/proc/sys/kernel/timer_migration", &["1"], "timer-migration"),
    ("/proc/sys/kernel/watchdog", &["0"], "watchdog"),
    ("/proc/sys/kernel/nmi_watchdog", &["0"], "watchdog"),
    ("/proc/sys/kernel/soft_watchdog", &["0"], "watchdog"),
    ("/proc/sys/kernel/watchdog_cpumask", &[], "watchdog"),
    ("/proc/sys/vm/stat_interval", &[], "vm-stat-interval"),
    ("/proc/sys/kernel/numa_balancing", &["0"], "numa-balancing"),
    ("/sys/devices/system/machinecheck/machinecheck*/check_interval", &["0"], "mce-check-interval"),
    ("/sys/devices/system/machinecheck/machinecheck*/ignore_ce", &["1"], "mce-check-interval"),
    ("/sys/kernel/rcu_normal", &["1"], "rcu-normal"),
    ("/sys/kernel/mm/ksm/run", &["0", "2"], "ksm"),
    ("/sys/kernel/mm/transparent_hugepage/enabled", &["never"], "thp"),
    ("/proc/sys/vm/dirty_writeback_centisecs", &[], "writeback-interval"),
    ("/sys/devices/system/cpu/intel_pstate/no_turbo", &["1"], "no-turbo"),
    ("/sys/devices/system/cpu/cpufreq/boost", &["0"], "no-turbo"),
];

/// Options of tuned's plugins, the values as in [`FILES`], and the tunables.
const OPTIONS: &[(&str, &[&str], &[&str])] = &[
    ("[irqbalance] banned_cpus", &[], &["irqbalance"]),
    // It moves tasks, kernel threads and interrupts (tuned/plugins/plugin_scheduler.py, 2.20).
    ("[scheduler] isolated_cores", &[], &["cpuset", "kthreads", "irq-affinity"]),
    ("[systemd] cpu_affinity", &[], &["cpuset"]),
    ("[vm] transparent_hugepages", &["never"], &["thp"]),
    ("[vm] transparent_hugepage", &["never"], &["thp"]),
    ("[cpu] governor", &["performance"], &["cpu-governor"]),
    ("[cpu] force_latency", &[], &["cpu-idle"]),
    ("[cpu] no_turbo", &["1"], &["no-turbo"]),
    ("[cpu] boost", &["0"], &["no-turbo"]),
];

/// What a setting is for cpushield, except words of the kernel command line.
pub(super) fn find_meaning(setting: &ToolSetting) -> SettingMeaning {
    let Ok(value) = &setting.value else { return SettingMeaning::Unknown };
    let fits = |values: &[&str]| values.is_empty() || values.contains(&value.as_str());
    match &setting.target {
        SettingTarget::KernelFile { path } => {
            let same = |known: &str| known == path || glob::matches_path(known, path);
            match FILES.iter().find(|(known, ..)| same(known)) {
                Some((_, values, tunable)) if fits(values) => {
                    SettingMeaning::Tunables(std::slice::from_ref(tunable))
                }
                Some((.., tunable)) => SettingMeaning::OtherValue(tunable),
                None => SettingMeaning::Unknown,
            }
        }
        SettingTarget::ToolOption => {
            let found = OPTIONS.iter().find(|(known, ..)| *known == setting.name);
            match found.filter(|(_, values, _)| fits(values)) {
                Some((.., tunables)) => SettingMeaning::Tunables(tunables),
                None => SettingMeaning::Unknown,
            }
        }
        SettingTarget::BootParameter => SettingMeaning::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tunables;

    #[test]
    fn every_tunable_of_the_tables_exists() {
        let of_options = OPTIONS.iter().flat_map(|(.., names)| names.iter());
        for name in FILES.iter().map(|(.., name)| name).chain(of_options) {
            assert!(tunables::named(name).is_some(), "{name}");
        }
    }
}
