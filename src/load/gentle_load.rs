//! The modest workload of `try`: without it, a shield would have nothing to keep out. It is one
//! child process of cpushield with ordinary threads. They send messages through pipes, arm short
//! timers, allocate and free memory (TLB shootdowns), send packets over loopback, and start threads
//! that end soon. One thread for each CPU pins itself there whenever the kernel allows it.
//!
//! The process ends at a deadline, when its parent ends, or when [`GentleLoad`] is dropped. It
//! opens no file.

use super::work;
use cpushield_linux::{CpuSet, process, sched};
use std::io;
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The hidden subcommand that runs the load.
pub const HIDDEN: &str = "__load";

/// How often the child checks for its deadline.
const STEP: Duration = Duration::from_millis(100);

/// A running load.
#[derive(Debug)]
pub struct GentleLoad {
    child: Child,
}

/// Starts the load on these CPUs, for at most this many seconds.
///
/// # Errors
/// The kernel's error.
pub fn start(cpus: &CpuSet, seconds: u64) -> io::Result<GentleLoad> {
    let parent = std::process::id().to_string();
    let arguments = [HIDDEN, &cpus.to_string(), &parent, &seconds.to_string()];
    process::spawn_self(&arguments).map(|child| GentleLoad { child })
}

impl Drop for GentleLoad {
    fn drop(&mut self) {
        // If this fails, the child has ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs the child: it works until the deadline or until its parent is gone.
///
/// # Errors
/// The kernel's error.
pub fn serve(cpus: &CpuSet, parent: i32, longest: Duration) -> io::Result<()> {
    let end = Instant::now() + longest;
    if !process::die_with_parent(parent)? {
        return Ok(());
    }
    // The parent stays off the CPUs that it tries, but its child behaves like any other program.
    sched::set_affinity(0, cpus)?;
    let stop = Arc::new(AtomicBool::new(false));
    work::start(cpus, &stop)?;
    while Instant::now() < end {
        thread::sleep(STEP);
    }
    stop.store(true, Ordering::Relaxed);
    Ok(())
}
