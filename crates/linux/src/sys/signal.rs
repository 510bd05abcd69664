//! Stopping by signal: SIGINT, SIGTERM and SIGHUP set a flag, so that code which has changed the
//! machine can restore it before the process ends.

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicI32, Ordering};

/// The last stopping signal; 0 if there was none.
static STOPPED_BY: AtomicI32 = AtomicI32::new(0);

extern "C" fn record_signal(signal: libc::c_int) {
    STOPPED_BY.store(signal, Ordering::SeqCst);
}

/// Makes the stopping signals set the flag instead of ending the process. Blocking calls return
/// with EINTR (no `SA_RESTART`), so that loops check the flag soon. SIGHUP stays ignored if the
/// caller ignores it, as with nohup(1).
///
/// # Errors
/// The kernel's error.
pub fn catch_stops() -> io::Result<()> {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        if signal != libc::SIGHUP || !is_ignored(signal) {
            set_handler(signal, record_signal)?;
        }
    }
    Ok(())
}

/// Whether this process ignores a signal; `false` if the kernel does not say.
fn is_ignored(signal: libc::c_int) -> bool {
    // SAFETY: an all-zero sigaction is a valid value, and its pointer is valid for the call.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &raw mut action) == 0
            && action.sa_sigaction == libc::SIG_IGN
    }
}

/// Sets the handler of a signal. It may only do what is async-signal-safe (signal-safety(7)).
fn set_handler(signal: libc::c_int, handler: extern "C" fn(libc::c_int)) -> io::Result<()> {
    // SAFETY: an all-zero sigaction is a valid value; the handlers of this file store to an atomic
    // at most, which is async-signal-safe; the pointer is valid for the call.
    let answer = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as libc::sighandler_t;
        libc::sigaction(signal, &raw const action, std::ptr::null_mut())
    };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

extern "C" fn ignore_signal(_: libc::c_int) {}

/// Makes a write beyond the limit of file sizes (`ulimit -f`, `LimitFSIZE=`) return EFBIG instead
/// of ending the process by SIGXFSZ (setrlimit(2)). So undo survives the limit as it survives a
/// full disk. A program that this process executes has the default action again: execve(2) resets
/// handlers, but would pass on that a signal is ignored.
///
/// # Errors
/// The kernel's error.
pub fn survive_file_size_limit() -> io::Result<()> {
    set_handler(libc::SIGXFSZ, ignore_signal)
}

/// Forgets a signal that asked this process to stop, so that it can restore the machine. A further
/// signal sets the flag again.
pub fn forget_stop() {
    STOPPED_BY.store(0, Ordering::SeqCst);
}

/// A signal that asks a process to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StopSignal(i32);

impl fmt::Display for StopSignal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            libc::SIGINT => f.write_str("Ctrl-C (SIGINT)"),
            libc::SIGTERM => f.write_str("SIGTERM"),
            libc::SIGHUP => f.write_str("SIGHUP"),
            other => write!(f, "signal {other}"),
        }
    }
}

/// The signal that asked this process to stop; `None` if there was none.
#[must_use]
pub fn stopped_by() -> Option<StopSignal> {
    match STOPPED_BY.load(Ordering::SeqCst) {
        0 => None,
        signal => Some(StopSignal(signal)),
    }
}
