//! `cpu-idle` and `cpu-governor`: no deep sleep and no low frequencies on the shield. Pure.

use super::want::setting;
use super::{Tunable, TunableValue, WantedChange, WantedChanges};
use crate::causes::Cause;
use crate::change::{Risk, ValueComparison};
use crate::documents::inapplicable::InapplicableReason;
use crate::documents::machine::Machine;
use crate::documents::plan::{OffReason, Shield};
use crate::policy::parse_span;
use std::collections::BTreeMap;

/// The governor of a CPU, below the directory of the CPU.
const GOVERNOR: &str = "cpufreq/scaling_governor";

pub(super) const CPU_IDLE: Tunable = Tunable {
    name: "cpu-idle",
    summary: "limit the exit latency of the sleep states on the shield, by default to 0",
    page: "\
A CPU in deep sleep can take hundreds of microseconds to wake. This tunable limits the exit latency
of the sleep states that a CPU of the shield uses. With `--on cpu-idle=20us`, the CPU uses only
states that it leaves within 20 µs by the table of the driver. A policy has `cpu-idle = \"20us\"`.
Without a value, or with `0us`, it uses none with an exit latency: with a cpuidle driver on x86 an
idle CPU then polls; elsewhere it uses its shallowest state.

The limit is written in microseconds to `power/pm_qos_resume_latency_us` of each CPU that runs
programs, `n/a` for 0. Idle SMT siblings sleep as before, because a sibling that polls slows down
the work on its core. A lower limit that is there already stays.

Off unless requested (`--on cpu-idle`): a polling program never sleeps, so it gains nothing. A
program that wakes periodically wakes sooner, but this costs power and heat. With SMT or turbo, it
also slows down the neighbouring CPUs. Measure with and without it.

Source: pm_qos_resume_latency_us_store() in drivers/base/power/sysfs.c (6.12): a limit is less than
2147483647, and 0 is written as `n/a`; cpuidle_governor_latency_req() in
drivers/cpuidle/governor.c; Documentation/ABI/testing/sysfs-devices-power.",
    reads: &["/sys/devices/system/cpu/cpu*/power/pm_qos_resume_latency_us"],
    risk: Risk::Low,
    optional: |_| Some(OffReason::OnlyCostsPower),
    value: Some(TunableValue {
        expected: "a whole number of microseconds, from 0us to 2147483646us",
        spell: |text| latency_us(text).map(|us| format!("{us}us")),
    }),
    wants: forbid_sleep,
    ..Tunable::PLAIN
};

fn forbid_sleep(machine: &Machine, shield: &Shield) -> WantedChanges {
    if machine.power.cpuidle_driver.as_deref().is_none_or(|driver| driver == "none") {
        return WantedChanges::Nothing(InapplicableReason::NoIdleStates);
    }
    let file = "power/pm_qos_resume_latency_us";
    let limit = shield.tunables.value(CPU_IDLE.name).and_then(latency_us).unwrap_or(0);
    let value = if limit == 0 { "n/a".to_owned() } else { limit.to_string() };
    let cpus = shield.online_cpus().difference(&shield.idle_siblings);
    let wanted = cpus.iter().filter_map(|cpu| {
        let path = format!("/sys/devices/system/cpu/cpu{cpu}/{file}");
        let now = setting(machine, &path)?.to_owned();
        let is_lower = now == "n/a" || now.parse().is_ok_and(|now: u32| 0 < now && now < limit);
        let reason = "waking from deep sleep takes time";
        let write = WantedChange::write(Some(now), &path, &value, ValueComparison::Text, reason);
        Some(if is_lower { write.already_if(true) } else { write })
    });
    changes_of(wanted.collect(), file)
}

/// Reads an exit latency that the kernel accepts as a limit, in microseconds.
fn latency_us(text: &str) -> Option<u32> {
    const LIMIT_MAX: u64 = i32::MAX as u64 - 1;
    let ns = parse_span(text).ok()?;
    let us = Some(ns / 1_000).filter(|us| ns.is_multiple_of(1_000) && *us <= LIMIT_MAX)?;
    u32::try_from(us).ok()
}

pub(super) const CPU_GOVERNOR: Tunable = Tunable {
    name: "cpu-governor",
    summary: "request the highest frequency for the shielded CPUs",
    page: "\
The frequency governor of a CPU chooses its frequency. `performance` always requests the highest one
that `scaling_max_freq` allows. So a program that wakes up does not wait for the CPU to speed up.
The hardware can still choose a lower frequency, for example when it is hot.

Off unless requested (`--on cpu-governor`): it costs power and heat, and on many machines CPUs share
one frequency, so other CPUs change too. A constant frequency also avoids frequency changes, which
interrupt the CPU (`frequency`).

cpushield does not change the governor `userspace`, because the kernel would then forget the
frequency that the user set. When the last CPU leaves a governor, the kernel resets the settings of
the governor (`ondemand/`, `schedutil/`) to their defaults. In its active mode, amd-pstate changes
`energy_performance_preference` together with the governor. Undo restores neither.

Source: Documentation/admin-guide/pm/cpufreq.rst; cpufreq_userspace_policy_stop() in
drivers/cpufreq/cpufreq_userspace.c, cpufreq_dbs_governor_exit() in
drivers/cpufreq/cpufreq_governor.c, amd_pstate_epp_update_limit() in drivers/cpufreq/amd-pstate.c
(6.12).",
    reads: &[
        "/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor",
        "/sys/devices/system/cpu/cpufreq/policy*/scaling_governor",
    ],
    removes: &[Cause::Frequency],
    risk: Risk::Low,
    optional: |_| Some(OffReason::CostsPower),
    wants: request_speed,
    ..Tunable::PLAIN
};

