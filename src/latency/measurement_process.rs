//! The process whose threads measure. It is a separate process because it is in the shield's
//! cgroup, because all of its memory is locked, and because memory that the parent frees must not
//! interrupt it. [`MeasurementProcess`] sends requests, and [`serve`] answers them.

use super::LatencyNote;
use super::instruments::{self, ThreadTask};
use super::order::{LatencyError, MeasureRequest};
use crate::worker::{self, WorkerClient, WorkerFailure, WorkerProtocol};
use cpushield_linux::errno::EINVAL;
use cpushield_linux::shared_memory::latency_stats::{
    LIMITS, LatencyBoard, LatencyStats, ThreadSettings, ThreadStage,
};
use cpushield_linux::{CpuSet, Host, SchedPolicy, sys::memory, sys::sched};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

/// The timeout of an answer: moving into a v1 cpuset waits for an RCU grace period, see
/// `observe/sampler.rs`.
const TIMEOUT: Duration = Duration::from_secs(60);
/// How long to wait for a stopped thread to end, in addition to its period.
const GRACE_PERIOD: Duration = Duration::from_secs(2);
/// The longest period that is waited for: a thread with a longer one may sleep for an hour.
pub(super) const LONG_PERIOD: Duration = Duration::from_secs(2);
/// The stack of a measuring thread, all of it locked. Its calls are few and shallow.
const STACK_BYTES: usize = 128 << 10;

/// The CPU, period and policy of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ThreadPlacement {
    /// Its CPU.
    pub(super) cpu: usize,
    /// Its period.
    pub(super) period_ns: u64,
    /// Its policy.
    pub(super) policy: SchedPolicy,
}

/// The times of a measurement in nanoseconds of `CLOCK_MONOTONIC`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MeasurementTimes {
    /// The first event is due.
    pub(super) begin_ns: u64,
    /// Events count from here on.
    pub(super) from_ns: u64,
    /// The threads end by themselves here, even when they were not stopped.
    pub(super) until_ns: u64,
}

/// A request to the measuring process.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum MeasurementRequest {
    Start {
        instrument: String,
        placements: Vec<ThreadPlacement>,
        files: Vec<String>,
        limits_ns: [u64; LIMITS],
    },
    Go(MeasurementTimes),
    End,
}

/// Its reply.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum MeasurementReply {
    Ready { board: i32, tids: Vec<i32>, notes: Vec<LatencyNote> },
    Going,
    Done,
}

/// Why the threads cannot measure.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum MeasurementFailure {
    /// The kernel refused a thread its scheduling policy.
    Policy {
        /// The policy.
        policy: SchedPolicy,
        /// The kernel's answer.
        why: String,
    },
    /// The threads cannot be started.
    Threads {
        /// Why.
        why: String,
    },
}

impl From<WorkerFailure> for MeasurementFailure {
    fn from(failure: WorkerFailure) -> MeasurementFailure {
        MeasurementFailure::Threads { why: failure.to_string() }
    }
}

impl From<MeasurementFailure> for LatencyError {
    fn from(failure: MeasurementFailure) -> LatencyError {
        match failure {
            MeasurementFailure::Policy { policy, why } => LatencyError::Policy { policy, why },
            MeasurementFailure::Threads { why } => LatencyError::Threads { why },
        }
    }
}

/// The measuring process as a worker.
#[derive(Debug)]
pub(crate) struct MeasurementProtocol;

impl WorkerProtocol for MeasurementProtocol {
    const SUBCOMMAND: &'static str = "__measure";
    const TIMEOUT: Duration = TIMEOUT;
    type Request = MeasurementRequest;
    type Reply = MeasurementReply;
    type Failure = MeasurementFailure;

    fn is_last(reply: &MeasurementReply) -> bool {
        matches!(reply, MeasurementReply::Done)
    }
}

/// The measuring process as its parent sees it.
#[derive(Debug)]
pub(super) struct MeasurementProcess {
    worker: WorkerClient<MeasurementProtocol>,
    board: LatencyBoard,
    /// The threads' numbers, in the order of the placements.
    pub(super) tids: Vec<i32>,
    /// Notes for the document.
    pub(super) notes: Vec<LatencyNote>,
}

