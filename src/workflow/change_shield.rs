//! Changes an active shield: `apply` is declarative, so the request is the whole wish. What the
//! shield has already stays, what is new is added, and what is no longer requested is removed.

use super::WorkContext;
use super::active_shields::version_and_others;
use super::apply_with_fallback::{ApplyFunction, PlanOrigin, apply_or_fall_back};
use super::machine_survey::survey_shielded;
use crate::apply::{self, ApplyError, ApplyProgress};
use crate::documents::applied::{AppliedPlan, ShieldNote};
use crate::documents::plan::{Plan, SkipReason, version_differences};
use crate::failure::Failure;
use crate::plan::{check_dropped, missing};
use crate::run::{self, RunError, VersionChange};
use crate::tunables::TUNABLES;
use cpushield_linux::{Host, Store};
use std::collections::BTreeSet;

/// What happens to programs that the new version of their shield has no place for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ProgramsInTheWay {
    /// The change is refused.
    #[default]
    Refuse,
    /// They get the CPUs of the new version, or ordinary ones.
    Move,
}

/// Ends a change that was interrupted, of any shield.
///
/// # Errors
/// The journal cannot be used, or not everything could be restored.
pub(super) fn end_interrupted_change(work: &WorkContext<'_>) -> Result<(), Failure> {
    if let Some((shield, notes)) = run::end_change(&work.host, &work.store)? {
        work.ui.status(&format!("recovered from an interrupted change to shield {shield}"));
        notes.iter().for_each(|note| work.ui.status(&note.to_string()));
    }
    Ok(())
}