fn request_speed(machine: &Machine, shield: &Shield) -> WantedChanges {
    let cpus = shield.online_cpus();
    let governors = cpus.iter().filter_map(|cpu| governor_of(machine, cpu));
    let mut governors: BTreeMap<String, &str> = governors.collect();
    let found = governors.len();
    // The kernel forgets the frequency of this governor (cpufreq_userspace_policy_stop(),
    // drivers/cpufreq/cpufreq_userspace.c, 6.12).
    governors.retain(|_, governor| *governor != "userspace");
    if governors.is_empty() && found > 0 {
        return WantedChanges::Nothing(InapplicableReason::FrequencySet);
    }
    let wanted = governors.into_iter().map(|(path, now)| {
        let reason = "a CPU at a low frequency responds slowly";
        let now = Some(now.to_owned());
        WantedChange::write(now, &path, "performance", ValueComparison::Text, reason)
    });
    changes_of(wanted.collect(), GOVERNOR)
}

/// The file of a CPU's governor, and the governor. CPUs that share a policy have the same file, so
/// that two shields with one of them each know that they share the setting.
fn governor_of(machine: &Machine, cpu: usize) -> Option<(String, &str)> {
    let own = format!("/sys/devices/system/cpu/cpu{cpu}/{GOVERNOR}");
    let policy = machine.power.policies.iter().find(|(_, cpus)| cpus.contains(cpu));
    let path = policy.map_or(own, |(number, _)| {
        format!("/sys/devices/system/cpu/cpufreq/policy{number}/scaling_governor")
    });
    let now = setting(machine, &path)?;
    Some((path, now))
}

/// The changes, or that no shielded CPU has this file.
fn changes_of(wanted: Vec<WantedChange>, file: &str) -> WantedChanges {
    if wanted.is_empty() {
        return WantedChanges::Nothing(InapplicableReason::CpuFileAbsent { file: file.to_owned() });
    }
    WantedChanges::Changes(wanted)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{busy, shield};
    use super::*;
    use crate::documents::machine::{CgroupMode, TunableReading};
    use crate::policy::TunableSetting;

    #[test]
    fn a_limit_is_for_the_cpus_that_work_and_never_raises_a_lower_one() {
        let mut m = busy(CgroupMode::V2);
        m.power.cpuidle_driver = Some("intel_idle".to_owned());
        let mut shield = shield(&m);
        let file = |cpu| format!("/sys/devices/system/cpu/cpu{cpu}/power/pm_qos_resume_latency_us");
        shield.cpus = "2-3".parse().unwrap();
        for (requested, idle, now, written) in [
            (Some("20us"), "", "0", Some("20")),
            (Some("0us"), "", "0", Some("n/a")),
            (None, "", "50", Some("n/a")),
            (Some("20us"), "2", "0", Some("20")),
            (Some("20us"), "", "50", Some("20")),
            (Some("20us"), "", "10", None),
            (Some("20us"), "", "n/a", None),
        ] {
            shield.idle_siblings = idle.parse().unwrap_or_default();
            let on = requested.map_or(true.into(), |it| TunableSetting::Value(it.to_owned()));
            shield.tunables.set("cpu-idle", on);
            for cpu in [2, 3] {
                m.settings.insert(file(cpu), TunableReading::Value(now.to_owned()));
            }
            let wanted = (CPU_IDLE.wants)(&m, &shield).into_changes();
            assert_eq!(wanted.len(), 2 - shield.idle_siblings.len(), "{requested:?}");
            for it in wanted {
                let value = it.change.requested_value();
                assert_eq!((!it.already).then_some(value.as_str()), written, "{requested:?} {now}");
                assert!(!shield.idle_siblings.contains(2) || it.change.subject() == file(3));
            }
        }
    }

    #[test]
    fn a_frequency_that_the_kernel_would_forget_is_left_alone() {
        let mut m = busy(CgroupMode::V2);
        let shield = shield(&m);
        let file = "/sys/devices/system/cpu/cpu3/cpufreq/scaling_governor".to_owned();
        m.settings.insert(file, TunableReading::Value("userspace".to_owned()));
        let untouched = WantedChanges::Nothing(InapplicableReason::FrequencySet);
        assert_eq!(request_speed(&m, &shield), untouched);
    }
}
