//! Ends everything in order when the task is interrupted: a guest must not outlive its task.

use super::VmResult;
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::process::{Child, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The exit status of an interrupted task.
pub const INTERRUPTED: u8 = 130;
/// How long a process may take to end after SIGTERM before it gets SIGKILL.
const GRACE: Duration = Duration::from_secs(5);
/// The interval between two looks at a child.
pub const POLL: Duration = Duration::from_millis(100);

static STOP: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// From now on SIGINT, SIGTERM and SIGHUP only set a flag.
pub fn watch_signals() -> VmResult<()> {
    let flag = STOP.get_or_init(Arc::default);
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(flag))?;
    }
    Ok(())
}

/// Whether one of these signals has arrived.
pub fn is_requested() -> bool {
    STOP.get().is_some_and(|flag| flag.load(Ordering::Relaxed))
}

/// Asks a child to end. A child that has ended already is no error.
pub fn terminate(child: &Child) {
    if let Ok(id) = i32::try_from(child.id())
        && let Some(pid) = Pid::from_raw(id)
    {
        let _ = kill_process(pid, Signal::TERM);
    }
}

/// Ends a child: SIGTERM, after five seconds SIGKILL.
pub fn end(child: &mut Child) -> VmResult<ExitStatus> {
    terminate(child);
    let begin = Instant::now();
    while begin.elapsed() < GRACE {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        sleep(POLL);
    }
    child.kill()?;
    Ok(child.wait()?)
}
