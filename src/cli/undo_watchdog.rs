//! The watchdog of `try` and `experiment`: a separate process that survives `kill -9` of the main
//! one. If the main process ends without dismissing it, it undoes the shield.

use super::{GlobalArgs, experiment_machine, standing, try_shield};
use crate::failure::Failure;
use cpushield_linux::{Error, Operation, process, tracefs};
use std::process::Child;
use std::time::Duration;

/// The internal subcommand that runs the watchdog.
pub const HIDDEN: &str = "__guard";

/// Undo a temporary shield if its process dies
#[derive(Debug, clap::Args)]
pub struct GuardArgs {
    /// The process to watch
    pid: i32,
}

/// A running watchdog process.
#[derive(Debug)]
pub struct UndoWatchdog {
    child: Child,
}

impl UndoWatchdog {
    /// Starts the watchdog in a separate process group, so that Ctrl-C does not reach it.
    ///
    /// # Errors
    /// The process cannot be started.
    pub fn start(global: &GlobalArgs) -> Result<UndoWatchdog, Failure> {
        let state = global.state_dir().display().to_string();
        let pid = std::process::id().to_string();
        process::spawn_self(&[HIDDEN, "--state", &state, &pid])
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

/// Runs the subcommand.
///
/// # Errors
/// The main process cannot be waited for, or undo failed.
pub fn run(global: &GlobalArgs, args: &GuardArgs) -> Result<(), Failure> {
    while !process::wait_for_end(args.pid, Duration::from_secs(60))
        .map_err(|e| Error::io(Operation::Call, &format!("/proc/{}", args.pid), e))?
    {}
    let host = global.host()?;
    let store = global.store();
    // Undo would show this note to the user, but the watchdog has no output.
    let _ = crate::latency::restore_tracer_settings(&host, &store);
    tracefs::remove_stale_instances(&host);
    // A shield with another name belongs to another command.
    standing::undo_named(&global.host()?, &store, &[try_shield::NAME, experiment_machine::NAME])
}
