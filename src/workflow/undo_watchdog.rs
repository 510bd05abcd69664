//! The watchdog of `try` and `experiment`: a separate process that survives `kill -9` of the main
//! one. If the main process ends without dismissing it, it undoes the shield.

use super::{WorkContext, active_shields};
use crate::failure::Failure;
use crate::worker::log_argument;
use cpushield_linux::{Error, Host, Operation, ProcessHandle, TaskId, trace::tracefs};
use std::ffi::OsString;
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
        let pid = std::process::id();
        let failed = |e| Error::io(Operation::Call, "the watchdog process", e);
        let task = i32::try_from(pid).map_err(|e| failed(std::io::Error::other(e)))?;
        let started = Host::live().task(task, task)?.id.started.to_string();
        let mut words: Vec<OsString> = vec![HIDDEN.into(), "--state".into()];
        words.push(work.state_dir.clone().into());
        words.extend(work.host.log_path().map(log_argument));
        words.extend([pid.to_string().into(), started.into(), shield.into()]);
        work.host
            .spawn_self(&words)
            .map(|child| UndoWatchdog { child })
            .map_err(|e| failed(e).into())
    }

    /// Stops the watchdog, because every change was undone normally.
    pub fn dismiss(mut self) {
        // If this fails, the watchdog has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// How long to wait at a time.
const WAIT: Duration = Duration::from_secs(60);

/// Waits until this process ends, then undoes its temporary shield of this name. Another process
/// that has its number later is not waited for.
///
/// # Errors
/// The process cannot be waited for, or undo failed.
pub fn guard(work: &WorkContext<'_>, watched: TaskId, shield: &str) -> Result<(), Failure> {
    let failed = |e| Error::io(Operation::Call, &format!("/proc/{}", watched.tid), e);
    if let Some(handle) = ProcessHandle::watch(watched).map_err(failed)? {
        while !handle.wait_for_end(WAIT).map_err(failed)? {}
    }
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
