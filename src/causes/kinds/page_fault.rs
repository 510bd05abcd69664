//! `page-fault`: its name, its page and other words for it. Pure.

use super::CauseEntry;

pub(super) const ENTRY: CauseEntry = CauseEntry {
    name: "page-fault",
    summary: "the workload accessed a page that was not mapped or not writable",
    words: &[],
    beginnings: &[],
    page: PAGE,
};

const PAGE: &str = "\
The workload accessed memory that was not mapped, or wrote to memory that was write-protected. This
happens at its first use, at copy-on-write after fork, for an evicted page, and at a hinting fault
of NUMA balancing (`numa-balancing`). Lock the memory (mlockall) and touch it before the work
begins. A later fork causes copy-on-write again. mlockall does not prevent hinting faults. It also
does not prevent faults on pages that compaction moves; sysctl vm.compact_unevictable_allowed=0
does.

Source: handle_pte_fault() in mm/memory.c, task_numa_work() in kernel/sched/fair.c,
exceptions:page_fault_user of arch/x86/mm/fault.c (6.12), Documentation/admin-guide/sysctl/vm.rst,
mlockall(2).";
