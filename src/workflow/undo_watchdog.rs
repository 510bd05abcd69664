//! The watchdog of `try` and `experiment`: a separate process that survives `kill -9` of the main
//! one. If the main process ends without dismissing it, it undoes the shield.

use super::{WorkContext, active_shields};
use crate::failure::Failure;
use cpushield_linux::{Error, Operation, processes::process, trace::tracefs};
use std::process::Child;
use std::time::Duration;

/// The internal subcommand that runs the watchdog.
pub const HIDDEN: &str = "__guard";

/// The name of the shield of `try`.
pub const TRY_SHIELD: &str = "try";
/// The name of the shields of `experiment`.
pub const EXPERIMENT_SHIELD: &str = "experiment";

/// A running watchdog process.
#[derive(Debug)]
pub struct UndoWatchdog {
    child: Child,
}

impl UndoWatchdog {
    /// Starts the watchdog of the shield of this name in a separate process group, so that Ctrl-C
    /// does not reach it.
    ///
    /// # Errors
    /// The process cannot be started.
    pub fn start(work: &WorkContext<'_>, shield: &str) -> Result<UndoWatchdog, Failure> {
        let state = work.state_dir.display().to_string();
        let pid = std::process::id().to_string();
        process::spawn_self(&[HIDDEN, "--state", &state, &pid, shield])
            .map(|child| UndoWatchdog { child })
            .map_err(|e| Error::io(Operation::Call, "the watchdog process", e).into())
    }

    /// Stops the watchdog, because every change was undone normally.
    pub fn dismiss(mut self) {
        // If this fails, the watchdog has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until this process ends, then undoes its temporary shield of this name.
///
/// # Errors
/// The process cannot be waited for, or undo failed.
pub fn guard(work: &WorkContext<'_>, pid: i32, shield: &str) -> Result<(), Failure> {
    while !process::wait_for_end(pid, Duration::from_secs(60))
        .map_err(|e| Error::io(Operation::Call, &format!("/proc/{pid}"), e))?
    {}
    let WorkContext { host, store, .. } = work;
    // Undo would show this note to the user, but the watchdog has no output.
    let _ = crate::latency::restore_tracer_settings(host, store);
    tracefs::remove_stale_instances(host);
    // A shield with another name belongs to another command.
    active_shields::undo_named(host, store, shield)?;
    // A worker of the main process may have had one open until now.
    tracefs::remove_stale_instances(host);
    Ok(())
}