impl MeasurementProcess {
    /// Starts the process, in its cgroup, and its threads, which then wait.
    ///
    /// # Errors
    /// The process or a thread cannot be started, or the kernel refused the policy.
    pub(super) fn start(
        host: &Host,
        request: &MeasureRequest<'_>,
        placements: &[ThreadPlacement],
    ) -> Result<MeasurementProcess, LatencyError> {
        let request = MeasurementRequest::Start {
            instrument: request.instrument.name.to_owned(),
            placements: placements.to_vec(),
            files: request.cgroup.iter().map(|dir| format!("{dir}/cgroup.procs")).collect(),
            limits_ns: limits(request),
        };
        match WorkerClient::start(host, &request)? {
            (worker, MeasurementReply::Ready { board, tids, notes }) => {
                let board = LatencyBoard::open(worker.pid(), board, placements.len())
                    .map_err(|e| failure(format!("cannot read their figures: {e}")))?;
                Ok(MeasurementProcess { worker, board, tids, notes })
            }
            (_, other) => Err(MeasurementFailure::from(WorkerFailure::unexpected(&other)).into()),
        }
    }

    /// Lets the threads start measuring.
    ///
    /// # Errors
    /// The process is gone.
    pub(super) fn begin(&mut self, times: MeasurementTimes) -> Result<(), LatencyError> {
        match self.worker.request(&MeasurementRequest::Go(times))? {
            MeasurementReply::Going => Ok(()),
            other => Err(MeasurementFailure::from(WorkerFailure::unexpected(&other)).into()),
        }
    }

    /// The figures of the threads so far.
    pub(super) fn tallies(&self) -> &[LatencyStats] {
        self.board.tallies()
    }

    /// Tells the threads to end, and waits for those that are not asleep for long.
    pub(super) fn stop(&self, longest_period: Duration) {
        self.tallies().iter().for_each(LatencyStats::stop);
        let until = Instant::now() + longest_period.min(LONG_PERIOD) + GRACE_PERIOD;
        while self.is_running() && Instant::now() < until {
            thread::sleep(Duration::from_millis(5));
        }
    }

    fn is_running(&self) -> bool {
        self.tallies().iter().any(|tally| tally.stage() == ThreadStage::Running)
    }

    /// Ends the process. Its figures remain; a process that does not answer is killed.
    pub(super) fn finish(mut self) {
        if !self.is_running() {
            // The figures have been read already.
            let _ = self.worker.request(&MeasurementRequest::End);
        }
    }
}

/// The limits to count against; 0 for unused ones.
pub(super) fn limits(request: &MeasureRequest<'_>) -> [u64; LIMITS] {
    let mut limits_ns = [0; LIMITS];
    limits_ns.iter_mut().zip(&request.over_ns).for_each(|(to, from)| *to = *from);
    limits_ns
}

/// Runs the measuring process until its parent is gone. Its first thread sleeps while the others
/// measure, as it may be confined to the shielded CPUs too.
pub fn serve(host: &Arc<Host>) {
    let mut threads: Option<MeasurementThreads> = None;
    worker::serve::<MeasurementProtocol>(|request| match request {
        MeasurementRequest::Start { instrument, placements, files, limits_ns } => {
            let (started, ready) =
                MeasurementThreads::start(host, &instrument, &placements, &files, limits_ns)?;
            threads = Some(started);
            Ok(ready)
        }
        MeasurementRequest::Go(times) => {
            for start in threads.iter().flat_map(|threads| &threads.starts) {
                // A thread that is gone shows in its tally.
                let _ = start.send(times);
            }
            Ok(MeasurementReply::Going)
        }
        MeasurementRequest::End => Ok(MeasurementReply::Done),
    });
}

/// The threads inside of the measuring process.
struct MeasurementThreads {
    starts: Vec<Sender<MeasurementTimes>>,
}

