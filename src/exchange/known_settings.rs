//! Settings of other tools that a tunable makes too. Pure.

use crate::glob;
use crate::policy::TunableSetting;
use crate::survey::other_tools::{SettingTarget, ToolSetting};
use crate::tunables::spell_setting;

/// Kernel files that a tool sets, and the tunable with the same effect.
const FILES: &[(&str, &str)] = &[
    ("/proc/sys/kernel/nmi_watchdog", "watchdog"),
    ("/proc/sys/kernel/sched_rt_runtime_us", "rt-throttling"),
    ("/proc/sys/kernel/watchdog", "watchdog"),
    ("/proc/sys/vm/stat_interval", "vm-stat-interval"),
    ("/sys/bus/workqueue/devices/writeback/cpumask", "workqueues"),
    ("/sys/devices/system/cpu/cpu*/power/pm_qos_resume_latency_us", "cpu-idle"),
    ("/sys/devices/system/machinecheck/machinecheck0/check_interval", "mce-check-interval"),
];

/// The tunable with the same effect as a setting, and what a policy says about it; `None` where
/// there is none, and for words of the kernel command line.
pub(super) fn find_tunable(setting: &ToolSetting) -> Option<(&'static str, TunableSetting)> {
    let SettingTarget::KernelFile { path } = &setting.target else { return None };
    let (_, name) = FILES.iter().find(|(known, _)| glob::matches_path(known, path))?;
    let limit = match (*name, setting.value.as_str()) {
        ("cpu-idle", "n/a") => "0us".to_owned(),
        ("cpu-idle", us) => format!("{us}us"),
        _ => return Some((name, true.into())),
    };
    spell_setting(name, &TunableSetting::Value(limit)).ok().map(|setting| (*name, setting))
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
