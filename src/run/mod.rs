//! Run: programs in the shield. Starts programs, moves running ones in and out, and shows what is
//! on the shielded CPUs. It uses the plan of the active shield and does not change the shield
//! itself.
//!
//! If nothing must be restored after a program, this process enters the shield and executes it
//! (`start`). Otherwise a parent waits on a housekeeping CPU and restores what was changed while
//! the program ran (`supervise`).
//!
//! A real-time program that never sleeps starves the kernel's own threads of its CPU, and a
//! PREEMPT_RT kernel hangs without them. `order` (pure) determines which threads must be above it
//! and `raise` raises them; this cannot be disabled.

mod added;
mod confine;
mod drift;
mod error;
mod left;
mod limits;
mod order;
mod placement;
mod raise;
mod record;
mod removed;
mod spread;
mod start;
mod status;
mod user;

pub use added::{CpuAssignment, MovedProcess, add};
pub use drift::Drift;
pub use error::RunError;
pub use left::{programs_in_shield, still_running};
pub use limits::{check as check_policy, sentences as limits};
pub use order::{KernelThread, PRIORITY_MAX, StartRequirements, is_vital, order};
pub use placement::ShieldPlacement;
pub use raise::threads;
pub use record::{AddedThread, PriorityNeed, RaisedThread, RunRecord};
pub use removed::{ReleasedPrograms, release, remove};
pub use start::{
    NOT_EXECUTABLE, NOT_FOUND, ProgramStart, Supervision, become_program, lock_limit, ordinary,
    supervise,
};
pub use status::*;
pub use user::{RunUser, look_up};

use crate::apply::{self, ShieldPresence};
use crate::documents::plan::Plan;
use cpushield_linux::{Host, Store};

/// Returns the plan of the active shield.
///
/// # Errors
/// The journal cannot be read or parsed, or the shield is incomplete.
pub fn active(host: &Host, store: &Store) -> Result<Option<Plan>, RunError> {
    match apply::find_shield(host, store).map_err(RunError::Journal)? {
        ShieldPresence::Absent => Ok(None),
        ShieldPresence::Whole(journal) => Ok(Some(journal.plan())),
        ShieldPresence::Part(_, unfinished) => {
            Err(RunError::Unfinished { path: store.path(apply::JOURNAL), unfinished })
        }
    }
}

/// Returns the plan of the active shield, which must exist.
///
/// # Errors
/// As [`active`], or no shield is active.
pub fn shield(host: &Host, store: &Store) -> Result<Plan, RunError> {
    active(host, store)?.ok_or(RunError::NoShield)
}
