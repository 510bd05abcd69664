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
A kernel thread ran on this CPU. Either it may run anywhere and was not moved (`kthreads`), or it
belongs to this CPU and had work (ksoftirqd, migration, rcuc, ktimers on PREEMPT_RT).

Source: Documentation/admin-guide/kernel-per-CPU-kthreads.rst, which describes how to keep each of
them quiet.";
