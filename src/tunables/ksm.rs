//! `ksm`: no merging of equal pages. Pure.

use super::setting::{FileSetting, anywhere};
use crate::causes::Cause;
use crate::causes::culprit::CulpritPattern;
use crate::change::{Risk, ValueComparison};
use crate::policy::Workload;

pub(super) const KSM: FileSetting = FileSetting {
    name: "ksm",
    summary: "stop merging equal pages of virtual machines",
    page: "\
The kernel thread ksmd merges equal pages of programs that allow it, which in practice are
virtual machines. It write-protects pages (a TLB flush on the CPUs of the guest) and the next
write to one is a page fault. Pages that are merged stay so.

Only memory that a program gave free (madvise MADV_MERGEABLE, prctl PR_SET_MEMORY_MERGE) is
touched, so it is done for the workload `vm`, and for others when asked for.

Cost: memory that could be saved is not.

Source: mm/ksm.c; Documentation/admin-guide/mm/ksm.rst.",
    file: &["/sys/kernel/mm/ksm/run"],
    value: "0",
    compare: ValueComparison::Text,
    reason: "merging write-protects pages of the guest and provokes page faults",
    removes: &[Cause::PageFault, Cause::IpiCall],
    culprits: &[CulpritPattern::Kthread("ksm")],
    risk: Risk::Low,
    optional: for_guests,
    applies: anywhere,
};

fn for_guests(workload: Workload) -> Option<&'static str> {
    match workload {
        Workload::Vm => None,
        Workload::Polling | Workload::Cyclic => {
            Some("it touches only memory that a program gave free for it")
        }
    }
}
