//! `timer-migration`: lets new timers be armed on another CPU. Pure.

use super::Tunable;
use super::setting::{PATCHES, set_file};
use crate::causes::Cause;
use crate::change::{Risk, ValueComparison};
use crate::documents::plan::OffReason;
use crate::policy::Workload;

const FILE: &str = "/proc/sys/kernel/timer_migration";

pub(super) const TIMER_MIGRATION: Tunable = Tunable {
    name: "timer-migration",
    summary: "let unpinned timers be armed on a housekeeping CPU",
    page: "\
The kernel may arm an unpinned timer on a CPU other than the one that requests it. With
`kernel.timer_migration=1`, the default, a `nohz_full` CPU arms an unpinned high-resolution timer on
a housekeeping CPU. A timer that expires before the next event of that CPU stays
(switch_hrtimer_base() in kernel/time/hrtimer.c, 6.12). Before 6.9 the timers of the timer wheel
always move. Since 6.9 the timer wheel ignores this setting; `cpu-hotplug-cycle` describes which CPU
runs its timers.

Some real-time guides recommend switching this off. Then every high-resolution timer that a program
on the shield starts interrupts the shield, and before 6.9 every other timer does too.

Cost: a timer that wakes a program on a `nohz_full` CPU then fires on a housekeeping CPU, and fires
late if that CPU is busy. So this is off for `cyclic` workloads unless requested
(`--on timer-migration`). CPUs that are not `nohz_full` keep the timers of the programs that run on
them.

A write that changes the value makes the kernel patch its code, which interrupts every CPU. So apply
leaves it out while another shield is active, unless you pass `--disturb`.

Source: timers_update_migration() in kernel/time/timer.c, get_target_base() in
kernel/time/hrtimer.c, get_nohz_timer_target() in kernel/sched/core.c and
kernel/time/timer_migration.c (6.12); Documentation/admin-guide/sysctl/kernel.rst.",
    reads: &[FILE],
    removes: &[Cause::Timer, Cause::Hrtimer],
    risk: Risk::None,
    optional: not_for_cyclic,
    disturbs_others: PATCHES,
    disturbs_when_undone: PATCHES,
    wants: |machine, _| {
        set_file(
            machine,
            FILE,
            "1",
            ValueComparison::Text,
            "most unpinned timers that a nohz_full CPU starts then fire on a housekeeping CPU",
        )
    },
    ..Tunable::PLAIN
};

fn not_for_cyclic(workload: Workload) -> Option<OffReason> {
    match workload {
        Workload::Polling | Workload::Vm => None,
        Workload::Cyclic => Some(OffReason::CyclicTimers),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_timers_of_a_cyclic_workload_stay_unless_migration_is_requested() {
        assert!((TIMER_MIGRATION.optional)(Workload::Cyclic).is_some());
        assert_eq!((TIMER_MIGRATION.optional)(Workload::Polling), None);
    }
}
