//! `ksm`: stops the merging of identical pages. Pure.

use super::Tunable;
use super::setting::set_file;
use crate::causes::Cause;
use crate::causes::culprit::CulpritPattern;
use crate::change::{Risk, ValueComparison};
use crate::documents::plan::OffReason;
use crate::policy::Workload;

const FILE: &str = "/sys/kernel/mm/ksm/run";

pub(super) const KSM: Tunable = Tunable {
    name: "ksm",
    summary: "stop merging identical pages of virtual machines and other programs that allow it",
    page: "\
The kernel thread ksmd merges identical pages of programs that allow it, such as QEMU. It
write-protects pages (a TLB flush on the CPUs of the program), and the next write to such a page
causes a page fault. Pages that are already merged stay merged, so the next write to such a page
still causes a page fault.

Only memory that a program marked as mergeable (madvise MADV_MERGEABLE, prctl PR_SET_MEMORY_MERGE)
is affected. So this tunable is on for the workload `vm`, and for others only on request
(`--on ksm`).

Cost: no further pages are merged while the shield is active, so the programs may use more memory.

Source: mm/ksm.c; Documentation/admin-guide/mm/ksm.rst.",
    reads: &[FILE],
    removes: &[Cause::PageFault, Cause::IpiCall],
    culprits: &[CulpritPattern::Kthread("ksm")],
    risk: Risk::Low,
    optional: for_guests,
    wants: |machine, _| {
        set_file(
            machine,
            FILE,
            "0",
            ValueComparison::Text,
            "merging write-protects pages of programs and causes page faults",
        )
    },
    ..Tunable::PLAIN
};

fn for_guests(workload: Workload) -> Option<OffReason> {
    match workload {
        Workload::Vm => None,
        Workload::Polling | Workload::Cyclic => Some(OffReason::OnlyMergeable),
    }
}
