//! `workqueues`: runs unbound work on the housekeeping CPUs. Pure.

use super::want::{keep_work_off, settings};
use super::{InForce, RemedyAnswer, Tunable, WantedChange, WantedChanges, in_force};
use crate::causes::culprit::CulpritPattern;
use crate::causes::{Cause, Culprit};
use crate::change::{Risk, ValueComparison};
use crate::documents::inapplicable::InapplicableReason;
use crate::documents::machine::Machine;
use crate::documents::plan::Shield;
use crate::documents::remedy::RemedyObstacle;
use cpushield_linux::CpuSet;

const GLOBAL: &str = "/sys/devices/virtual/workqueue/cpumask";
const QUEUES: &str = "/sys/devices/virtual/workqueue/*/cpumask";

const PAGE: &str = "\
Kernel work that need not run on a particular CPU is queued on unbound workqueues; their kworkers
run only on the CPUs in /sys/devices/virtual/workqueue/cpumask. cpushield removes the shielded CPUs
from this global mask and from the masks of queues that have their own, such as writeback. So these
queues stay off the shield even if another process widens the global mask.

This tunable does not affect work that is queued for one CPU (schedule_work_on(), per-CPU queues):
such work runs on that CPU. `verify` names the sender.

Since 6.8 the kernel itself keeps the CPUs of isolated partitions out of the global mask, and shows
the written value in cpumask_requested; undo restores that value. While another program has an
isolated partition, cpushield does not write a mask that would include its CPUs. The kernel would
apply that mask as written, and run unbound work on the CPUs of the partition.

Cost: fewer CPUs run unbound work.

Source: workqueue_apply_unbound_cpumask(), workqueue_set_unbound_cpumask() and
workqueue_unbound_exclude_cpumask() in kernel/workqueue.c (6.12);
Documentation/core-api/workqueue.rst.";

pub(super) const WORKQUEUES: Tunable = Tunable {
    name: "workqueues",
    summary: "run unbound kernel work, including writeback, on the housekeeping CPUs",
    page: PAGE,
    reads: &[GLOBAL, QUEUES],
    removes: &[Cause::Workqueue],
    // Work in a per-CPU queue follows no mask.
    culprits: &[CulpritPattern::UnboundWork, CulpritPattern::Kthread("kworker/u")],
    remedy_for,
    risk: Risk::None,
    wants,
    ..Tunable::PLAIN
};

/// Nothing else decides where unbound work runs.
fn remedy_for(machine: &Machine, shield: &Shield, culprit: &Culprit) -> Option<RemedyAnswer> {
    let is_unbound = WORKQUEUES.culprits.iter().any(|pattern| pattern.matches(culprit));
    let obstacle = match in_force(machine, shield, &WORKQUEUES) {
        _ if !is_unbound => return None,
        InForce::InForce => RemedyObstacle::WorkMaskedSince,
        InForce::NotApplicable(reason) => {
            RemedyObstacle::Inapplicable { tunable: WORKQUEUES.name.to_owned(), reason }
        }
        _ => return None,
    };
    Some(RemedyAnswer::Impossible(obstacle))
}

fn wants(machine: &Machine, shield: &Shield) -> WantedChanges {
    let files = settings(machine, GLOBAL).chain(settings(machine, QUEUES));
    let wanted: Vec<WantedChange> = files
        .filter_map(|(path, text)| {
            let now = CpuSet::parse_mask(text).ok()?;
            // The kernel shows possible CPUs that are not online; they stay in the mask.
            let value = keep_work_off(&now, machine, shield).to_mask();
            let reason = "unbound kernel work stays off the shield";
            Some(WantedChange::write(
                Some(text.to_owned()),
                path,
                &value,
                ValueComparison::Mask,
                reason,
            ))
        })
        .collect();
    if wanted.is_empty() {
        return WantedChanges::Nothing(InapplicableReason::NoWorkqueueMasks);
    }
    WantedChanges::Changes(wanted)
}
