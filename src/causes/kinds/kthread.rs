//! `kthread`: its name, its page and other words for it. Pure.

use super::CauseEntry;

pub(super) const ENTRY: CauseEntry = CauseEntry {
    name: "kthread",
    summary: "a kernel thread other than a kworker",
    words: &[],
    beginnings: &[],
    page: PAGE,
};

const PAGE: &str = "\
A kernel thread ran on this CPU. Either it may also run elsewhere and was not moved (`kthreads`), or
it belongs to this CPU and had work. Threads of one CPU are ksoftirqd, migration, rcuc, and ktimers
on PREEMPT_RT. Since 6.13 the boot parameter `threadirqs` also creates ktimers.

Source: spawn_ksoftirqd() in kernel/softirq.c (7.0);
Documentation/admin-guide/kernel-per-CPU-kthreads.rst, which describes how to keep ksoftirqd,
kworker and rcuc threads quiet.";
