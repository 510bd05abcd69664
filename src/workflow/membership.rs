//! Moves running processes into the shield and out of it.

use super::{WorkContext, catch_stops};
use crate::failure::Failure;
use crate::run::{self, CpuAssignment, MovedProcess, ShieldPlacement};

/// Moves processes, or threads, into the shield.
///
/// # Errors
/// There is no shield, or a task cannot be moved. Tasks that were moved before it stay in the
/// shield.
pub fn add_processes(
    work: &WorkContext<'_>,
    tids: &[i32],
    assignment: CpuAssignment,
) -> Result<Vec<MovedProcess>, Failure> {
    let place = find_place(work)?;
    let moved = tids.iter().map(|tid| run::add(&work.host, &work.store, &place, *tid, assignment));
    Ok(moved.collect::<Result<_, _>>()?)
}

/// Moves processes, or threads, out of the shield.
///
/// # Errors
/// There is no shield, or a task is not in it or cannot be moved.
pub fn remove_processes(
    work: &WorkContext<'_>,
    tids: &[i32],
) -> Result<Vec<MovedProcess>, Failure> {
    let place = find_place(work)?;
    let moved = tids.iter().map(|tid| run::remove(&work.host, &work.store, &place, *tid));
    Ok(moved.collect::<Result<_, _>>()?)
}

fn find_place(work: &WorkContext<'_>) -> Result<ShieldPlacement, Failure> {
    catch_stops()?;
    let plan = run::shield(&work.host, &work.store, work.shield.as_deref())?;
    Ok(ShieldPlacement::new(&work.host, &plan))
}
