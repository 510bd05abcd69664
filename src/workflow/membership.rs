//! Moves running processes into the shield and out of it.

use super::operators::remove_as_operator;
use super::{WorkContext, catch_stops};
use crate::apply::JournalLoadError;
use crate::documents::moved_process::{MovedProcess, MovedProcesses};
use crate::failure::Failure;
pub use crate::run::CpuAssignment;
use crate::run::{self, RunError, ShieldPlacement};
use cpushield_linux::{Error, processes::process};

/// Moves processes, or threads, into the shield.
///
/// # Errors
/// There is no shield, or a task cannot be moved. Tasks that were moved before it stay in the
/// shield.
pub fn add_processes(
    work: &WorkContext<'_>,
    tids: &[i32],
    assignment: CpuAssignment,
) -> Result<MovedProcesses, Failure> {
    catch_stops()?;
    let place = find_place(work)?;
    let moved = tids.iter().map(|tid| run::add(&work.host, &work.store, &place, *tid, assignment));
    let moved = MovedProcesses::new(moved.collect::<Result<_, _>>()?);
    let risks = run::find_risks(&work.host, &place)?;
    let risks = risks.iter().filter(|risk| tids.contains(&risk.pid()));
    risks.for_each(|risk| work.ui.warn(&risk.to_string()));
    Ok(moved)
}

/// Moves processes, or threads, out of the shield. An operator, who may not do so, asks the helper
/// for root.
///
/// # Errors
/// There is no shield, or a task is not in it or cannot be moved.
pub fn remove_processes(work: &WorkContext<'_>, tids: &[i32]) -> Result<MovedProcesses, Failure> {
    catch_stops()?;
    let place = match find_place(work) {
        Ok(place) => place,
        Err(error) => return Ok(MovedProcesses::new(remove_otherwise(work, tids, error)?)),
    };
    let mut moved = Vec::new();
    for (nth, tid) in tids.iter().enumerate() {
        match run::remove(&work.host, &work.store, &place, *tid) {
            Ok(process) => moved.push(process),
            Err(error) => {
                let rest = tids.get(nth..).unwrap_or_default();
                moved.extend(remove_otherwise(work, rest, error)?);
                break;
            }
        }
    }
    Ok(MovedProcesses::new(moved))
}

/// Asks the helper if this user lacks the permission; otherwise fails with the error.
fn remove_otherwise(
    work: &WorkContext<'_>,
    tids: &[i32],
    error: RunError,
) -> Result<Vec<MovedProcess>, Failure> {
    match error {
        RunError::Journal(JournalLoadError::Access(error)) | RunError::Machine(error)
            if is_for_operators(&error) =>
        {
            remove_as_operator(work, tids, error)
        }
        error => Err(error.into()),
    }
}

/// Whether an error is the kernel's answer to a user other than root.
fn is_for_operators(error: &Error) -> bool {
    process::effective_user() != 0 && (error.is_denied() || error.is_not_permitted())
}

fn find_place(work: &WorkContext<'_>) -> Result<ShieldPlacement, RunError> {
    let plan = run::shield(&work.host, &work.store, work.shield.as_deref())?;
    Ok(ShieldPlacement::new(&work.host, &plan))
}
