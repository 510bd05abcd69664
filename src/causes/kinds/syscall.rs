//! `syscall`: its name, its page and other words for it. Pure.

use super::CauseEntry;

pub(super) const ENTRY: CauseEntry = CauseEntry {
    name: "syscall",
    summary: "the workload made a system call",
    words: &[],
    beginnings: &[],
    page: PAGE,
};

const PAGE: &str = "\
The workload made a system call. A periodic program sleeps this way; a polling program should make
none while it works. Only `verify --syscalls` names the system calls of the workload, because naming
them slows every process on the machine.

Source: raw_syscalls:sys_enter in include/trace/events/syscalls.h, syscall_trace_enter() in
kernel/entry/common.c (6.12).";
