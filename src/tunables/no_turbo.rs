//! `no-turbo`: CPUs keep within their nominal frequencies. Pure.

use super::want::setting;
use super::{Tunable, WantedChange, WantedChanges};
use crate::change::{Risk, ValueComparison};
use crate::documents::inapplicable::InapplicableReason;
use crate::documents::machine::Machine;
use crate::documents::plan::{MachineWideEffect, OffReason, Shield};
use cpushield_linux::text::first_releases::BOOST_OF_POLICY;

/// The switch of the driver intel_pstate: 1 is without turbo.
const SWITCH: &str = "/sys/devices/system/cpu/intel_pstate/no_turbo";
/// The least performance, in percent of that with turbo. Without turbo the driver lowers it to what
/// is left (`store_no_turbo()`), and does not raise it again.
const LEAST: &str = "/sys/devices/system/cpu/intel_pstate/min_perf_pct";
/// The frequencies of a CPU without and with turbo.
const NOMINAL: &str = "/sys/devices/system/cpu/cpu0/cpufreq/base_frequency";
const HIGHEST: &str = "/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq";
/// The switch of other drivers: 0 is without boost.
const BOOST: &str = "/sys/devices/system/cpu/cpufreq/boost";

pub(super) const NO_TURBO: Tunable = Tunable {
    name: "no-turbo",
    summary: "keep all CPUs at or below their nominal frequency, for constant execution times",
    page: "\
With turbo (boost), a CPU runs above its nominal frequency. How far above depends on how many CPUs
of its package are busy, and on their power and temperature. So the execution time of a program on
the shield depends on what the housekeeping CPUs do. This tunable switches turbo off for the whole
machine, through the file of the frequency driver: `intel_pstate/no_turbo` or `cpufreq/boost`.

Off unless requested (`--on no-turbo`): it slows down every CPU and removes no interruption. Measure
with and without it.

Cost: all CPUs are slower. With intel_pstate and acpi-cpufreq, the write sends an interrupt to every
CPU.

Since Linux 6.11 each frequency policy also has its own `boost` file, and a write to `cpufreq/boost`
sets all of them. Undo could not restore their previous values, so this tunable does not write
`cpufreq/boost` on those kernels. With intel_pstate it works on every kernel, but `min_perf_pct`
must be reachable without turbo. The driver would permanently lower a higher `min_perf_pct`, so this
tunable then does nothing. It also does nothing if the driver shows no `base_frequency`, as without
HWP: the limit is then unknown. In these cases, write to the `boost` files of individual policies,
or switch turbo off in the firmware.

Source: store_no_turbo() in drivers/cpufreq/intel_pstate.c, store_boost() and store_local_boost() in
drivers/cpufreq/cpufreq.c (6.12); commit 218a06a79d9a; Documentation/admin-guide/pm/cpufreq.rst.",
    reads: &[SWITCH, BOOST, LEAST, NOMINAL, HIGHEST],
    risk: Risk::Low,
    optional: |_| Some(OffReason::CostsSpeed),
    disturbs_others: Some(MachineWideEffect::CallsCpus),
    disturbs_when_undone: Some(MachineWideEffect::CallsCpus),
    wants,
    ..Tunable::PLAIN
};

fn wants(machine: &Machine, _shield: &Shield) -> WantedChanges {
    let (file, value, now) = match (setting(machine, SWITCH), setting(machine, BOOST)) {
        (Some(now), _) => (SWITCH, "1", now),
        (None, Some(now)) => (BOOST, "0", now),
        (None, None) => {
            let file = BOOST.to_owned();
            return WantedChanges::Nothing(InapplicableReason::SettingAbsent { file });
        }
    };
    let has_policy_switches =
        machine.kernel.version.is_none_or(|version| version >= BOOST_OF_POLICY);
    if file == BOOST && now != value && has_policy_switches {
        return WantedChanges::Nothing(InapplicableReason::BoostOfPolicies);
    }
    if file == SWITCH && now != value && !keeps_least_performance(machine) {
        return WantedChanges::Nothing(InapplicableReason::LeastPerformanceLost);
    }
    let reason = "with turbo, the speed of a CPU depends on the load of the other CPUs";
    let now = Some(now.to_owned());
    let change = WantedChange::write(now, file, value, ValueComparison::Text, reason);
    WantedChanges::Changes(vec![change])
}

/// Whether the least performance is certainly possible without turbo, so that the driver does not
/// lower it.
fn keeps_least_performance(machine: &Machine) -> bool {
    let number = |file| setting(machine, file)?.parse::<u64>().ok();
    match (number(LEAST), number(NOMINAL), number(HIGHEST)) {
        (Some(percent), Some(nominal), Some(highest)) => {
            percent.saturating_mul(highest) <= nominal.saturating_mul(100)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{busy, shield};
    use super::*;
    use crate::documents::machine::{CgroupMode, TunableReading};
    use cpushield_linux::text::kernel_version::KernelVersion;

    #[test]
    fn the_switch_of_the_driver_is_used_where_its_state_can_be_restored() {
        let mut m = busy(CgroupMode::V2);
        let shield = shield(&m);
        let absent = InapplicableReason::SettingAbsent { file: BOOST.to_owned() };
        m.settings.remove(SWITCH);
        assert_eq!(wants(&m, &shield), WantedChanges::Nothing(absent));
        let already = |wanted: WantedChanges| -> Vec<bool> {
            match wanted {
                WantedChanges::Changes(changes) => changes.iter().map(|it| it.already).collect(),
                WantedChanges::Nothing(why) => panic!("{why}"),
            }
        };
        let (old, new) = (Some(KernelVersion::new(6, 10)), Some(KernelVersion::new(6, 11)));
        let lost = WantedChanges::Nothing(InapplicableReason::LeastPerformanceLost);
        // tuned's profiles for latency set 100 %; 2.4 of 4.8 GHz are 50 %.
        for (percent, is_kept) in [("100", false), ("51", false), ("50", true)] {
            for (file, text) in [(LEAST, percent), (NOMINAL, "2400000"), (HIGHEST, "4800000")] {
                m.settings.insert(file.to_owned(), TunableReading::Value(text.to_owned()));
            }
            m.settings.insert(SWITCH.to_owned(), TunableReading::Value("0".to_owned()));
            assert_eq!(wants(&m, &shield) == lost, !is_kept, "{percent}");
        }
        let mut wants = |file: &str, text: &str, version| {
            m.settings.remove(SWITCH);
            m.settings.insert(file.to_owned(), TunableReading::Value(text.to_owned()));
            m.kernel.version = version;
            wants(&m, &shield)
        };
        assert_eq!(already(wants(SWITCH, "0", new)), vec![false]);
        assert_eq!(already(wants(SWITCH, "1", new)), vec![true]);
        assert_eq!(already(wants(BOOST, "1", old)), vec![false]);
        assert_eq!(already(wants(BOOST, "0", new)), vec![true]);
        for version in [new, None] {
            let unsafe_to_undo = WantedChanges::Nothing(InapplicableReason::BoostOfPolicies);
            assert_eq!(wants(BOOST, "1", version), unsafe_to_undo);
        }
    }
}
