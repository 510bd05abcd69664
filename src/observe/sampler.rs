//! The gap sampler witness. It runs in a separate process for two reasons. When this process
//! frees a page, the kernel interrupts every CPU that uses the same address space; and the sampler
//! must be in the shield's cgroup. [`SamplerProcess`] sends requests, and [`serve`] answers them.

use crate::documents::evidence::{AbsenceReason, BlindSpot, GapStatistics, ProvokeMethod};
use crate::observe::provoke::{ProvokedInterrupt, TIMES};
use crate::worker::{self, WorkerClient, WorkerFailure, WorkerProtocol};
use cpushield_linux::errno::EINVAL;
use cpushield_linux::shared_memory::sampler::{
    self, Gap, GapRingReader, LoopPhase, LoopSample, Spinner,
};
use cpushield_linux::sys::clock::{ClockReading, ClockTicks, TickScale, nanos};
use cpushield_linux::{CpuSet, Host, SchedPolicy, sys::membarrier, sys::sched};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Capacity for unread gaps, for each CPU and phase: 30 ms of back-to-back gaps of 1 µs.
const RING_CAPACITY: usize = 1 << 15;
/// A gap under way at the end of the span counts from this length, in nanoseconds. A shorter one
/// may be the cache miss of the write that ends the span.
const END_GAP_NS: u64 = 1_000;
/// The sampler exits by itself this long after the span should have ended, in nanoseconds.
const GRACE_NS: u64 = 90_000_000_000;

/// The sampler as a worker.
#[derive(Debug)]
pub(crate) struct SamplerProtocol;

impl WorkerProtocol for SamplerProtocol {
    const SUBCOMMAND: &'static str = "__sample";
    /// Moving the sampler into a v1 cpuset waits for an RCU grace period
    /// (`cgroup_procs_write_start()`, kernel/cgroup/cgroup.c), which on one busy housekeeping CPU
    /// took more than ten seconds (6.18).
    const TIMEOUT: Duration = Duration::from_secs(60);
    type Request = SamplerRequest;
    type Reply = SamplerReply;
    type Failure = AbsenceReason;
}

impl From<WorkerFailure> for AbsenceReason {
    fn from(failure: WorkerFailure) -> AbsenceReason {
        AbsenceReason::failed(failure)
    }
}

/// A request to the sampler.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum SamplerRequest {
    Start { cpus: CpuSet, files: Vec<String>, threshold_ns: u64, limit_ns: u64 },
    Control,
    Span,
    End,
    Gaps,
}

/// An answer of the sampler.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum SamplerReply {
    Ready { seats: Vec<SpinnerLocation>, blind: Vec<BlindSpot> },
    Provoked { seen: Vec<(usize, usize)> },
    Spanning,
    Ended,
    Done { gaps: Vec<(usize, Option<SamplerObservation>)> },
}

/// The thread that spins on one CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpinnerLocation {
    /// Its CPU.
    pub cpu: usize,
    /// Its thread.
    pub tid: i32,
    /// The file descriptor of its ring of gaps.
    ring: i32,
}

/// What the sampler saw on one CPU in the span.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SamplerObservation {
    /// The gaps.
    pub gaps: GapStatistics,
    /// How long it ran, in nanoseconds.
    pub span_ns: u64,
    /// How often the clock went backwards.
    pub backwards: u64,
    /// Whether it was no longer confined to its CPU at the end: another process moved it, or the
    /// CPU went offline. Also if that could not be read.
    pub moved: bool,
}

/// The client side of the sampler process.
#[derive(Debug)]
pub struct SamplerProcess {
    worker: WorkerClient<SamplerProtocol>,
    /// Every spinner.
    pub spinners: Vec<SpinnerLocation>,
    /// Each CPU whose gaps can be read while its spinner runs, and its ring of gaps.
    rings: Vec<(usize, GapRingReader)>,
    /// What the sampler cannot see.
    pub blind: Vec<BlindSpot>,
}

impl SamplerProcess {
    /// Starts a spinner on every CPU. `files` are the shield's cgroup files that take a process
    /// number; empty without a shield.
    ///
    /// # Errors
    /// The reason why the sampler cannot run.
    pub fn start(
        host: &Host,
        cpus: &CpuSet,
        files: Vec<String>,
        threshold_ns: u64,
        span: Duration,
    ) -> Result<SamplerProcess, AbsenceReason> {
        let limit_ns = nanos(span).saturating_add(GRACE_NS);
        let request = SamplerRequest::Start { cpus: cpus.clone(), files, threshold_ns, limit_ns };
        match WorkerClient::start(host, &request)? {
            (worker, SamplerReply::Ready { seats: spinners, blind }) => {
                let mut sampler = SamplerProcess { worker, spinners, rings: Vec::new(), blind };
                sampler.open_rings();
                Ok(sampler)
            }
            (_, other) => Err(WorkerFailure::unexpected(&other).into()),
        }
    }

