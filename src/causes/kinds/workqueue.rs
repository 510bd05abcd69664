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
A work item of the kernel, run by a kworker. Work on unbound queues runs where their mask allows
(`workqueues`). Work on per-CPU queues runs on the CPU that queued it: vmstat_update
(`vm-stat-interval`), lru_add_drain_per_cpu, and the draining of network and slab caches after
something ran there.

Source: __queue_work() and wq_select_unbound_cpu() in kernel/workqueue.c (6.12),
Documentation/core-api/workqueue.rst.";
