//! `watchdog`: switches the lockup detectors off on the shield. Pure.

use super::want::{keep_work_off, setting};
use super::{Tunable, WantedChange, WantedChanges};
use crate::causes::Cause;
use crate::causes::culprit::CulpritPattern;
use crate::change::{Risk, ValueComparison};
use crate::documents::inapplicable::InapplicableReason;
use crate::documents::machine::{Machine, TunableReading};
use crate::documents::plan::{MachineWideEffect, Shield};
use cpushield_linux::CpuSet;
use cpushield_linux::text::first_releases::WATCHDOG_CPUMASK;

const ENABLED: &str = "/proc/sys/kernel/watchdog";
const CPUS: &str = "/proc/sys/kernel/watchdog_cpumask";

const PAGE: &str = "\
The lockup detectors watch every CPU. For soft lockups, by default a timer and a stop task run every
four seconds. For hard lockups, many machines use a performance counter. By default it raises a
non-maskable interrupt about every ten seconds of busy time. apply removes the shielded CPUs from
`kernel.watchdog_cpumask`; the detectors continue on the other CPUs. If the kernel was booted with
`nohz_full=`, the mask excludes the CPUs of that list from the start.

Cost: the lockup detectors do not report a shielded CPU that hangs in the kernel. The stall detector
of RCU still does. The write runs a work item on each CPU of the old mask, which interrupts other
shields that have this tunable off. So apply leaves it out while such a shield is active, unless you
pass `--disturb`.

Source: watchdog_timer_fn() and lockup_detector_reconfigure() in kernel/watchdog.c (6.12);
Documentation/admin-guide/lockup-watchdogs.rst; Documentation/RCU/stallwarn.rst.";

pub(super) const WATCHDOG: Tunable = Tunable {
    name: "watchdog",
    summary: "switch the lockup detectors off on the shielded CPUs",
    page: PAGE,
    reads: &[ENABLED, CPUS],
    removes: &[Cause::Hrtimer, Cause::Nmi, Cause::Kthread],
    culprits: &[
        CulpritPattern::Function("watchdog_timer_fn"),
        CulpritPattern::Function("softlockup"),
        CulpritPattern::Function("perf_event_nmi"),
        CulpritPattern::Kthread("migration/"),
    ],
    risk: Risk::Low,
    disturbs_others: Some(MachineWideEffect::QueuesWorkWhereWatched),
    disturbs_when_undone: Some(MachineWideEffect::QueuesWorkWhereWatched),
    disturbed_cpus,
    wants,
    ..Tunable::PLAIN
};

fn disturbed_cpus(now: &str) -> Option<CpuSet> {
    now.parse().ok()
}

fn wants(machine: &Machine, shield: &Shield) -> WantedChanges {
    if setting(machine, ENABLED) == Some("0") {
        return WantedChanges::Nothing(InapplicableReason::WatchdogOff);
    }
    let now = setting(machine, CPUS);
    let Some((text, cpus)) = now.and_then(|text| Some((text, text.parse::<CpuSet>().ok()?))) else {
        // The detectors are older than the file.
        let older = machine.kernel.version.is_some_and(|version| version < WATCHDOG_CPUMASK);
        let absent = machine.settings.get(CPUS) == Some(&TunableReading::Absent);
        if absent && (older || setting(machine, ENABLED).is_some()) {
            return WantedChanges::Nothing(InapplicableReason::SettingAbsent {
                file: CPUS.to_owned(),
            });
        }
        return WantedChanges::Nothing(match machine.shows_proc() {
            true => InapplicableReason::NoWatchdog,
            false => InapplicableReason::WatchdogUnknown,
        });
    };
    let value = keep_work_off(&cpus, machine, shield).to_string();
    let reason = "the detectors otherwise run a timer on the shield";
    let now = Some(text.to_owned());
    WantedChanges::Changes(vec![WantedChange::write(
        now,
        CPUS,
        &value,
        ValueComparison::List,
        reason,
    )])
}
