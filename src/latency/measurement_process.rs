//! The process whose threads measure. It is one of its own because it sits in the shield's cgroup,
//! because all its memory is locked, and because memory that this process gives back must not
//! interrupt it. Both sides of the conversation are here: [`MeasurementProcess`] asks, [`serve`]
//! answers.

use super::instruments::{self, ThreadTask};
use super::order::LatencyError;
use cpushield_linux::latency_stats::{
    LIMITS, LatencyBoard, LatencyStats, ThreadSettings, ThreadStage,
};
use cpushield_linux::worker_process::{WorkerEnd, WorkerProcess};
use cpushield_linux::{CpuSet, Host, SchedPolicy, memory, sched};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

/// The hidden subcommand that makes this program the crew.
pub const HIDDEN: &str = "__measure";
/// How long an answer may take: moving into a v1 cpuset waits for an RCU grace period, see
/// `verify/sampler.rs`.
const PATIENCE: Duration = Duration::from_secs(60);
/// A thread that was told to end and has not for so long and its period waits in vain.
const GRACE: Duration = Duration::from_secs(2);
/// Of a longer period the rest is not waited for: its thread may sleep for an hour yet.
pub(super) const LONG: Duration = Duration::from_secs(2);
/// A measuring thread calls little and deep nowhere; all of it is locked.
const STACK_BYTES: usize = 128 << 10;

/// Where a thread goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ThreadPlacement {
    /// Its CPU.
    pub(super) cpu: usize,
    /// Its period.
    pub(super) period_ns: u64,
    /// Its policy.
    pub(super) policy: SchedPolicy,
}

/// When the threads do what, by `CLOCK_MONOTONIC`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct MeasurementTimes {
    /// From here on there are events.
    pub(super) begin_ns: u64,
    /// From here on they count.
    pub(super) from_ns: u64,
    /// Here the threads end by themselves, whether somebody tells them to or not.
    pub(super) until_ns: u64,
}

/// What the crew is asked.
#[derive(Debug, Serialize, Deserialize)]
enum MeasurementRequest {
    Start {
        instrument: String,
        seats: Vec<ThreadPlacement>,
        files: Vec<String>,
        limits_ns: [u64; LIMITS],
    },
    Go(MeasurementTimes),
    End,
}

/// What it answers.
#[derive(Debug, Serialize, Deserialize)]
enum MeasurementReply {
    Ready { board: i32, tids: Vec<i32>, notes: Vec<String> },
    Going,
    Done,
    Refused { policy: SchedPolicy, why: String },
    Failed { why: String },
}

/// The crew as its maker sees it.
#[derive(Debug)]
pub(super) struct MeasurementProcess {
    companion: WorkerProcess,
    board: LatencyBoard,
    /// The threads, in the order of the seats.
    pub(super) tids: Vec<i32>,
    /// What is not as it should be.
    pub(super) notes: Vec<String>,
}

impl MeasurementProcess {
    /// Starts the threads; they wait. `files` take the number of the process: those of its cgroup.
    ///
    /// # Errors
    /// Says why not.
    pub(super) fn start(
        instrument: &str,
        seats: &[ThreadPlacement],
        files: Vec<String>,
        limits_ns: [u64; LIMITS],
    ) -> Result<MeasurementProcess, LatencyError> {
        let failed = |why: String| LatencyError::Threads { why };
        let mut companion = WorkerProcess::start(&[HIDDEN]).map_err(|e| failed(e.to_string()))?;
        let seats_given = seats.to_vec();
        let instrument = instrument.to_owned();
        let ask = MeasurementRequest::Start { instrument, seats: seats_given, files, limits_ns };
        match talk(&mut companion, &ask).map_err(failed)? {
            MeasurementReply::Ready { board, tids, notes } => {
                let board = LatencyBoard::open(companion.pid(), board, seats.len())
                    .map_err(|e| failed(format!("what they see cannot be read: {e}")))?;
                Ok(MeasurementProcess { companion, board, tids, notes })
            }
            MeasurementReply::Refused { policy, why } => Err(LatencyError::Policy { policy, why }),
            other => Err(failed(unexpected(&other))),
        }
    }

