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
exception, a general protection fault. The kernel has trace events only for page faults. Other
exceptions appear as the signal that follows or, on a `nohz_full` CPU, as an entry without an event.
If `verify --syscalls` also traces system calls, such an entry can only be an exception without a
signal. An example is an instruction that the kernel emulates, such as `sgdt`. Without `--syscalls`,
such an entry may also be a system call.

Source: arch/x86/kernel/traps.c, fixup_umip_exception() in arch/x86/kernel/umip.c (6.12).";
