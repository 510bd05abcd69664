//! Run: programs in the shield. Starts programs, moves running ones in and out, and shows what is
//! on the shielded CPUs (`ShieldStatus`). It uses the plan of the active shield and does not change
//! the shield itself. `programs.json` (`record`) has each change before it is made.
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
mod deadline;
mod demoted;
mod destination;
mod drift;
mod ended_change;
mod error;
mod left;
mod limits;
mod lock_limits;
mod operator;
mod order;
mod placement;
mod raise;
mod record;
mod removed;
mod spread;
mod start;
mod status;
mod task_lookup;
mod thread_in_the_way;
mod unprotected;
mod user;
mod version_change;

pub use crate::documents::moved_process::{MovedProcess, MovedProcesses};
pub use crate::documents::shield_status::*;
pub use added::{CpuAssignment, add};
pub use deadline::parse_deadline;
pub use ended_change::end_change;
pub use error::RunError;
pub use left::{programs_in_shield, still_running};
pub use limits::{check as check_policy, sentences as limits};
pub use operator::*;
pub use order::{KernelThread, PRIORITY_MAX, StartRequirements, is_vital, order};
pub use placement::{ChosenCpu, ShieldPlacement, check_move, memory_note};
pub use raise::threads;
pub use record::{AddedThread, PriorityNeed, RunRecord};
pub use removed::{ReleasedPrograms, release, remove};
pub use start::{
    NOT_EXECUTABLE, NOT_FOUND, ProgramStart, Supervision, become_program, execute, lock_limit,
    ordinary, supervise,
};
pub use status::{open_to, status};
pub use thread_in_the_way::{NoPlaceReason, ThreadInTheWay};
pub use unprotected::{find_risks, observe_start};
pub use user::{RunUser, look_up, look_up_group, look_up_user};
pub use version_change::VersionChange;

use crate::apply::{self, ShieldPresence};
use crate::documents::plan::Plan;
use cpushield_linux::{Host, Store};

/// Returns the plans of all active shields.
///
/// # Errors
/// The journal cannot be read or parsed, or a shield is incomplete.
pub fn all_active(host: &Host, store: &Store) -> Result<Vec<Plan>, RunError> {
    match apply::find_shield(host, store).map_err(RunError::Journal)? {
        ShieldPresence::Absent => Ok(Vec::new()),
        ShieldPresence::Whole(journal) => Ok(journal.plans()),
        ShieldPresence::Part(_, unfinished) => {
            Err(RunError::Unfinished { path: store.path(apply::JOURNAL), unfinished })
        }
    }
}

/// Returns the plan of the active shield of this name, or of the only one; `None` when no shield is
/// active.
///
/// # Errors
/// As [`all_active`], no active shield has this name, or there are several and none is named.
pub fn active(host: &Host, store: &Store, name: Option<&str>) -> Result<Option<Plan>, RunError> {
    let plans = all_active(host, store)?;
    let names = || plans.iter().map(|plan| plan.shield.name.clone()).collect();
    match (name, plans.as_slice()) {
        (_, []) => Ok(None),
        (None, [plan]) => Ok(Some(plan.clone())),
        (None, _) => Err(RunError::Several { names: names() }),
        (Some(name), plans) => {
            let plan = plans.iter().find(|plan| plan.shield.name == name);
            let missing = || RunError::NoSuchShield { name: name.to_owned(), names: names() };
            plan.cloned().map(Some).ok_or_else(missing)
        }
    }
}

/// Returns the plan of an active shield, which must exist.
///
/// # Errors
/// As [`active`], or no shield is active.
pub fn shield(host: &Host, store: &Store, name: Option<&str>) -> Result<Plan, RunError> {
    active(host, store, name)?.ok_or(RunError::NoShield)
}
