//! `page-fault`: its name, its page and other words for it. Pure.

use super::CauseEntry;

pub(super) const ENTRY: CauseEntry = CauseEntry {
    name: "page-fault",
    summary: "the workload accessed memory that was not mapped yet",
    words: &[],
    beginnings: &[],
    page: PAGE,
};

const PAGE: &str = "\
The workload accessed memory that was not mapped yet: its first use, copy-on-write after fork, an
evicted file page, or a hinting fault of NUMA balancing (`numa-balancing`). Lock the memory
(mlockall) and touch it before the work begins.

Source: handle_pte_fault() in mm/memory.c, exceptions:page_fault_user of arch/x86/mm/fault.c (6.12),
mlockall(2).";