    fn open_rings(&mut self) {
        let pid = self.worker.pid();
        for spinner in &self.spinners {
            match GapRingReader::open(pid, spinner.ring, RING_CAPACITY) {
                Ok(ring) => self.rings.push((spinner.cpu, ring)),
                Err(e) => {
                    let (cpu, answer) = (spinner.cpu, e.to_string());
                    self.blind.push(BlindSpot::GapMoments { cpu, answer });
                }
            }
        }
    }

    /// Reads the new gaps of the span: CPU, gaps in the order of time, and a tick before which no
    /// new gap begins. Sends no request and interrupts no watched CPU.
    pub fn drain(&mut self) -> Vec<(usize, Vec<Gap>, ClockTicks)> {
        let mut drained = Vec::new();
        for (cpu, ring) in &mut self.rings {
            let mut gaps = Vec::new();
            let complete_until = ring.drain(&mut gaps);
            drained.push((*cpu, gaps, ClockTicks(complete_until)));
        }
        drained
    }

    /// Provokes function-call IPIs on every CPU.
    ///
    /// # Errors
    /// The reason why that failed.
    pub fn control(&mut self) -> Result<ProvokedInterrupt, AbsenceReason> {
        match self.worker.request(&SamplerRequest::Control)? {
            SamplerReply::Provoked { seen } => {
                Ok(ProvokedInterrupt { by: ProvokeMethod::Membarrier, seen, idle: Vec::new() })
            }
            other => Err(WorkerFailure::unexpected(&other).into()),
        }
    }

    /// Begins the span: all gaps count that begin after this returns, except those of a spinner
    /// that stays off its CPU for seconds.
    ///
    /// # Errors
    /// The sampler has exited.
    pub fn begin_span(&mut self) -> Result<(), AbsenceReason> {
        match self.worker.request(&SamplerRequest::Span)? {
            SamplerReply::Spanning => Ok(()),
            other => Err(WorkerFailure::unexpected(&other).into()),
        }
    }

    /// Ends the span: all gaps count that begin before this is called. [`SamplerProcess::drain`]
    /// has all of them when this returns, except the last one of a spinner that stays off its CPU
    /// for seconds. The spinners keep running, so that stopping them is not counted either. Its
    /// messages are a few bytes, so that the sampler frees no page that its spinners share.
    ///
    /// # Errors
    /// The sampler has exited.
    pub fn end_span(&mut self) -> Result<(), AbsenceReason> {
        match self.worker.request(&SamplerRequest::End)? {
            SamplerReply::Ended => Ok(()),
            other => Err(WorkerFailure::unexpected(&other).into()),
        }
    }

    /// What the spinners saw in the span that has ended. May interrupt the watched CPUs: the answer
    /// is long on a large machine, and the sampler frees its memory.
    ///
    /// # Errors
    /// The sampler has exited.
    pub fn read_span(&mut self) -> Result<Vec<(usize, Option<SamplerObservation>)>, AbsenceReason> {
        match self.worker.request(&SamplerRequest::Gaps)? {
            SamplerReply::Done { mut gaps } => {
                for (cpu, ring) in &self.rings {
                    let observed = gaps.iter_mut().find(|(observed_cpu, _)| observed_cpu == cpu);
                    if let Some((_, Some(observation))) = observed {
                        observation.gaps.overflow = ring.lost;
                    }
                }
                Ok(gaps)
            }
            other => Err(WorkerFailure::unexpected(&other).into()),
        }
    }
}

fn failed(what: &str, error: &dyn std::fmt::Display) -> AbsenceReason {
    AbsenceReason::Failed { what: format!("{what}: {error}") }
}

/// The sampler process: answers requests until the other end closes the connection.
pub fn serve(host: &Host) {
    let mut spinners: Option<SpinnerSet> = None;
    worker::serve::<SamplerProtocol>(|request| handle(host, &request, &mut spinners));
}