/// Replaces an active shield with the version of a plan. Returns the plan that is now in force.
///
/// # Errors
/// Programs are in the way, or the new version could not be applied.
pub(super) fn change_shield(
    work: &WorkContext<'_>,
    (old, new): (&Plan, Plan),
    origin: Option<&PlanOrigin<'_>>,
    programs: ProgramsInTheWay,
    progress: &mut dyn FnMut(ApplyProgress<'_>),
) -> Result<(AppliedPlan, Plan), Failure> {
    let host = &work.host;
    // A program that enters between two steps would get the new CPUs, but not their kernel threads
    // below it.
    let store = &work.store.clone().holding(work.store.lock()?);
    if is_same_version(old, &new) {
        return repair(host, store, old).map(|applied| (applied, old.clone()));
    }
    let (_, others) = version_and_others(work, &old.shield.name)?;
    check_dropped(&new, &others)?;
    let mut change = check_programs(work, (old, &new), programs)?;
    let prepared = change.prepare(host, store)?;
    let replace: ApplyFunction = apply::replace;
    let replaced = apply_or_fall_back((host, store), replace, new, origin, progress);
    let (mut applied, plan) = match replaced {
        Ok(replaced) => replaced,
        Err(error) => {
            match &error {
                // The new version is in force. Only the error is reported.
                ApplyError::OldRemains { .. } => drop(change.finish(host, store)),
                _ => change.cancel(host, store),
            }
            return Err(error.into());
        }
    };
    applied.notes.splice(0..0, notes_of_change(old, &plan));
    applied.notes.extend(prepared);
    applied.notes.extend(change.finish(host, store));
    let returned = old.shield.offline_siblings.difference(&plan.shield.offline_siblings);
    if returned.intersects(&plan.shield.cpus) {
        // While the plan was made, the files of these CPUs did not exist.
        applied.steps.extend(repair(host, store, &plan)?.steps);
    }
    Ok((applied, plan))
}

/// Finds the programs in an active shield that its new version must place.
///
/// # Errors
/// Programs are in the way, or the threads cannot be read.
pub(super) fn check_programs(
    work: &WorkContext<'_>,
    (old, new): (&Plan, &Plan),
    programs: ProgramsInTheWay,
) -> Result<VersionChange, Failure> {
    let change = VersionChange::new(&work.host, old, new)?;
    let mut refused = change.in_the_way.clone();
    if programs == ProgramsInTheWay::Move {
        refused.retain(|thread| thread.reason.is_unsafe());
    }
    match refused.is_empty() {
        true => Ok(change),
        false => {
            let shield = new.shield.name.clone();
            Err(RunError::InTheWay { shield, threads: refused }.into())
        }
    }
}

/// Makes what an unchanged shield lacks, because another process changed it or something new
/// appeared.
fn repair(host: &Host, store: &Store, plan: &Plan) -> Result<AppliedPlan, Failure> {
    let name = &plan.shield.name;
    let machine = survey_shielded(host, store, plan);
    let outcomes = apply::outcomes(host, store)?;
    let lacking = missing(&machine, plan, &outcomes, &BTreeSet::new());
    let mut applied = AppliedPlan::new(plan.shield.clone(), store.path(apply::JOURNAL));
    if lacking.is_empty() {
        applied.notes.push(ShieldNote::Unchanged { shield: name.clone() });
        return Ok(applied);
    }
    let amended = apply::amend(host, store, name, &lacking)?;
    applied.notes.push(ShieldNote::Repaired { shield: name.clone() });
    applied.notes.extend(amended.halted.map(|why| ShieldNote::RepairHalted { why }));
    applied.steps = amended.steps;
    Ok(applied)
}

/// What the new version has that the old one has not, and the reverse: CPUs, and settings.
fn notes_of_change(old: &Plan, new: &Plan) -> Vec<ShieldNote> {
    let (before, after) = (&old.shield.cpus, &new.shield.cpus);
    let (added, released) = (after.difference(before), before.difference(after));
    let cpus = ShieldNote::Changed { shield: new.shield.name.clone(), added, released };
    let settings = version_differences(old, new).into_iter().map(ShieldNote::Settings);
    std::iter::once(cpus).chain(settings).collect()
}

/// Whether two plans are for the same CPUs and the same tunables, with the same values.
pub(super) fn is_same_version(old: &Plan, new: &Plan) -> bool {
    let (a, b) = (&old.shield, &new.shield);
    let has_value = TUNABLES.iter().filter(|tunable| tunable.value.is_some());
    let mut valued = has_value.map(|tunable| tunable.name);
    a.cpus == b.cpus
        && a.idle_siblings == b.idle_siblings
        && a.offline_siblings == b.offline_siblings
        && a.mems == b.mems
        && a.workload == b.workload
        && a.balanced == b.balanced
        && a.evict == b.evict
        && a.closed == b.closed
        && a.max_latency_ns == b.max_latency_ns
        && valued.all(|name| a.tunables.value(name) == b.tunables.value(name))
        && old.operators == new.operators
        && unused_tunables(old) == unused_tunables(new)
        && !adds_disturbance(old, new)
}

/// Whether a plan has steps of a tunable that the old one left out for the sake of other shields.
fn adds_disturbance(old: &Plan, new: &Plan) -> bool {
    let is_spared = |reason: &SkipReason| matches!(reason, SkipReason::SparesShields { .. });
    let spared = old.skipped.iter().filter(|it| is_spared(&it.reason));
    let mut names = spared.map(|it| it.tunable.as_str());
    names.any(|name| new.steps.iter().any(|step| step.tunable == name))
}

/// The tunables that a plan does not use, because the user switched them off or did not ask for
/// them.
fn unused_tunables(plan: &Plan) -> BTreeSet<&str> {
    let skipped = plan
        .skipped
        .iter()
        .filter(|it| it.reason == SkipReason::SwitchedOff || it.reason.is_off_by_default());
    let names = skipped.map(|it| it.tunable.as_str());
    names.filter(|name| !plan.steps.iter().any(|step| step.tunable == *name)).collect()
}

/// The active shield of this name.
///
/// # Errors
/// The journal cannot be read, or a shield is incomplete.
pub(super) fn find_version(work: &WorkContext<'_>, name: &str) -> Result<Option<Plan>, Failure> {
    let mut plans = run::all_active(&work.host, &work.store)?.into_iter();
    Ok(plans.find(|plan| plan.shield.name == name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::fake::machine;
    use crate::plan::plan;
    use crate::policy::{ShieldRequest, TunableSetting, Workload};

    #[test]
    fn another_limit_is_another_version() {
        let machine = machine(&["0", "1", "2", "3"], &[], &[]);
        let version = |limit: Option<&str>, max_latency_ns| {
            let value = |text: &str| TunableSetting::Value(text.to_owned());
            let tunables = limit.map(|text| ("cpu-idle".to_owned(), value(text)));
            let workload = Workload::Cyclic;
            let tunables = tunables.into_iter().collect();
            let request =
                ShieldRequest { workload, max_latency_ns, tunables, ..Default::default() };
            plan(&machine, &request).unwrap()
        };
        let versions = [(None, None), (Some("20us"), None), (Some("50us"), None), (None, Some(5))];
        for (i, a) in versions.iter().enumerate() {
            for (j, b) in versions.iter().enumerate() {
                let same = is_same_version(&version(a.0, a.1), &version(b.0, b.1));
                assert_eq!(same, i == j, "{a:?} {b:?}");
            }
        }
    }
}
