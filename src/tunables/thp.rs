//! `thp`: switches transparent huge pages off. Pure.

use super::Tunable;
use super::setting::set_file;
use crate::causes::Cause;
use crate::causes::culprit::CulpritPattern;
use crate::change::{Risk, ValueComparison};
use crate::documents::plan::OffReason;
use crate::policy::Workload;

const FILE: &str = "/sys/kernel/mm/transparent_hugepage/enabled";

pub(super) const THP: Tunable = Tunable {
    name: "thp",
    summary: "switch transparent huge pages off, so that khugepaged collapses no anonymous memory",
    page: "\
The kernel thread khugepaged collapses a run of small pages of a program into one huge page. While
it copies them, the program's threads fault on that memory, and the CPUs of the program get a TLB
flush. This affects only programs that may use huge pages, and only memory that is not in huge pages
yet. On kernels with commit 2ba99c5e0881 (6.1) and CONFIG_MMU_GATHER_RCU_TABLE_FREE, each collapse
of anonymous memory also sends an IPI to every CPU (`tlb_remove_table_smp_sync`).

Not applied unless requested (`--on thp`), because huge pages also avoid TLB misses. Apart from that
IPI and from draining page lists (`lru_add_drain_per_cpu`), khugepaged does not disturb a workload
whose memory is already in huge pages. The same is true of a workload that calls
prctl(PR_SET_THP_DISABLE).

Cost: while the shield is active, programs get only small pages for new anonymous memory. Memory
that is already in huge pages stays so. This tunable does not change shared memory
(`shmem_enabled`), hugetlbfs, or a page size with its own setting (`hugepages-*/enabled`, since
6.8).

Source: collapse_huge_page() and hugepage_pmd_enabled() in mm/khugepaged.c,
tlb_remove_table_sync_one() in mm/mmu_gather.c (6.12);
Documentation/admin-guide/mm/transhuge.rst.",
    reads: &[FILE],
    removes: &[Cause::PageFault, Cause::IpiCall],
    culprits: &[
        CulpritPattern::Kthread("khugepaged"),
        CulpritPattern::Function("collapse_huge_page"),
    ],
    risk: Risk::Low,
    optional: on_request,
    wants: |machine, _| {
        set_file(
            machine,
            FILE,
            "never",
            ValueComparison::Word,
            "otherwise khugepaged may collapse pages of the workload while it runs",
        )
    },
    ..Tunable::PLAIN
};

fn on_request(_workload: Workload) -> Option<OffReason> {
    Some(OffReason::HugePagesHelp)
}
