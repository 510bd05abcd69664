//! Settings of other tools that a tunable makes too. Pure.

use crate::survey::other_tools::{SettingTarget, ToolSetting};

/// Kernel files that a tool sets, and the tunable with the same effect.
const FILES: &[(&str, &str)] = &[
    ("/proc/sys/kernel/nmi_watchdog", "watchdog"),
    ("/proc/sys/kernel/sched_rt_runtime_us", "rt-throttling"),
    ("/proc/sys/kernel/watchdog", "watchdog"),
    ("/proc/sys/vm/stat_interval", "vm-stat-interval"),
    ("/sys/bus/workqueue/devices/writeback/cpumask", "workqueues"),
    ("/sys/devices/system/machinecheck/machinecheck0/check_interval", "mce-check-interval"),
];

/// The tunable with the same effect as a setting; `None` where there is none, and for words of the
/// kernel command line.
pub(super) fn find_tunable(setting: &ToolSetting) -> Option<&'static str> {
    let SettingTarget::KernelFile { path } = &setting.target else { return None };
    FILES.iter().find(|(known, _)| known == path).map(|(_, tunable)| *tunable)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tunables;

    #[test]
    fn every_tunable_of_the_table_exists() {
        for (_, name) in FILES {
            assert!(tunables::named(name).is_some(), "{name}");
        }
    }
}
