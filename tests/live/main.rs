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
#[path = "../support/python.rs"]
mod python;
#[path = "../support/shared_data.rs"]
mod shared_data;
#[path = "../../crates/linux/tests/support/trace_dat.rs"]
mod trace_dat;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// The turn of a test that measures or loads this machine: two at a time would disturb each other.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}
