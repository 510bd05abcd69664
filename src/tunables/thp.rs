//! `thp`: switches transparent huge pages off. Pure.

use super::setting::{FileSetting, anywhere};
use crate::causes::Cause;
use crate::causes::culprit::CulpritPattern;
use crate::change::{Risk, ValueComparison};
use crate::documents::plan::OffReason;
use crate::policy::Workload;

pub(super) const THP: FileSetting = FileSetting {
    name: "thp",
    summary: "switch transparent huge pages off, so that khugepaged collapses no pages at runtime",
    page: "\
The kernel thread khugepaged collapses a run of small pages of a program into one huge page. While
it copies them, the program's threads fault on that memory, and the CPUs of the program get a TLB
flush. This affects only programs that may use huge pages, and only memory that is not in huge pages
yet.

Not applied unless requested (`--on thp`), because huge pages also avoid TLB misses. khugepaged does
not disturb a workload whose memory is already in huge pages, or that calls
prctl(PR_SET_THP_DISABLE).

Cost: while the shield is active, every program gets only small pages for new memory.

Source: mm/khugepaged.c; Documentation/admin-guide/mm/transhuge.rst.",
    file: &["/sys/kernel/mm/transparent_hugepage/enabled"],
    value: "never",
    compare: ValueComparison::Word,
    reason: "otherwise khugepaged may collapse pages of the workload while it runs",
    removes: &[Cause::PageFault, Cause::IpiCall],
    culprits: &[
        CulpritPattern::Kthread("khugepaged"),
        CulpritPattern::Function("collapse_huge_page"),
    ],
    risk: Risk::Low,
    optional: on_request,
    disturbs: None,
    applies: anywhere,
};

fn on_request(_workload: Workload) -> Option<OffReason> {
    Some(OffReason::HugePagesHelp)
}