/// Carries out one request.
fn handle(
    host: &Host,
    request: &SamplerRequest,
    spinners: &mut Option<SpinnerSet>,
) -> Result<SamplerReply, AbsenceReason> {
    if let SamplerRequest::Start { cpus, files, threshold_ns, limit_ns } = request {
        let started = SpinnerSet::start(host, cpus, files, *threshold_ns, *limit_ns)?;
        let mut seats = Vec::new();
        for (cpu, spinner) in &started.spinners {
            let (tid, ring) = (spinner.tid(), spinner.ring_number());
            seats.push(SpinnerLocation { cpu: *cpu, tid, ring });
        }
        let blind = started.blind.clone();
        *spinners = Some(started);
        return Ok(SamplerReply::Ready { seats, blind });
    }
    let spinners =
        spinners.as_ref().ok_or_else(|| AbsenceReason::failed("the sampler was not started"))?;
    match request {
        SamplerRequest::Control => spinners.control(),
        SamplerRequest::Span => {
            spinners.set_phase(LoopPhase::Span);
            spinners.wait_until(|spinner| spinner.has_begun(LoopPhase::Span));
            Ok(SamplerReply::Spanning)
        }
        SamplerRequest::End => {
            spinners.set_phase(LoopPhase::Idle);
            spinners.wait_until(|spinner| spinner.sample(LoopPhase::Span).is_some());
            Ok(SamplerReply::Ended)
        }
        SamplerRequest::Gaps | SamplerRequest::Start { .. } => Ok(spinners.read_span()),
    }
}

/// The spinners of all CPUs.
#[derive(Debug)]
struct SpinnerSet {
    spinners: Vec<(usize, Spinner)>,
    blind: Vec<BlindSpot>,
    threshold_ns: u64,
    start: ClockReading,
    /// The scale when they started.
    scale: TickScale,
}

impl SpinnerSet {
    fn start(
        host: &Host,
        cpus: &CpuSet,
        files: &[String],
        threshold_ns: u64,
        limit_ns: u64,
    ) -> Result<SpinnerSet, AbsenceReason> {
        let start = ClockReading::now();
        // Long enough to know the tick rate to one part in a thousand, which a threshold needs.
        std::thread::sleep(Duration::from_millis(20));
        let now = ClockReading::now();
        let Some(scale) = TickScale::between(start, now) else {
            return Err(AbsenceReason::failed("the clock went backwards"));
        };

        let mut blind = Vec::new();
        if let Err(e) = membarrier::register_barrier() {
            blind.push(BlindSpot::NoBarrier { answer: e.to_string() });
        }
        let settings = sampler::SpinnerSettings {
            deadline: now.ticks.saturating_add(scale.ticks(limit_ns)).0,
            control_threshold: scale.ticks(threshold_ns.min(300)).0,
            span_threshold: scale.ticks(threshold_ns).0,
            end_threshold: scale.ticks(END_GAP_NS).0,
            ring_capacity: RING_CAPACITY,
        };
        let mut spinners = Vec::new();
        for cpu in cpus.iter() {
            let spinner =
                Spinner::start(settings).map_err(|e| failed(&format!("CPU {cpu}"), &e))?;
            for file in files {
                host.write(file, &spinner.tid().to_string()).map_err(AbsenceReason::failed)?;
            }
            sched::set_affinity(spinner.tid(), &CpuSet::single(cpu))
                .map_err(|e| explain_affinity(cpu, &e))?;
            drop_realtime_policy(spinner.tid()).map_err(|e| failed(&format!("CPU {cpu}"), &e))?;
            if !spinner.locked {
                blind.push(BlindSpot::UnlockedMemory { cpu });
            }
            spinner.set_phase(LoopPhase::Idle);
            spinners.push((cpu, spinner));
        }
        Ok(SpinnerSet { spinners, blind, threshold_ns, start, scale })
    }

    fn set_phase(&self, phase: LoopPhase) {
        for (_, spinner) in &self.spinners {
            spinner.set_phase(phase);
        }
    }

