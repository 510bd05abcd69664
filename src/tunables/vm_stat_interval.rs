//! `vm-stat-interval`: the per-CPU update of memory statistics becomes rare. Pure.

use super::setting::{FileSetting, always, anywhere};
use crate::causes::Cause;
use crate::causes::culprit::CulpritPattern;
use crate::change::{Risk, ValueComparison};

pub(super) const VM_STAT_INTERVAL: FileSetting = FileSetting {
    name: "vm-stat-interval",
    summary: "update the per-CPU memory statistics once an hour instead of every second",
    page: "\
Each CPU keeps the changes of memory counters to itself and adds them to the global ones from
time to time: the work item vmstat_update, by default every second after something changed
there. It runs on the CPU itself and cannot be moved.

Since 6.5 the kernel does not queue it on isolated CPUs (commit be5e015d107d), but work that was
queued before the shield came up still runs, and older kernels always do.

Cost: /proc/vmstat and /proc/meminfo may lag behind by some hundred pages for each CPU.

Source: vmstat_shepherd() in mm/vmstat.c; Documentation/admin-guide/sysctl/vm.rst.",
    file: &["/proc/sys/vm/stat_interval"],
    value: "3600",
    compare: ValueComparison::Text,
    reason: "each CPU otherwise runs vmstat_update every second",
    removes: &[Cause::Workqueue, Cause::Timer],
    culprits: &[
        CulpritPattern::Function("vmstat_update"),
        CulpritPattern::Function("vmstat_shepherd"),
    ],
    risk: Risk::Low,
    optional: always,
    applies: anywhere,
};
