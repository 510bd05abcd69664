//! `vm-stat-interval`: makes the per-CPU update of memory statistics rare. Pure.

use super::Tunable;
use super::setting::set_interval;
use crate::causes::Cause;
use crate::causes::culprit::CulpritPattern;
use crate::change::Risk;

const FILE: &str = "/proc/sys/vm/stat_interval";

pub(super) const VM_STAT_INTERVAL: Tunable = Tunable {
    name: "vm-stat-interval",
    summary: "update the per-CPU memory statistics once an hour instead of every second",
    page: "\
Each CPU keeps its changes to memory counters locally. The work item vmstat_update periodically adds
them to the global counters, by default every second after a change. It runs on the CPU itself and
cannot be moved.

Up to 6.4 the kernel queues it on every CPU whose counters changed. Since 6.5 it does not do so on
CPUs of `isolcpus=` and `nohz_full=` (commit be5e015d107d). Since 6.8 it also spares CPUs of
isolated partitions (commit 3232e7aad11e). Since 7.0 `nohz_full=` alone no longer has this effect
(commit 1c3329df409b). Work that was queued before the shield was applied still runs.

Cost: /proc/vmstat and /proc/meminfo may lag behind by a few hundred pages per CPU. The same work
item returns free pages of other memory nodes from the page lists of its CPU. These pages then stay
in the lists longer.

Source: vmstat_shepherd() and refresh_cpu_vm_stats() in mm/vmstat.c (6.12);
Documentation/admin-guide/sysctl/vm.rst.",
    reads: &[FILE],
    removes: &[Cause::Workqueue, Cause::Timer],
    culprits: &[
        CulpritPattern::Function("vmstat_update"),
        CulpritPattern::Function("vmstat_shepherd"),
    ],
    risk: Risk::Low,
    wants: |machine, _| {
        set_interval(
            machine,
            FILE,
            3600,
            "a CPU whose counters changed otherwise runs vmstat_update every second",
        )
    },
    ..Tunable::PLAIN
};
