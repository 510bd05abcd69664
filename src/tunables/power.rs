//! `cpu-governor`: no low frequencies on the shield. Pure.

use super::setting::changes_of;
use super::want::setting;
use super::{Tunable, WantedChange, WantedChanges};
use crate::causes::Cause;
use crate::change::{Risk, ValueComparison};
use crate::documents::inapplicable::InapplicableReason;
use crate::documents::machine::Machine;
use crate::documents::plan::{OffReason, Shield};
use std::collections::BTreeMap;

/// The governor of a CPU, below the directory of the CPU.
const GOVERNOR: &str = "cpufreq/scaling_governor";

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

#[cfg(test)]
mod tests {
    use super::super::tests::{busy, shield};
    use super::*;
    use crate::documents::machine::{CgroupMode, TunableReading};

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
