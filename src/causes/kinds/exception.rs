//! `exception`: its name, its page and other words for it. Pure.

use super::CauseEntry;

pub(super) const ENTRY: CauseEntry = CauseEntry {
    name: "exception",
    summary: "the workload raised an exception other than a page fault",
    words: &[],
    beginnings: &[],
    page: PAGE,
};

const PAGE: &str = "\
The workload raised an exception: a breakpoint, a division by zero, a misaligned access, a debug
register, general protection. The kernel has events only for page faults. Other exceptions show as
the signal that follows or, on a `nohz_full` CPU, as an entry without an event. When system calls
are traced too (`verify --syscalls`), nothing else is left. Such an entry is then an exception
without a signal: an instruction that the kernel emulates, such as `sgdt`. Otherwise it may be
either.

Source: arch/x86/kernel/traps.c, fixup_umip_exception() in arch/x86/kernel/umip.c (6.12).";
