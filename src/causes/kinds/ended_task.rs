//! `ended-task`: its name, its page and other words for it. Pure.

use super::CauseEntry;

pub(super) const ENTRY: CauseEntry = CauseEntry {
    name: "ended-task",
    summary: "a task that had ended before it was looked up: a program or a kernel thread",
    words: &[],
    beginnings: &[],
    page: PAGE,
};

const PAGE: &str = "\
A task ran on this CPU and ended before `verify` could look it up. The trace has its number and its
name, but not its kind. A program can have the name of a kernel thread, so the name decides nothing.
Kernel threads that ran when the watch began are known even if they end during it. There is no
remedy, because one would have to name a program or a kernel thread.

Programs may start here if the CPU is in their affinity (`user-task`). Workers of unbound queues may
start here if a mask of `workqueues` contains the CPU.

Source: sched_switch in include/trace/events/sched.h and destroy_worker() in kernel/workqueue.c
(6.12).";
