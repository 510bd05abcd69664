//! `timer-elsewhere`: its name, its page and other words for it. Pure.

use super::CauseEntry;

pub(super) const ENTRY: CauseEntry = CauseEntry {
    name: "timer-elsewhere",
    summary: "a timer of the workload expired on another CPU, which then woke it",
    words: &[],
    beginnings: &[],
    page: PAGE,
};

const PAGE: &str = "\
The timer that was to wake a thread of the workload was armed on another CPU. That CPU woke the
thread, late if it was busy. `verify` counts this for cyclic workloads, however late the timer was.

The kernel arms an unpinned timer elsewhere if the CPU is in `nohz_full=`, or idle without a tick.
The setting `kernel.timer_migration=0` keeps timers where they are armed. It is not a tunable of
cpushield, because the tunable `timer-migration` writes only 1, which polling workloads need:

    sysctl kernel.timer_migration=0

Source: get_target_base() in kernel/time/hrtimer.c and get_nohz_timer_target() in
kernel/sched/core.c (6.12).";
