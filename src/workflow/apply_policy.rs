//! Applies all shields of a policy. Everything is planned before the first write. If a shield
//! cannot be applied, what this command did to the shields before it is taken back.

use super::active_shields::version_and_others;
use super::apply_shield::{ProgramsInTheWay, make_plan, warn_of_nohz_full};
use super::apply_with_fallback::PlanOrigin;
use super::change_shield::{check_programs, end_interrupted_change, is_same_version};
use super::machine_without::survey_without;
use super::operator_units::warn_of_old_socket;
use super::policy_shields::plan_policy_shields;
use super::shield_options::PolicyOptions;
use super::take_back::take_back;
use super::{WorkContext, catch_stops};
use crate::documents::applied::{AppliedPolicy, AppliedShield, ShieldEffect};
use crate::failure::{Failure, FailureKind};
use crate::plan::{PlannedShield, plan_choice};
use crate::run;
use cpushield_linux::sys::sched;

/// Applies all shields of a policy file, or of the default one.
///
/// # Errors
/// The policy cannot be planned, then nothing was written; or a shield could not be applied, then
/// the others are as before, unless the message says otherwise.
pub fn apply_policy(
    work: &WorkContext<'_>,
    options: &PolicyOptions,
    programs: ProgramsInTheWay,
) -> Result<AppliedPolicy, Failure> {
    let applied = apply_shields(work, options, programs)?;
    applied.shields.iter().for_each(|shield| warn_of_old_socket(work, &shield.plan));
    Ok(applied)
}

/// The same without the warning about sockets, which `enable` writes next.
///
/// # Errors
/// As [`apply_policy`].
pub(super) fn apply_shields(
    work: &WorkContext<'_>,
    options: &PolicyOptions,
    programs: ProgramsInTheWay,
) -> Result<AppliedPolicy, Failure> {
    let _hurry = sched::boost_priority();
    end_interrupted_change(work)?;
    // An incomplete shield is reported before anything is planned with it.
    run::all_active(&work.host, &work.store)?;
    let planned = plan_policy_shields(work, options)?;
    for PlannedShield { wanted, plan, .. } in &planned.shields {
        if let Some(active) = wanted.active.as_ref().filter(|it| !is_same_version(it, plan)) {
            check_programs(work, (active, plan), programs)?;
        }
    }
    catch_stops()?;
    let mut done: Vec<AppliedShield> = Vec::new();
    for shield in &planned.shields {
        match apply_one(work, shield, programs) {
            Ok(applied) => done.push(applied),
            // A bug may be anywhere, so nothing more is written.
            Err(failure) if failure.kind == FailureKind::Bug => return Err(failure),
            Err(failure) => {
                return Err(take_back(work, &done, &shield.wanted.request.name, failure));
            }
        }
    }
    warn_of_nohz_full(work);
    let others = planned.others.into_iter().map(|plan| plan.shield).collect();
    Ok(AppliedPolicy::new(done, others))
}

/// Plans a shield once more on the machine with the shields before it, and applies that plan.
fn apply_one(
    work: &WorkContext<'_>,
    planned: &PlannedShield,
    programs: ProgramsInTheWay,
) -> Result<AppliedShield, Failure> {
    let WorkContext { host, store, .. } = work;
    let request = &planned.wanted.request;
    let (before, live) = version_and_others(work, &request.name)?;
    let machine = survey_without(host, store, before.as_ref())?;
    let choice = planned.choice.clone();
    let plan = plan_choice(&machine, request, choice, &live)?;
    let what = match &before {
        None => ShieldEffect::Made,
        Some(before) if is_same_version(before, &plan) => ShieldEffect::Kept,
        Some(_) => ShieldEffect::Changed,
    };
    let origin = PlanOrigin { machine: &machine, request, choice: Some(&planned.choice) };
    let (applied, plan) = make_plan(work, &plan, Some(&origin), programs)?;
    Ok(AppliedShield { what, applied, plan, before })
}
