//! `workqueue`: its name, its page and other words for it. Pure.

use super::CauseEntry;

pub(super) const ENTRY: CauseEntry = CauseEntry {
    name: "workqueue",
    summary: "a work item, run by a kworker",
    words: &[],
    beginnings: &["kworker/"],
    page: PAGE,
};

const PAGE: &str = "\
A kworker ran a work item of the kernel. Work on an unbound queue runs on the CPUs in the mask of
the queue (`workqueues`). Work on a per-CPU queue runs on the CPU that it was queued for. If the
work names no CPU, it runs on the CPU that queued it, and delayed work on the CPU where its timer
expired. Examples are vmstat_update (`vm-stat-interval`), lru_add_drain_per_cpu, and the draining of
network and slab caches that were used on that CPU.

Source: __queue_work(), __queue_delayed_work() and wq_select_unbound_cpu() in kernel/workqueue.c
(6.12), Documentation/core-api/workqueue.rst.";