    /// Waits until a phase has begun or ended on all CPUs, at most two seconds: a spinner that is
    /// off its CPU does not notice a new phase. Allocates nothing.
    fn wait_until(&self, is_there: impl Fn(&Spinner) -> bool) {
        for _ in 0..2000 {
            let mut spinners = self.spinners.iter().map(|(_, spinner)| spinner);
            if spinners.all(|spinner| is_there(spinner) || !spinner.is_running()) {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Waits for the sample of a phase that just ended; `None` when the spinner does not write it.
    fn sample(spinner: &Spinner, phase: LoopPhase) -> Option<(LoopSample, Vec<Gap>)> {
        for _ in 0..2000 {
            if let Some(sample) = spinner.sample(phase) {
                return Some(sample);
            }
            if !spinner.is_running() {
                return None;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        None
    }

    /// Waits until every spinner is on its CPU, because a barrier interrupts only running threads.
    fn wait_on_cpus(&self) {
        for _ in 0..100 {
            std::thread::sleep(Duration::from_millis(1));
            let beats: Vec<u64> =
                self.spinners.iter().map(|(_, spinner)| spinner.last_tick()).collect();
            // A spinner reads the clock much faster than this loop goes round.
            for _ in 0..100 {
                let mut spinners = self.spinners.iter().zip(&beats);
                if spinners.all(|((_, spinner), beat)| spinner.last_tick() != *beat) {
                    return;
                }
                std::hint::spin_loop();
            }
        }
    }

    /// Runs the positive control. Each barrier interrupts every CPU of the sampler between two
    /// readings of the clock. A gap of the spinner that overlaps this time proves that it sees.
    fn control(&self) -> Result<SamplerReply, AbsenceReason> {
        self.set_phase(LoopPhase::Control);
        let mut windows = Vec::new();
        for _ in 0..TIMES {
            self.wait_on_cpus();
            let before = sampler::ticks();
            membarrier::barrier().map_err(|e| failed("membarrier", &e))?;
            windows.push((before, sampler::ticks()));
        }
        self.set_phase(LoopPhase::Idle);
        let mut counts = Vec::new();
        for (cpu, spinner) in &self.spinners {
            let sample = SpinnerSet::sample(spinner, LoopPhase::Control);
            let count = sample.map_or(0, |(_, gaps)| count_hit_windows(&windows, &gaps));
            counts.push((*cpu, count));
        }
        Ok(SamplerReply::Provoked { seen: counts })
    }

    fn read_span(&self) -> SamplerReply {
        // More exact than at the start, because more time has passed.
        let scale = TickScale::between(self.start, ClockReading::now()).unwrap_or(self.scale);
        let mut gaps = Vec::new();
        for (cpu, spinner) in &self.spinners {
            let sample = SpinnerSet::sample(spinner, LoopPhase::Span);
            // One that cannot be read proves nothing, so the spinner may have been moved.
            let affinity = sched::affinity(spinner.tid());
            let moved = !affinity.is_ok_and(|cpus| cpus == CpuSet::single(*cpu));
            let observation = sample.map(|(sample, _)| SamplerObservation {
                moved,
                ..convert_sample(&sample, &scale, self.threshold_ns)
            });
            gaps.push((*cpu, observation));
        }
        SamplerReply::Done { gaps }
    }
}

/// The number of windows that at least one gap overlaps.
fn count_hit_windows(windows: &[(u64, u64)], gaps: &[Gap]) -> usize {
    let hit = windows
        .iter()
        .filter(|(start, end)| gaps.iter().any(|gap| gap.end >= *start && gap.start <= *end));
    hit.count()
}

/// Drops a real-time policy that the thread inherited from this process. A spinning real-time task
/// starves the kernel threads of its CPU, and the machine hangs.
fn drop_realtime_policy(tid: i32) -> std::io::Result<()> {
    match sched::policy(tid)? {
        SchedPolicy::Other { .. } | SchedPolicy::Batch { .. } | SchedPolicy::Idle => Ok(()),
        _ => sched::set_policy(tid, SchedPolicy::Other { nice: 0 }),
    }
}

/// Why the sampler cannot run on a CPU. EINVAL means that its cpuset does not contain that CPU
/// (kernel/sched/syscalls.c, `__sched_setaffinity()`).
fn explain_affinity(cpu: usize, error: &std::io::Error) -> AbsenceReason {
    if error.raw_os_error() == Some(EINVAL) {
        AbsenceReason::OutsideCpuset { cpu }
    } else {
        AbsenceReason::CpuRefused { cpu, answer: error.to_string() }
    }
}

/// Converts a sample from ticks to nanoseconds.
fn convert_sample(sample: &LoopSample, scale: &TickScale, threshold_ns: u64) -> SamplerObservation {
    let span = sample.last.saturating_sub(sample.first);
    // Exact up to 2^53, which is more than a month in ticks.
    #[expect(clippy::cast_precision_loss, reason = "rounding of huge spans is of no consequence")]
    let per_loop = span.saturating_sub(sample.sum) as f64 / sample.loops.max(1) as f64;
    SamplerObservation {
        gaps: GapStatistics {
            resolution_ns: per_loop * scale.ns_per_tick,
            threshold_ns,
            count: sample.gaps,
            max_ns: scale.ns(sample.max),
            sum_ns: scale.ns(sample.sum),
            longest_ns: scale.ns(sample.longest),
            overflow: 0,
        },
        span_ns: scale.ns(span),
        backwards: sample.backwards,
        moved: false,
    }
}
