//! `hrtimer`: its name, its page and other words for it. Pure.

use super::CauseEntry;

pub(super) const ENTRY: CauseEntry = CauseEntry {
    name: "hrtimer",
    summary: "a high-resolution timer other than the tick",
    words: &[],
    beginnings: &[],
    page: PAGE,
};

const PAGE: &str = "\
A high-resolution timer fired. Such timers belong to nanosleep, timerfd, POSIX timers,
SCHED_DEADLINE budgets, the fair server and the lockup watchdog. They fire on the CPU that armed
them. If that CPU is idle or in `nohz_full=`, the kernel may arm an unpinned timer on another CPU
instead (`timer-migration`).

A periodic workload sees its own wake-ups here; those are intended.

Source: hrtimer_interrupt() and get_target_base() in kernel/time/hrtimer.c, get_nohz_timer_target()
in kernel/sched/core.c (6.12).";