    /// Lets the threads go.
    ///
    /// # Errors
    /// The crew is gone.
    pub(super) fn go(&mut self, times: MeasurementTimes) -> Result<(), LatencyError> {
        let why = match talk(&mut self.companion, &MeasurementRequest::Go(times)) {
            Ok(MeasurementReply::Going) => return Ok(()),
            Ok(other) => unexpected(&other),
            Err(why) => why,
        };
        Err(LatencyError::Threads { why })
    }

    /// What the threads saw so far.
    pub(super) fn tallies(&self) -> &[LatencyStats] {
        self.board.tallies()
    }

    /// Tells the threads to end, and waits for those that can.
    pub(super) fn stop(&self, longest_period: Duration) {
        self.tallies().iter().for_each(LatencyStats::stop);
        let until = Instant::now() + longest_period.min(LONG) + GRACE;
        let busy = |tally: &LatencyStats| tally.stage() == ThreadStage::Running;
        while self.tallies().iter().any(busy) && Instant::now() < until {
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Lets the process end. What it has said is kept; who does not listen is killed.
    pub(super) fn dismiss(mut self) {
        if self.tallies().iter().all(|tally| tally.stage() != ThreadStage::Running) {
            // The figures are here already.
            let _ = talk(&mut self.companion, &MeasurementRequest::End);
        }
    }
}

fn unexpected(answer: &MeasurementReply) -> String {
    match answer {
        MeasurementReply::Failed { why } => why.clone(),
        other => format!("an answer out of turn: {other:?}"),
    }
}

fn talk(
    companion: &mut WorkerProcess,
    ask: &MeasurementRequest,
) -> Result<MeasurementReply, String> {
    let line = serde_json::to_string(ask).map_err(|e| e.to_string())?;
    companion.send(&line).map_err(|e| format!("their process is gone: {e}"))?;
    let line =
        companion.receive(PATIENCE).map_err(|e| format!("their process does not answer: {e}"))?;
    serde_json::from_str(&line).map_err(|e| format!("an answer that makes no sense: {e}"))
}

/// The crew's own side: serves until its maker is gone. Its first thread sleeps while the others
/// measure, as it may be confined to the CPUs of the shield too.
pub fn serve(host: &Host) {
    let duty = WorkerEnd::start();
    let mut team: Option<MeasurementThreads> = None;
    while let Some(line) = duty.next() {
        let answer = match serde_json::from_str(&line) {
            Ok(MeasurementRequest::Start { instrument, seats, files, limits_ns }) => {
                match MeasurementThreads::start(host, &instrument, &seats, &files, limits_ns) {
                    Ok((made, ready)) => {
                        team = Some(made);
                        ready
                    }
                    Err(answer) => answer,
                }
            }
            Ok(MeasurementRequest::Go(times)) => {
                for start in team.iter().flat_map(|team| &team.starts) {
                    // A thread that is gone shows in its tally.
                    let _ = start.send(times);
                }
                MeasurementReply::Going
            }
            Ok(MeasurementRequest::End) => {
                team = None;
                MeasurementReply::Done
            }
            Err(e) => MeasurementReply::Failed { why: e.to_string() },
        };
        let line = serde_json::to_string(&answer).unwrap_or_default();
        if duty.answer(&line).is_err() {
            break;
        }
    }
}

/// The threads, as their own process has them.
struct MeasurementThreads {
    starts: Vec<Sender<MeasurementTimes>>,
}

impl MeasurementThreads {
    fn start(
        host: &Host,
        instrument: &str,
        seats: &[ThreadPlacement],
        files: &[String],
        limits_ns: [u64; LIMITS],
    ) -> Result<(MeasurementThreads, MeasurementReply), MeasurementReply> {
        let failed = |why: String| MeasurementReply::Failed { why };
        let instrument = instruments::by_name(instrument)
            .ok_or_else(|| failed(format!("no instrument {instrument}")))?;
        let mut notes = Vec::new();
        let board = Arc::new(LatencyBoard::new(seats.len()).map_err(|e| failed(e.to_string()))?);
        if let Err(e) = memory::lock_all() {
            notes.push(format!(
                "the memory of the measuring threads is not locked ({e}): page faults may be part \
                 of the figures"
            ));
        }
        for file in files {
            host.write(file, &std::process::id().to_string()).map_err(|e| failed(e.to_string()))?;
        }
        let (tell, told) = channel();
        let mut starts = Vec::new();
        for (i, seat) in seats.iter().enumerate() {
            let (start, wait) = channel();
            starts.push(start);
            let (seat, board, tell) = (*seat, Arc::clone(&board), tell.clone());
            let work = move || {
                let ready = settle_down(&seat);
                let is_ready = ready.is_ok();
                if tell.send((i, ready)).is_err() || !is_ready {
                    return;
                }
                work(instrument, &seat, board.tallies().get(i), limits_ns, &wait);
            };
            let named = thread::Builder::new().name(format!("latency/{}", seat.cpu));
            named.stack_size(STACK_BYTES).spawn(work).map_err(|e| failed(e.to_string()))?;
        }
        let tids = heard(&told, seats.len())?;
        let board = board.number().ok_or_else(|| failed("no shared memory".to_owned()))?;
        Ok((MeasurementThreads { starts }, MeasurementReply::Ready { board, tids, notes }))
    }
}

/// The numbers of all threads once each is where it belongs.
fn heard(
    told: &Receiver<(usize, Result<i32, MeasurementReply>)>,
    threads: usize,
) -> Result<Vec<i32>, MeasurementReply> {
    let mut tids = vec![0; threads];
    for _ in 0..threads {
        let (i, tid) = told.recv_timeout(PATIENCE / 2).map_err(|e| MeasurementReply::Failed {
            why: format!("a thread does not begin: {e}"),
        })?;
        if let Some(place) = tids.get_mut(i) {
            *place = tid?;
        }
    }
    Ok(tids)
}

/// A thread goes to its CPU and takes its policy.
fn settle_down(seat: &ThreadPlacement) -> Result<i32, MeasurementReply> {
    let ThreadPlacement { cpu, policy, .. } = *seat;
    sched::set_affinity(0, &CpuSet::one(cpu)).map_err(|e| MeasurementReply::Failed {
        why: match e.raw_os_error() {
            // kernel/sched/syscalls.c, `__sched_setaffinity()`.
            Some(22) => {
                format!("CPU {cpu} belongs to a cpuset that they are not in; --cgroup DIR names it")
            }
            _ => format!("the kernel does not let them run on CPU {cpu}: {e}"),
        },
    })?;
    sched::set_policy(0, policy)
        .map_err(|e| MeasurementReply::Refused { policy, why: e.to_string() })?;
    Ok(sched::thread_id())
}

/// The whole work of a thread.
fn work(
    instrument: &dyn instruments::Instrument,
    seat: &ThreadPlacement,
    tally: Option<&LatencyStats>,
    limits_ns: [u64; LIMITS],
    wait: &Receiver<MeasurementTimes>,
) {
    let Some(tally) = tally else { return };
    // The maker is gone, or gave up.
    let Ok(times) = wait.recv() else { return };
    let terms = ThreadSettings {
        cpu: seat.cpu,
        period_ns: seat.period_ns,
        from_ns: times.from_ns,
        until_ns: times.until_ns,
        gives_up: seat.policy.rt_priority() > 0,
        limits_ns,
    };
    let task = ThreadTask { period_ns: seat.period_ns, begin_ns: times.begin_ns, terms };
    instrument.run(&task, tally);
}
