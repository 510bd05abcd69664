//! A modest busy workload for `try`, so that a shield has something to keep out. One child
//! process of this very program with ordinary, unpinned threads: messages through pipes, short
//! timers, memory that comes and goes (TLB shootdowns), packets on loopback, threads that live a
//! moment, and one thread for each CPU that pins itself there whenever the kernel lets it.
//!
//! It ends at a deadline, or when its parent does, or when [`GentleLoad`] is dropped. It opens no
//! file.

use super::work;
use cpushield_linux::{CpuSet, process, sched};
use std::io;
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The hidden subcommand that is the load.
pub const HIDDEN: &str = "__load";

/// How often the child looks whether it is to end.
const STEP: Duration = Duration::from_millis(100);

/// A load at work.
#[derive(Debug)]
pub struct GentleLoad {
    child: Child,
}

/// Starts it on all of these CPUs for at most so many seconds.
///
/// # Errors
/// The kernel's answer.
pub fn start(cpus: &CpuSet, seconds: u64) -> io::Result<GentleLoad> {
    let parent = std::process::id().to_string();
    let arguments = [HIDDEN, &cpus.to_string(), &parent, &seconds.to_string()];
    process::spawn_self(&arguments).map(|child| GentleLoad { child })
}

impl Drop for GentleLoad {
    fn drop(&mut self) {
        // It has ended by itself when this fails.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The child: works until the deadline or until its parent is gone.
///
/// # Errors
/// The kernel's answer.
pub fn serve(cpus: &CpuSet, parent: i32, most: Duration) -> io::Result<()> {
    let end = Instant::now() + most;
    if !process::die_with_parent(parent)? {
        return Ok(());
    }
    // The parent keeps off the CPUs it tries; its child is an ordinary program.
    sched::set_affinity(0, cpus)?;
    let stop = Arc::new(AtomicBool::new(false));
    work::start(cpus, &stop)?;
    while Instant::now() < end {
        thread::sleep(STEP);
    }
    stop.store(true, Ordering::Relaxed);
    Ok(())
}
