//! What a plan does for operators: users other than root that may enter the shield. Pure.
//!
//! On cgroup v1 a user may move its own tasks into each group whose `tasks` it may write
//! (`cgroup1_tasks_write()`, kernel/cgroup/cgroup-v1.c, 6.1). On v2 the common ancestor counts too,
//! so a helper moves them (`operate`).

use super::{PlanRefusal, Step};
use crate::change::{Change, EffectTime, Risk};
use crate::documents::machine::{CgroupMode, Machine};
use crate::documents::plan::{Plan, PlanWarning, StepReason};
use crate::policy::ShieldOperators;
use crate::tunables::HOUSEKEEPING_GROUP;

/// Adds the steps for operators, if the request has any.
///
/// # Errors
/// This machine cannot have such operators.
pub(super) fn add_operators(
    plan: &mut Plan,
    machine: &Machine,
    operators: Option<&ShieldOperators>,
) -> Result<(), PlanRefusal> {
    let Some(operators) = operators else { return Ok(()) };
    let Some(group) = plan.cgroup_dir() else {
        let why = "the shield has no cgroup for their programs".to_owned();
        return Err(PlanRefusal::Operators { why });
    };
    if matches!(machine.cgroup.mode, CgroupMode::V2) {
        return Ok(());
    }
    let (Some(owner), true) = (&operators.group, operators.users.is_empty()) else {
        let why = "on cgroup v1, operators must be a group, not single users: a user who owns a \
                   cgroup file could give other users access to it"
            .to_owned();
        return Err(PlanRefusal::Operators { why });
    };
    if operators.limits.priority.is_some() || operators.limits.locked_memory.is_some() {
        plan.warnings.push(PlanWarning::OperatorLimits);
    }
    let above = group.rsplit_once('/').map_or("", |(above, _)| above).to_owned();
    let places = [
        (group, "operators may move their own tasks into the shield"),
        (
            format!("{above}/{HOUSEKEEPING_GROUP}"),
            "operators may move their own tasks out of the shield",
        ),
    ];
    for (dir, why) in places {
        plan.steps.push(Step {
            tunable: "cpuset".to_owned(),
            change: Change::GiveToGroup { path: format!("{dir}/tasks"), gid: owner.id },
            now: None,
            reason: StepReason::from(why),
            risk: Risk::Low,
            when: EffectTime::Runtime,
            removes: Vec::new(),
            required: true,
        });
    }
    Ok(())
}
