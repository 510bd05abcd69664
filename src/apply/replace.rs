//! An active shield is replaced with another version of it. The new version joins the journal of
//! the old one, then the old one leaves. Until both have ended, the CPUs of both are kept free, so
//! the CPUs that stay are protected all the time. If the new version cannot be applied, the new one
//! leaves instead.

use super::error::{ApplyError, ApplyProgress, UndoError};
use super::executor::{PlanExecution, check, find_hogs, run_plan};
use super::join::JoinedShield;
use super::journal::{JoinKind, replaced_name};
use super::kind::OlderVersion;
use super::kinds::kind_of;
use super::load::load;
use super::{join, summary, undo};
use crate::change::Change;
use crate::documents::applied::{AppliedPlan, UnrestoredChanges};
use crate::documents::plan::{Plan, Shield, Step};
use cpushield_linux::files::store::StoreLock;
use cpushield_linux::{AffinityGuard, CpuSet, Host, Store};

/// Replaces the active shield of the plan's name. The plan was made as if that shield did not
/// exist.
///
/// # Errors
/// Nothing was written, the shield is as before, or the old version could not be undone completely.
pub fn replace(
    host: &Host,
    store: &Store,
    plan: &Plan,
    progress: &mut dyn FnMut(ApplyProgress<'_>),
) -> Result<AppliedPlan, ApplyError> {
    check(host, plan)?;
    let lock = store.lock()?;
    let work = || replace_locked(host, store, plan, &lock, progress);
    summary::publish_after(host, store, work, |applied| &mut applied.notes)
}

fn replace_locked(
    host: &Host,
    store: &Store,
    plan: &Plan,
    lock: &StoreLock,
    progress: &mut dyn FnMut(ApplyProgress<'_>),
) -> Result<AppliedPlan, ApplyError> {
    let Some(journal) = load(host, store)?.here() else {
        return Err(gone_since(&plan.shield.name));
    };
    join::check_others(&journal, &plan.shield)?;
    let name = plan.shield.name.clone();
    let Some(old) = journal.shield(&name) else { return Err(gone_since(&name)) };
    let joining = keep_off_old(plan, &old);
    // The cpuset of this process may contain none of them; then it stays.
    let _ = host.step_aside(&free_cpus(plan, &old)).map(AffinityGuard::stay);
    let tasks = host.tasks()?;
    let hogs = find_hogs(host, &joining, &tasks)?;
    summary::announce_change(host, store);
    let JoinedShield { journal, log, notes } =
        join::join(host, store, journal, &joining, JoinKind::Successor, &tasks)?;
    let run = PlanExecution::new(host, &journal, log, hogs);
    let mut applied = run_plan(run, store, &joining, lock, progress)?;
    applied.notes.extend(notes);
    let replaced = replaced_name(&name);
    match undo::undo_locked(host, store, Some(&replaced), UnrestoredChanges::Keep, lock) {
        Ok(undone) if undone.is_removed() => {
            applied.notes.extend(undone.notes_of_replaced());
            Ok(applied)
        }
        Err(UndoError::Access(error)) if error.is_stop() => Err(error.into()),
        undone => Err(ApplyError::OldRemains { shield: name, undone: Box::new(undone) }),
    }
}

fn gone_since(name: &str) -> ApplyError {
    ApplyError::Stale { why: format!("shield {name} was undone after the plan was made") }
}

/// The CPUs that neither version has.
fn free_cpus(plan: &Plan, old: &Shield) -> CpuSet {
    plan.shield.housekeeping.difference(&old.cpus)
}

/// The plan as it joins: its sets of other CPUs leave out those of the old version too, until that
/// one leaves. A CPU that is shielded already is not taken offline under its programs: a new plan
/// has no such step, but a saved one may.
fn keep_off_old(plan: &Plan, old: &Shield) -> Plan {
    let group = plan.shield.group();
    let free = free_cpus(plan, old);
    let older = OlderVersion { cpus: &old.cpus, free: &free };
    let is_kept =
        |change: &Change| matches!(change, Change::CycleCpu { cpu } if old.cpus.contains(*cpu));
    let steps = plan.steps.iter().filter(|step| !is_kept(&step.change)).map(|step| {
        let change = match step.change.is_about_group(&group) || is_kept_by_partition(&step.change)
        {
            true => step.change.clone(),
            false => kind_of(&step.change)
                .with_older_version(&older)
                .unwrap_or_else(|| step.change.clone()),
        };
        Step { change, ..step.clone() }
    });
    Plan { steps: steps.collect(), ..plan.clone() }
}

/// Whether the kernel itself keeps a set off the partition: since 6.7 the mask of unbound
/// workqueues has no CPU of an isolated one, and cannot be narrower for the old version.
fn is_kept_by_partition(change: &Change) -> bool {
    matches!(change, Change::Write { path, .. } if path.ends_with("/workqueue/cpumask"))
}
