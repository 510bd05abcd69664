//! The guard of `try` and of `experiment`: a process beside it that outlives `kill -9`. When the
//! one it guards ends without dismissing it, it undoes what was applied.

use super::{GlobalArgs, experiment_machine, standing, try_shield};
use crate::failure::Failure;
use cpushield_linux::{Error, Operation, process, tracefs};
use std::process::Child;
use std::time::Duration;

/// The hidden subcommand that is the guard.
pub const HIDDEN: &str = "__guard";

/// Watch over a shield that is only tried, and undo when who tries it dies
#[derive(Debug, clap::Args)]
pub struct GuardArgs {
    /// The process to watch over
    pid: i32,
}

/// A guard at work.
#[derive(Debug)]
pub struct UndoWatchdog {
    child: Child,
}

impl UndoWatchdog {
    /// Starts it, in a process group of its own: a Ctrl-C does not reach it.
    ///
    /// # Errors
    /// The kernel's answer.
    pub fn start(global: &GlobalArgs) -> Result<UndoWatchdog, Failure> {
        let state = global.state_dir().display().to_string();
        let pid = std::process::id().to_string();
        process::spawn_self(&[HIDDEN, "--state", &state, &pid])
            .map(|child| UndoWatchdog { child })
            .map_err(|e| Error::io(Operation::Call, "the guard process", e).into())
    }

    /// Lets it go: everything was put back in the ordinary way.
    pub fn dismiss(mut self) {
        // It has ended by itself when this fails; there is nothing left to guard.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs it.
///
/// # Errors
/// The guarded process cannot be waited for, or undo failed.
pub fn run(global: &GlobalArgs, args: &GuardArgs) -> Result<(), Failure> {
    let fail = |e| Failure::from(Error::io(Operation::Call, &format!("/proc/{}", args.pid), e));
    while !process::wait_for_end(args.pid, Duration::from_secs(60)).map_err(fail)? {}
    let host = global.host()?;
    let store = global.store();
    // Undo tells what was found; here nobody listens.
    let _ = crate::latency::restore_tracer_settings(&host, &store);
    tracefs::remove_stale_instances(&host);
    // Somebody else's shield is none of its business.
    standing::undo_own(&global.host()?, &store, &[try_shield::NAME, experiment_machine::NAME])
}
