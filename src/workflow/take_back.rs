//! Takes back what a command did to shields, after a later one of them could not be applied.

use super::WorkContext;
use super::active_shields::version_and_others;
use super::apply_shield::ProgramsInTheWay;
use super::change_shield::{change_shield, find_version, is_same_version};
use super::machine_without::survey_without;
use super::take_down::take_down_named;
use crate::apply;
use crate::documents::applied::{AppliedShield, ShieldEffect, UnrestoredChanges};
use crate::documents::count_text::joined;
use crate::documents::plan::{NamedShield, Plan};
use crate::failure::{Failure, FailureKind};
use crate::plan::plan_version;
use cpushield_linux::sys::signal;

/// Undoes the shields that were made, and puts back those that were changed, the last one first.
/// Returns the failure of the shield of this name, with what became of the others.
pub(super) fn take_back(
    work: &WorkContext<'_>,
    done: &[AppliedShield],
    name: &str,
    failure: Failure,
) -> Failure {
    // The signal has ended the apply. Restoring is not to be stopped by it too.
    signal::forget_stop();
    let message = format!("shield {name}: {}", failure.message);
    let mut failure = Failure { message, ..failure };
    let mut is_complete = failure.kind != FailureKind::NotUndone;
    let mut touched = false;
    for shield in done.iter().rev() {
        let name = &shield.plan.shield.name;
        let (restored, outcome, missed) = match (shield.what, &shield.before) {
            (ShieldEffect::Made, _) => {
                (undo_made(work, name), format!("undone: shield {name}"), "not undone")
            }
            (ShieldEffect::Changed, Some(before)) => {
                let put_back = format!("restored: shield {name} on CPU {}", before.shield.cpus);
                (put_back_version(work, before), put_back, "not restored")
            }
            (ShieldEffect::Changed | ShieldEffect::Kept, _) => continue,
        };
        touched = true;
        match restored {
            Ok(()) => failure.message.push_str(&format!("\n  {outcome}")),
            Err(why) => {
                is_complete = false;
                failure.message.push_str(&format!("\n  {missed}: shield {name}: {why}"));
            }
        }
    }
    if !is_complete {
        failure.kind = FailureKind::NotUndone;
        failure.message.push_str(&format!("\n  active: {}", describe_active(work)));
        return failure.hint("show the shields: cpushield status");
    }
    if touched {
        failure.kind = FailureKind::Undone;
    }
    failure
}

/// The active shields, as a list.
fn describe_active(work: &WorkContext<'_>) -> String {
    match apply::active_plans(&work.host, &work.store) {
        Ok(plans) if plans.is_empty() => "no shield".to_owned(),
        Ok(plans) => joined(plans.iter().map(|plan| NamedShield::from(&plan.shield)), ", "),
        Err(error) => format!("unknown: {error}"),
    }
}

fn undo_made(work: &WorkContext<'_>, name: &str) -> Result<(), String> {
    let undone = take_down_named(work, Some(name), UnrestoredChanges::Keep)
        .map_err(|failure| failure.message)?;
    match undone.failed().next() {
        Some(step) => Err(format!("{} could not be restored", step.subject)),
        None => Ok(()),
    }
}

/// Replaces the version of a shield that is in force with the one before.
fn put_back_version(work: &WorkContext<'_>, before: &Plan) -> Result<(), String> {
    let WorkContext { host, store, .. } = work;
    let name = &before.shield.name;
    let current = find_version(work, name).map_err(|failure| failure.message)?;
    let current = current.ok_or("it is no longer active")?;
    let machine = survey_without(host, store, Some(&current)).map_err(|error| error.to_string())?;
    let (_, live) = version_and_others(work, name).map_err(|failure| failure.message)?;
    let plan = plan_version(&machine, before, &live).map_err(|refusal| refusal.to_string())?;
    if !is_same_version(before, &plan) {
        return Err(
            "the plan for its previous version would now differ, so it was not applied".to_owned()
        );
    }
    change_shield(work, (&current, plan), None, ProgramsInTheWay::Move, &mut |_| {})
        .map(drop)
        .map_err(|failure| failure.message)
}
