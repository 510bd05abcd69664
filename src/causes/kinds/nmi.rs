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
The CPU received a non-maskable interrupt. Its sources are the hardlockup watchdog (a perf event
that overflows about every ten seconds; see `watchdog`), perf, `echo l > /proc/sysrq-trigger` and
platform errors.

Source: nmi_handle() in arch/x86/kernel/nmi.c, kernel/watchdog_perf.c (6.12; watchdog_hld.c before
6.5), Documentation/admin-guide/lockup-watchdogs.rst.";
