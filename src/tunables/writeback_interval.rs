//! `writeback-interval`: dirty pages are written back less often. Pure.

use super::setting::set_interval;
use super::want::setting;
use super::{Tunable, WantedChanges};
use crate::causes::Cause;
use crate::causes::culprit::CulpritPattern;
use crate::change::Risk;
use crate::documents::inapplicable::InapplicableReason;
use crate::documents::machine::Machine;
use crate::documents::plan::{OffReason, Shield};
use crate::policy::Workload;

const FILE: &str = "/proc/sys/vm/dirty_writeback_centisecs";

pub(super) const WRITEBACK_INTERVAL: Tunable = Tunable {
    name: "writeback-interval",
    summary: "wake the writeback of dirty pages every minute instead of every five seconds",
    page: "\
While there are dirty pages, a work item of an unbound queue runs every five seconds and writes the
old ones to disk. `workqueues` keeps that work off the shield, so this is off unless requested
(`--on writeback-interval`). It helps when the workload itself writes to files from the shield,
because the kernel then arms the timer of the work item there.

Cost: unsynced data stays in memory for up to 55 seconds longer. A power failure loses it.

Source: wb_wakeup_delayed() in fs/fs-writeback.c (6.12); Documentation/admin-guide/sysctl/vm.rst.",
    reads: &[FILE],
    removes: &[Cause::Timer, Cause::Workqueue],
    // Not `delayed_work_timer_fn`: that is the timer of any delayed work.
    culprits: &[CulpritPattern::Function("wb_workfn"), CulpritPattern::Function("wb_wakeup")],
    risk: Risk::Medium,
    optional: on_request,
    wants,
    ..Tunable::PLAIN
};

fn on_request(_workload: Workload) -> Option<OffReason> {
    Some(OffReason::WritebackElsewhere)
}

/// 0 switches periodic writeback off (wb_workfn() in fs/fs-writeback.c, 6.12).
fn wants(machine: &Machine, _: &Shield) -> WantedChanges {
    match setting(machine, FILE).map(str::trim) {
        Some("0") => WantedChanges::Nothing(InapplicableReason::NoPeriodicWriteback),
        _ => set_interval(machine, FILE, 6000, "the writeback timer then fires rarely"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::WantedChanges;
    use super::super::tests::{busy, shield};
    use super::*;
    use crate::documents::machine::{CgroupMode, TunableReading};

    #[test]
    fn an_interval_that_is_off_or_longer_stays_as_it_is() {
        let mut m = busy(CgroupMode::V2);
        let shield = shield(&m);
        for (now, expected) in [
            ("0", Some(InapplicableReason::NoPeriodicWriteback)),
            ("500", None),
            ("6000", None),
            (
                "6001",
                Some(InapplicableReason::IntervalLonger {
                    file: FILE.to_owned(),
                    now: "6001".to_owned(),
                }),
            ),
        ] {
            m.settings.insert(FILE.to_owned(), TunableReading::Value(now.to_owned()));
            let why = match (WRITEBACK_INTERVAL.wants)(&m, &shield) {
                WantedChanges::Nothing(why) => Some(why),
                WantedChanges::Changes(_) => None,
            };
            assert_eq!(why, expected, "{now}");
        }
    }
}
