//! `writeback-interval`: dirty pages are written back less often. Pure.

use super::setting::{FileSetting, anywhere};
use crate::causes::Cause;
use crate::causes::culprit::CulpritPattern;
use crate::change::{Risk, ValueComparison};
use crate::documents::plan::OffReason;
use crate::policy::Workload;

pub(super) const WRITEBACK_INTERVAL: FileSetting = FileSetting {
    name: "writeback-interval",
    summary: "wake the writeback of dirty pages every minute instead of every five seconds",
    page: "\
While there are dirty pages, a work item of an unbound queue runs every five seconds and writes the
old ones to disk. `workqueues` keeps that work off the shield, so this is off unless requested
(`--on writeback-interval`). It helps when the workload itself writes to files from the shield,
because the kernel then arms the timer of the work item there.

Cost: unsynced data stays in memory for up to 55 seconds longer. A power failure loses it.

Source: wb_wakeup_delayed() in fs/fs-writeback.c (6.12); Documentation/admin-guide/sysctl/vm.rst.",
    file: &["/proc/sys/vm/dirty_writeback_centisecs"],
    value: "6000",
    compare: ValueComparison::Text,
    reason: "the writeback timer then fires rarely",
    removes: &[Cause::Timer, Cause::Workqueue],
    // Not `delayed_work_timer_fn`: that is the timer of any delayed work.
    culprits: &[CulpritPattern::Function("wb_workfn"), CulpritPattern::Function("wb_wakeup")],
    risk: Risk::Medium,
    optional: on_request,
    disturbs: None,
    applies: anywhere,
};

fn on_request(_workload: Workload) -> Option<OffReason> {
    Some(OffReason::WritebackElsewhere)
}
