//! `nmi`: its name, its page and other words for it. Pure.

use super::CauseEntry;

pub(super) const ENTRY: CauseEntry = CauseEntry {
    name: "nmi",
    summary: "a non-maskable interrupt: watchdog, profiler, backtrace",
    words: &[],
    beginnings: &[],
    page: PAGE,
};

const PAGE: &str = "\
The CPU received a non-maskable interrupt. The hardlockup watchdog sends one about every ten seconds
to a busy CPU if it counts cycles with a perf event (`kernel.watchdog_thresh`; see `watchdog`).
Other sources are perf, backtraces of all CPUs (`echo l > /proc/sysrq-trigger`, reports of stalls
and lockups), kgdb and platform errors.

Source: nmi_handle() in arch/x86/kernel/nmi.c, kernel/watchdog_perf.c (6.12; watchdog_hld.c before
6.5), Documentation/admin-guide/lockup-watchdogs.rst.";