impl MeasurementThreads {
    fn start(
        host: &Arc<Host>,
        instrument: &str,
        placements: &[ThreadPlacement],
        files: &[String],
        limits_ns: [u64; LIMITS],
    ) -> Result<(MeasurementThreads, MeasurementReply), MeasurementFailure> {
        let instrument = instruments::named(instrument)
            .ok_or_else(|| failure(format!("no instrument {instrument}")))?;
        let mut notes = Vec::new();
        let board = Arc::new(LatencyBoard::new(placements.len()).map_err(failure)?);
        if let Err(e) = memory::lock_all() {
            notes.push(LatencyNote::MemoryNotLocked { answer: e.to_string() });
        }
        for file in files {
            host.write(file, &std::process::id().to_string()).map_err(failure)?;
        }
        let (ready_sender, ready_receiver) = channel();
        let mut starts = Vec::new();
        for (i, placement) in placements.iter().enumerate() {
            let (start, wait) = channel();
            starts.push(start);
            let (host, board) = (Arc::clone(host), Arc::clone(&board));
            let (placement, ready_sender) = (*placement, ready_sender.clone());
            let work = move || {
                let ready = place_thread(&placement);
                let is_ready = ready.is_ok();
                if ready_sender.send((i, ready)).is_err() || !is_ready {
                    return;
                }
                let Some(tally) = board.tallies().get(i) else { return };
                // Otherwise the parent is gone, or gave up.
                if let Ok(times) = wait.recv() {
                    let task = make_task(&placement, times, limits_ns);
                    (instrument.run)(&host, &task, tally);
                }
            };
            let named = thread::Builder::new().name(format!("latency/{}", placement.cpu));
            named.stack_size(STACK_BYTES).spawn(work).map_err(failure)?;
        }
        let tids = collect_tids(&ready_receiver, placements.len())?;
        let board = board.number().ok_or_else(|| failure("cannot allocate shared memory"))?;
        Ok((MeasurementThreads { starts }, MeasurementReply::Ready { board, tids, notes }))
    }
}

fn failure(why: impl ToString) -> MeasurementFailure {
    MeasurementFailure::Threads { why: why.to_string() }
}

/// Waits until every thread is on its CPU, and returns their numbers.
fn collect_tids(
    ready: &Receiver<(usize, Result<i32, MeasurementFailure>)>,
    threads: usize,
) -> Result<Vec<i32>, MeasurementFailure> {
    let mut tids = vec![0; threads];
    for _ in 0..threads {
        let (i, tid) = ready.recv_timeout(TIMEOUT / 2).map_err(|_| {
            let seconds = (TIMEOUT / 2).as_secs();
            failure(format!(
                "a thread did not run on its CPU within {seconds} s; a real-time task may occupy \
                 that CPU"
            ))
        })?;
        if let Some(place) = tids.get_mut(i) {
            *place = tid?;
        }
    }
    Ok(tids)
}

/// Moves the calling thread to its CPU and sets its policy. Returns its number.
fn place_thread(placement: &ThreadPlacement) -> Result<i32, MeasurementFailure> {
    let ThreadPlacement { cpu, policy, .. } = *placement;
    sched::set_affinity(0, &CpuSet::single(cpu)).map_err(|e| MeasurementFailure::Threads {
        why: match e.raw_os_error() {
            // kernel/sched/syscalls.c, `__sched_setaffinity()`.
            Some(EINVAL) => {
                format!("CPU {cpu} belongs to a cpuset that they are not in; use --cgroup DIR")
            }
            _ => format!("the kernel does not let them run on CPU {cpu}: {e}"),
        },
    })?;
    sched::set_policy(0, policy)
        .map_err(|e| MeasurementFailure::Policy { policy, why: e.to_string() })?;
    Ok(sched::thread_id())
}

/// The task of the thread with this placement.
fn make_task(
    placement: &ThreadPlacement,
    times: MeasurementTimes,
    limits_ns: [u64; LIMITS],
) -> ThreadTask {
    let settings = ThreadSettings {
        cpu: placement.cpu,
        period_ns: placement.period_ns,
        from_ns: times.from_ns,
        until_ns: times.until_ns,
        gives_up: placement.policy.rt_priority() > 0,
        limits_ns,
    };
    ThreadTask { period_ns: placement.period_ns, begin_ns: times.begin_ns, settings }
}
