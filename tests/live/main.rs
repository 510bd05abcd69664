//! Tests that measure or load the machine that runs them, or give a page to a browser.

mod autosave;
mod export;
mod latency;
mod load;
mod load_workers;
mod page;
mod signals;
mod state;
mod trace;
mod verify;
mod watch;

#[path = "../support/browser.rs"]
mod browser;
#[path = "../support/documents.rs"]
mod documents;
#[path = "../support/family.rs"]
mod family;
#[path = "../support/not_run.rs"]
mod not_run;
#[path = "../support/shared_data.rs"]
mod shared_data;
#[path = "../../crates/linux/tests/support/trace_dat.rs"]
mod trace_dat;

use cpushield_linux::Host;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The turn of a test that loads this machine or whose claim depends on the CPU: two at a time
/// would disturb each other. A test that only waits for processes takes no turn.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits for an event, for far longer than it takes on a busy machine.
#[track_caller]
fn wait_until(what: &str, mut is: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is() {
        assert!(began.elapsed() < Duration::from_secs(120), "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// How often a thread has gone to sleep: the rounds of a loop that waits. 0 once it has ended.
fn count_sleeps(tid: i32) -> u64 {
    let status = Host::live().read(&format!("/proc/{tid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    line.map_or(0, |count| count.trim().parse().unwrap())
}
