//! The modest workload of `try`: without it, a shield would have nothing to keep out. It is one
//! child process of cpushield with ordinary threads. They send messages through pipes, arm short
//! timers, allocate and free memory (TLB shootdowns), send packets over loopback, and start threads
//! that end soon. One thread for each CPU pins itself there whenever the kernel allows it.
//!
//! Its work ends at a deadline. The process ends with its parent, or when [`GentleLoad`] is
//! dropped. It opens no file.

use super::{LoadRefusal, work};
use crate::worker::{self, WorkerClient, WorkerProtocol};
use cpushield_linux::{CpuSet, Host, sys::sched};
use serde::{Deserialize, Serialize};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// A request to the process of the load.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum GentleLoadRequest {
    /// Keep these CPUs modestly busy for this time.
    Start {
        /// The CPUs.
        cpus: CpuSet,
        /// The longest time.
        seconds: u64,
    },
}

/// Its reply.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum GentleLoadReply {
    /// All threads work.
    Working,
}

/// The modest load as a worker.
#[derive(Debug)]
pub(crate) struct GentleLoadProtocol;

impl WorkerProtocol for GentleLoadProtocol {
    const SUBCOMMAND: &'static str = "__load";
    const TIMEOUT: Duration = Duration::from_secs(60);
    type Request = GentleLoadRequest;
    type Reply = GentleLoadReply;
    type Failure = LoadRefusal;
}

/// A running load.
#[derive(Debug)]
pub struct GentleLoad {
    _worker: WorkerClient<GentleLoadProtocol>,
}

/// Starts the load on these CPUs, for at most this many seconds.
///
/// # Errors
/// The process cannot be started, or one of its threads.
pub fn start(host: &Host, cpus: &CpuSet, seconds: u64) -> Result<GentleLoad, LoadRefusal> {
    let request = GentleLoadRequest::Start { cpus: cpus.clone(), seconds };
    let (worker, GentleLoadReply::Working) = WorkerClient::start(host, &request)?;
    Ok(GentleLoad { _worker: worker })
}

/// Runs the process of the load.
pub fn serve() {
    worker::serve::<GentleLoadProtocol>(|GentleLoadRequest::Start { cpus, seconds }| {
        start_work(&cpus, Duration::from_secs(seconds)).map_err(LoadRefusal::failed)?;
        Ok(GentleLoadReply::Working)
    });
}

/// Starts the threads, and one that ends their work.
fn start_work(cpus: &CpuSet, longest: Duration) -> io::Result<()> {
    // The parent stays off the CPUs that it tries, but this process behaves like any other program.
    sched::set_affinity(0, cpus)?;
    let stop = Arc::new(AtomicBool::new(false));
    work::start(cpus, &stop)?;
    thread::Builder::new().name("load/end".to_owned()).spawn(move || {
        thread::sleep(longest);
        stop.store(true, Ordering::Relaxed);
    })?;
    Ok(())
}
