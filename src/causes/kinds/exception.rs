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
exception, a general protection fault. On x86 the kernel has trace events only for page faults, on
arm64 only for emulated old instructions (`instruction_emulation`). Other exceptions appear as the
signal that follows or, on a `nohz_full` CPU, as an entry without an event.

`verify --syscalls` also traces system calls. Then an entry without an event is an exception without
a signal, or a system call that seccomp refused before it was traced. An example of such an
exception is an instruction that the kernel emulates, such as `sgdt`. Without `--syscalls`, an entry
without an event may also be any other system call.

Source: arch/x86/kernel/traps.c, fixup_umip_exception() in arch/x86/kernel/umip.c,
syscall_trace_enter() in kernel/entry/common.c (6.12).";
