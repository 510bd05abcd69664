//! `thp`: switches transparent huge pages off. Pure.

use super::setting::{FileSetting, anywhere};
use crate::causes::Cause;
use crate::causes::culprit::CulpritPattern;
use crate::change::{Risk, ValueComparison};
use crate::documents::plan::OffReason;
use crate::policy::Workload;

pub(super) const THP: FileSetting = FileSetting {
    name: "thp",
    summary: "switch transparent huge pages off, so that no memory is collapsed at runtime",
    page: "\
The kernel thread khugepaged copies runs of small pages of a program into one huge page. During the
copy, the program's other threads fault on that memory, and its CPUs get a TLB flush. This affects
only programs that may have huge pages, and only memory that is not in huge pages yet.

Off unless requested (`--on thp`): huge pages also save TLB misses, and a workload that touches all
its memory at startup, or calls prctl PR_SET_THP_DISABLE, is not affected.

Cost: while the shield is active, new memory of every program gets only small pages.

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
