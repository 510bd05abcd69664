//! Takes the shield down, with everything that cpushield left in it.

use super::WorkContext;
use crate::apply::{self, UndoError, UndoneShield, undo};
use crate::failure::Failure;
use crate::{latency, run};
use cpushield_linux::{sched, tracefs};

/// What happens to the record of changes that cannot be undone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnrestoredChanges {
    /// The journal keeps them for another undo.
    Keep,
    /// The journal is archived, even if it cannot be read.
    Forget,
}

/// Takes the shield down, releases the programs in it, and removes leftover traces.
///
/// # Errors
/// The journal cannot be used.
pub fn take_down(
    work: &WorkContext<'_>,
    unrestored: UnrestoredChanges,
) -> Result<UndoneShield, Failure> {
    let WorkContext { host, store, .. } = work;
    let _hurry = sched::boost_priority();
    let tracer_note = latency::restore_tracer_settings(host, store);
    let swept = tracefs::remove_stale_instances(host);
    let programs = run::programs_in_shield(host, store);
    let released = run::release(host, store);
    let mut undone = match undo(host, store) {
        Err(UndoError::Journal { .. }) if unrestored == UnrestoredChanges::Forget => {
            UndoneShield { journal: apply::forget(store)?, ..UndoneShield::nothing() }
        }
        result => result?,
    };
    undone.left = run::still_running(host, &programs);
    undone.notes.extend(tracer_note);
    match released {
        Ok(released) => {
            // The notes name those.
            let is_back = |pid: i32| released.back.iter().any(|moved| moved.tid == pid);
            undone.left.retain(|program| !is_back(program.pid));
            undone.notes.extend(released.back.iter().map(|moved| {
                format!("{} ({}) is back in its previous place", moved.comm, moved.tid)
            }));
            undone.notes.extend(
                released
                    .disarmed
                    .iter()
                    .map(|program| format!("{program} continues as an ordinary program")),
            );
            undone.notes.extend(released.notes);
        }
        Err(error) => undone.notes.push(format!("programs in the shield: {error}")),
    }
    if swept > 0 {
        undone.notes.push(format!("removed the traces of killed watches: {swept}"));
    }
    if unrestored == UnrestoredChanges::Forget && !undone.is_complete() {
        undone.journal = apply::forget(store)?;
    }
    Ok(undone)
}
