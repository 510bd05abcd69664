//! The active shields, as every user may know them, and checks for commands that need one or must
//! not find one. [`apply::find_shield`] tells a whole shield from an incomplete one and from one
//! that another process is changing.

use super::WorkContext;
use crate::apply::{self, JournalLoadError, PublicState, ShieldPresence};
use crate::documents::plan::{ActiveShields, Plan, Shield};
use crate::documents::shield_status::UnfinishedWork;
use crate::failure::Failure;
use crate::plan::PlanRefusal;
use crate::policy::is_shield_name;
use crate::run::{self, RunError};
use cpushield_linux::{CpuSet, Host, Store};
use std::time::Duration;

/// How long to wait for another process that is changing the shield.
const TIMEOUT: Duration = Duration::from_secs(60);
const STEP: Duration = Duration::from_millis(100);

/// The active shields. A normal user cannot read the journal, and plans without them.
///
/// # Errors
/// The journal cannot be read, or is being written by another process.
pub(super) fn active_shields(work: &WorkContext<'_>) -> Result<Vec<Plan>, Failure> {
    match apply::active_plans(&work.host, &work.store) {
        Err(error) if error.is_denied() => Ok(Vec::new()),
        Err(error) => match work_on_journal(&work.host, &work.store, &error) {
            Some(unfinished) => {
                Err(Failure::machine(unfinished.to_string()).hint(unfinished.advice()))
            }
            None => Err(error.into()),
        },
        Ok(plans) => Ok(plans),
    }
}

/// The active version of a shield, and the other shields.
pub(super) fn version_and_others(
    work: &WorkContext<'_>,
    name: &str,
) -> Result<(Option<Plan>, ActiveShields), Failure> {
    let (mut old, others): (Vec<Plan>, Vec<Plan>) =
        active_shields(work)?.into_iter().partition(|plan| plan.shield.name == name);
    let old = old.pop();
    let live = ActiveShields::new(&others).replacing(old.as_ref());
    Ok((old, live))
}

/// The work of another process because of which the journal is not complete yet; `None` if the
/// journal has another fault.
pub(super) fn work_on_journal(
    host: &Host,
    store: &Store,
    error: &JournalLoadError,
) -> Option<UnfinishedWork> {
    let JournalLoadError::Journal { .. } = error else { return None };
    match apply::find_shield(host, store) {
        Ok(ShieldPresence::Part(_, unfinished)) => Some(unfinished),
        _ => None,
    }
}

/// All CPUs of these shields.
pub(super) fn cpus_of(shields: &[Shield]) -> CpuSet {
    shields.iter().map(|shield| &shield.cpus).collect()
}

/// The active shields, whole or incomplete, without their steps. A normal user, who cannot read the
/// journal, gets those of the public summary.
pub(super) fn known_shields(host: &Host, store: &Store) -> Result<Vec<Shield>, JournalLoadError> {
    shields_of(host, store, apply::active_plans(host, store))
}

/// The same from the plans of the journals, which were read already.
pub(super) fn shields_of(
    host: &Host,
    store: &Store,
    plans: Result<Vec<Plan>, JournalLoadError>,
) -> Result<Vec<Shield>, JournalLoadError> {
    match plans {
        Ok(plans) => Ok(plans.into_iter().map(|plan| plan.shield).collect()),
        Err(error) if error.is_denied() => match apply::read_public_state(host, store) {
            PublicState::Active(shields) => {
                Ok(shields.into_iter().map(|public| public.shield).collect())
            }
            PublicState::Unknown | PublicState::Unfinished => Err(error),
        },
        Err(error) => Err(error),
    }
}

/// Checks that a shield of this name, whole or incomplete, is live.
///
/// # Errors
/// The name is not valid, none is live, or the journal cannot be read.
pub fn check_name(host: &Host, store: &Store, name: &str) -> Result<(), Failure> {
    if !is_shield_name(name) {
        return Err(PlanRefusal::BadName { name: name.to_owned() }.into());
    }
    let shields = known_shields(host, store)?;
    let names: Vec<String> = shields.into_iter().map(|shield| shield.name).collect();
    match names.iter().any(|live| live == name) {
        true => Ok(()),
        false if names.is_empty() => Err(RunError::NoShield.into()),
        false => Err(RunError::NoSuchShield { name: name.to_owned(), names }.into()),
    }
}

/// Checks that no shield is active, incomplete or being made; `hint` is for a whole one.
///
/// # Errors
/// There is a shield, or the journal cannot be read.
pub fn refuse_active(host: &Host, store: &Store, hint: &str) -> Result<(), Failure> {
    let plans = run::all_active(host, store)?;
    if plans.is_empty() {
        return Ok(());
    }
    let cpus: CpuSet = plans.iter().map(|plan| &plan.shield.cpus).collect();
    Err(Failure::machine(format!("CPU {cpus} is already shielded")).hint(hint))
}

/// Waits, for a minute at most, until no other process is changing the shield. Returns the shield
/// that it then finds.
///
/// # Errors
/// The journal cannot be read.
pub fn find_settled_shield(host: &Host, store: &Store) -> Result<ShieldPresence, JournalLoadError> {
    let mut waited = Duration::ZERO;
    loop {
        match apply::find_shield(host, store)? {
            ShieldPresence::Part(_, UnfinishedWork::UnderWay { .. }) if waited < TIMEOUT => {
                std::thread::sleep(STEP);
                waited += STEP;
            }
            found => return Ok(found),
        }
    }
}

/// Undoes the shield of this name, whole or incomplete, if there is one.
///
/// # Errors
/// The journal cannot be read, or undo failed.
pub fn undo_named(host: &Host, store: &Store, name: &str) -> Result<(), Failure> {
    let journal = match find_settled_shield(host, store)? {
        ShieldPresence::Whole(journal) | ShieldPresence::Part(Some(journal), _) => journal,
        ShieldPresence::Absent | ShieldPresence::Part(None, _) => return Ok(()),
    };
    if journal.shield_names().iter().any(|active| active == name) {
        apply::undo(host, store, Some(name))?;
    }
    Ok(())
}
