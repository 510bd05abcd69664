//! Run: programs in the shield. Starts one, takes running ones in and lets them out, and shows what
//! is on the shielded CPUs. It takes the plan of the active shield; it does not change the shield
//! itself.
//!
//! A program that nothing must be undone for is started in place: this process enters the shield
//! and becomes the program, so that nothing of ours is left (`start`). Otherwise a parent waits on
//! a housekeeping CPU and puts back what was changed for the program's time (`attend`).
//!
//! A real-time program that never sleeps starves the kernel's own threads of its CPU, and a
//! PREEMPT_RT kernel hangs without them. `order` (pure) says which threads must be above it and
//! `raise` puts them there; there is no way around it.

mod added;
mod confine;
mod drift;
mod error;
mod limits;
mod order;
mod placement;
mod raise;
mod record;
mod spread;
mod start;
mod status;
mod user;

pub use added::{CpuAssignment, MovedProcess, ReleasedPrograms, add, release, remove};
pub use drift::Drift;
pub use error::RunError;
pub use limits::{check as check_policy, sentences as limits};
pub use order::{KernelThread, PRIORITY_MAX, StartRequirements, is_vital, order};
pub use placement::ShieldPlacement;
pub use raise::threads;
pub use record::{AddedThread, PriorityNeed, RaisedThread, RunRecord};
pub use start::{
    NOT_EXECUTABLE, NOT_FOUND, ProgramStart, Supervision, attend, become_program, lock_limit,
    ordinary,
};
pub use status::*;
pub use user::{RunUser, look_up};

use crate::apply::{self, ShieldPresence};
use crate::plan::Plan;
use cpushield_linux::{Host, Store};

/// The plan of the shield that is in force in this boot.
///
/// # Errors
/// The journal cannot be read or is none, or only a part of a shield is there.
pub fn active(host: &Host, store: &Store) -> Result<Option<Plan>, RunError> {
    match apply::find_shield(host, store).map_err(RunError::Journal)? {
        ShieldPresence::Absent => Ok(None),
        ShieldPresence::Whole(journal) => Ok(Some(journal.plan())),
        ShieldPresence::Part(_, unfinished) => {
            Err(RunError::Unfinished { path: store.path(apply::JOURNAL), unfinished })
        }
    }
}

/// The same where there must be one.
///
/// # Errors
/// As [`active`], or there is none.
pub fn shield(host: &Host, store: &Store) -> Result<Plan, RunError> {
    active(host, store)?.ok_or(RunError::NoShield)
}
