//! The gap sampler witness. It runs in a companion process, because its memory must be its own (a
//! page that this process gives back would interrupt every CPU that uses the same memory) and
//! because it must sit in the shield's cgroup. Both sides of the conversation are here:
//! [`SamplerProcess`] asks, [`serve`] answers.

use crate::verify::control::{ProvokedInterrupt, TIMES};
use crate::verify::{AbsenceReason, BlindSpot, GapStatistics};
use cpushield_linux::sampler::{self, Gap, GapRingReader, LoopPhase, LoopSample, Spinner};
use cpushield_linux::worker_process::{WorkerEnd, WorkerProcess};
use cpushield_linux::{CpuSet, Host, SchedPolicy, sched};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The hidden subcommand that makes this program the sampler.
pub const HIDDEN: &str = "__sample";
/// Gaps of each CPU and phase that wait to be read: 30 ms of nothing but gaps of a microsecond.
const ROOM: usize = 1 << 15;
/// The sampler ends by itself so long after its time.
const GRACE_NS: u64 = 90_000_000_000;
/// How long one answer may take. Moving the sampler into a v1 cpuset waits for an RCU grace period
/// (`cgroup_procs_write_start()`, kernel/cgroup/cgroup.c), which on one crowded housekeeping CPU
/// was seen to take more than ten seconds (6.18).
const PATIENCE: Duration = Duration::from_secs(60);

/// What the sampler is asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
enum SamplerRequest {
    Start { cpus: CpuSet, files: Vec<String>, threshold_ns: u64, limit_ns: u64 },
    Control,
    Span,
    End,
}

/// What it answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
enum SamplerReply {
    Ready { seats: Vec<SpinnerLocation>, blind: Vec<BlindSpot> },
    Provoked { seen: Vec<(usize, usize)> },
    Spanning,
    Done { gaps: Vec<(usize, Option<SamplerObservation>)> },
    Failed { reason: AbsenceReason },
}

/// Where a spinner is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpinnerLocation {
    /// Its CPU.
    pub cpu: usize,
    /// Its thread.
    pub tid: i32,
    /// The number of the file with its gaps.
    ring: i32,
}

/// What it saw on one CPU in the span.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SamplerObservation {
    /// The gaps.
    pub gaps: GapStatistics,
    /// How long it looked, in nanoseconds.
    pub span_ns: u64,
    /// The clock went backwards so many times.
    pub backwards: u64,
    /// It was no longer confined to its CPU at the end: somebody moved it, or the CPU went offline.
    pub moved: bool,
}

/// The sampler as the watcher sees it.
#[derive(Debug)]
pub struct SamplerProcess {
    companion: WorkerProcess,
    /// Every spinner.
    pub seats: Vec<SpinnerLocation>,
    /// CPU and gaps of those whose gaps can be read while they run.
    rings: Vec<(usize, GapRingReader)>,
    /// What it cannot see.
    pub blind: Vec<BlindSpot>,
}

impl SamplerProcess {
    /// Starts a spinner on every CPU. `files` are the cgroup files that take a process number,
    /// those of the shield; none when there is no shield.
    ///
    /// # Errors
    /// Says why the sampler cannot run.
    pub fn start(
        cpus: &CpuSet,
        files: Vec<String>,
        threshold_ns: u64,
        span: Duration,
    ) -> Result<SamplerProcess, AbsenceReason> {
        let companion = WorkerProcess::start(&[HIDDEN]).map_err(|e| failed("cannot start", &e))?;
        let (seats, rings, blind) = (Vec::new(), Vec::new(), Vec::new());
        let mut sampler = SamplerProcess { companion, seats, rings, blind };
        let limit_ns = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX).saturating_add(GRACE_NS);
        let ask = SamplerRequest::Start { cpus: cpus.clone(), files, threshold_ns, limit_ns };
        match sampler.ask(&ask)? {
            SamplerReply::Ready { seats, blind } => {
                (sampler.seats, sampler.blind) = (seats, blind);
                sampler.open_rings();
                Ok(sampler)
            }
            other => Err(unexpected(&other)),
        }
    }

    fn open_rings(&mut self) {
        let pid = self.companion.pid();
        for seat in &self.seats {
            match GapRingReader::open(pid, seat.ring, ROOM) {
                Ok(ring) => self.rings.push((seat.cpu, ring)),
                Err(e) => {
                    let (cpu, answer) = (seat.cpu, e.to_string());
                    self.blind.push(BlindSpot::GapMoments { cpu, answer });
                }
            }
        }
    }

    /// The gaps of the span since the last time: CPU, gaps in the order of time, and a tick before
    /// which no new one begins. Asks nobody and touches no watched CPU.
    pub fn drain(&mut self) -> Vec<(usize, Vec<Gap>, u64)> {
        let read = |(cpu, ring): &mut (usize, GapRingReader)| {
            let mut gaps = Vec::new();
            let horizon = ring.drain(&mut gaps);
            (*cpu, gaps, horizon)
        };
        self.rings.iter_mut().map(read).collect()
    }

    fn ask(&mut self, ask: &SamplerRequest) -> Result<SamplerReply, AbsenceReason> {
        let line = serde_json::to_string(ask).map_err(AbsenceReason::failed)?;
        self.companion.send(&line).map_err(|e| failed("it is gone", &e))?;
        let line = self.companion.receive(PATIENCE).map_err(|e| failed("no answer", &e))?;
        match serde_json::from_str(&line) {
            Ok(SamplerReply::Failed { reason }) => Err(reason),
            Ok(answer) => Ok(answer),
            Err(e) => Err(failed("an answer that makes no sense", &e)),
        }
    }

    /// Provokes function-call IPIs on every CPU.
    ///
    /// # Errors
    /// Says why it could not.
    pub fn control(&mut self) -> Result<ProvokedInterrupt, AbsenceReason> {
        match self.ask(&SamplerRequest::Control)? {
            SamplerReply::Provoked { seen } => Ok(ProvokedInterrupt { how: "membarrier(2)", seen }),
            other => Err(unexpected(&other)),
        }
    }

    /// From now on gaps count.
    ///
    /// # Errors
    /// It is gone.
    pub fn begin(&mut self) -> Result<(), AbsenceReason> {
        match self.ask(&SamplerRequest::Span)? {
            SamplerReply::Spanning => Ok(()),
            other => Err(unexpected(&other)),
        }
    }

    /// From now on gaps do not count; the spinners go on, so that their end is not counted either.
    ///
    /// # Errors
    /// It is gone.
    pub fn end(&mut self) -> Result<Vec<(usize, Option<SamplerObservation>)>, AbsenceReason> {
        match self.ask(&SamplerRequest::End)? {
            SamplerReply::Done { mut gaps } => {
                for (cpu, ring) in &self.rings {
                    let seen = gaps.iter_mut().find(|(at, _)| at == cpu);
                    if let Some((_, Some(seen))) = seen {
                        seen.gaps.overflow = ring.lost;
                    }
                }
                Ok(gaps)
            }
            other => Err(unexpected(&other)),
        }
    }
}

fn failed(what: &str, error: &dyn std::fmt::Display) -> AbsenceReason {
    AbsenceReason::Failed { what: format!("{what}: {error}") }
}

fn unexpected(answer: &SamplerReply) -> AbsenceReason {
    AbsenceReason::failed(format_args!("an answer out of turn: {answer:?}"))
}

/// The sampler's own side: answers until there is nobody to ask.
pub fn serve(host: &Host) {
    let duty = WorkerEnd::start();
    let mut crew: Option<SpinnerSet> = None;
    while let Some(line) = duty.next() {
        let answer = match serde_json::from_str(&line) {
            Ok(ask) => {
                obey(host, &ask, &mut crew).unwrap_or_else(|reason| SamplerReply::Failed { reason })
            }
            Err(e) => SamplerReply::Failed { reason: AbsenceReason::failed(e) },
        };
        let line = serde_json::to_string(&answer).unwrap_or_default();
        if duty.answer(&line).is_err() {
            break;
        }
    }
}

fn obey(
    host: &Host,
    ask: &SamplerRequest,
    crew: &mut Option<SpinnerSet>,
) -> Result<SamplerReply, AbsenceReason> {
    if let SamplerRequest::Start { cpus, files, threshold_ns, limit_ns } = ask {
        let made = SpinnerSet::start(host, cpus, files, *threshold_ns, *limit_ns)?;
        let seat = |(cpu, spinner): &(usize, Spinner)| SpinnerLocation {
            cpu: *cpu,
            tid: spinner.tid(),
            ring: spinner.ring_number(),
        };
        let seats = made.spinners.iter().map(seat).collect();
        let blind = made.blind.clone();
        *crew = Some(made);
        return Ok(SamplerReply::Ready { seats, blind });
    }
    let crew = crew.as_ref().ok_or_else(|| AbsenceReason::failed("not started"))?;
    match ask {
        SamplerRequest::Control => crew.control(),
        SamplerRequest::Span => {
            crew.set_phase(LoopPhase::Span);
            Ok(SamplerReply::Spanning)
        }
        SamplerRequest::End | SamplerRequest::Start { .. } => Ok(crew.end()),
    }
}

/// The spinners of all CPUs.
#[derive(Debug)]
struct SpinnerSet {
    spinners: Vec<(usize, Spinner)>,
    blind: Vec<BlindSpot>,
    threshold_ns: u64,
    start: ClockPair,
}

/// The sampler's clock and the kernel's at (nearly) one time.
#[derive(Debug, Clone, Copy)]
struct ClockPair {
    ticks: u64,
    ns: u64,
}

impl ClockPair {
    fn now() -> ClockPair {
        ClockPair { ticks: sampler::ticks(), ns: sampler::raw_ns() }
    }

    /// Ticks in a nanosecond since `earlier`.
    fn rate(self, earlier: ClockPair) -> f64 {
        let ns = self.ns.saturating_sub(earlier.ns).max(1);
        as_f64(self.ticks.saturating_sub(earlier.ticks)) / as_f64(ns)
    }
}

/// Exact up to 2^53, which in ticks or nanoseconds is a month and more.
#[expect(clippy::cast_precision_loss, reason = "rounding of huge spans is of no consequence")]
fn as_f64(n: u64) -> f64 {
    n as f64
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "`as` saturates; spans are not negative"
)]
fn as_u64(n: f64) -> u64 {
    n.round() as u64
}

impl SpinnerSet {
    fn start(
        host: &Host,
        cpus: &CpuSet,
        files: &[String],
        threshold_ns: u64,
        limit_ns: u64,
    ) -> Result<SpinnerSet, AbsenceReason> {
        let start = ClockPair::now();
        // Long enough to know the clock's rate to a thousandth, which is all a threshold needs.
        std::thread::sleep(Duration::from_millis(20));
        let now = ClockPair::now();
        let rate = now.rate(start);
        let in_ticks = |ns: u64| as_u64(as_f64(ns) * rate);
        let mut blind = Vec::new();
        if let Err(e) = sampler::register_barrier() {
            blind.push(BlindSpot::NoBarrier { answer: e.to_string() });
        }
        let order = sampler::SpinnerSettings {
            deadline: now.ticks.saturating_add(in_ticks(limit_ns)),
            control_threshold: in_ticks(threshold_ns.min(300)),
            span_threshold: in_ticks(threshold_ns),
            room: ROOM,
        };
        let mut spinners = Vec::new();
        for cpu in cpus.iter() {
            let spinner = Spinner::start(order).map_err(|e| failed(&format!("CPU {cpu}"), &e))?;
            for file in files {
                host.write(file, &spinner.tid().to_string()).map_err(AbsenceReason::failed)?;
            }
            sched::set_affinity(spinner.tid(), &CpuSet::one(cpu))
                .map_err(|e| not_there(cpu, &e))?;
            keep_harmless(spinner.tid()).map_err(|e| failed(&format!("CPU {cpu}"), &e))?;
            if !spinner.locked {
                blind.push(BlindSpot::UnlockedMemory { cpu });
            }
            spinner.set_phase(LoopPhase::Idle);
            spinners.push((cpu, spinner));
        }
        Ok(SpinnerSet { spinners, blind, threshold_ns, start })
    }

    fn set_phase(&self, phase: LoopPhase) {
        for (_, spinner) in &self.spinners {
            spinner.set_phase(phase);
        }
    }

    /// The sample of a phase that was just ended; `None` when the spinner does not get to write it.
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

    /// Waits until every spinner is on its CPU: a barrier interrupts only those that are.
    fn wait_on_cpus(&self) {
        for _ in 0..100 {
            std::thread::sleep(Duration::from_millis(1));
            let beats: Vec<u64> = self.spinners.iter().map(|(_, one)| one.last_tick()).collect();
            let moved = |((_, one), beat): (&(usize, Spinner), &u64)| one.last_tick() != *beat;
            // A look at the clock takes far less than one round of this.
            for _ in 0..100 {
                if self.spinners.iter().zip(&beats).all(moved) {
                    return;
                }
                std::hint::spin_loop();
            }
        }
    }

    /// Each barrier interrupts every CPU of the crew between two readings of the clock; a gap of
    /// the spinner that lies across that time is the proof that it sees.
    fn control(&self) -> Result<SamplerReply, AbsenceReason> {
        self.set_phase(LoopPhase::Control);
        let mut windows = Vec::new();
        for _ in 0..TIMES {
            self.wait_on_cpus();
            let before = sampler::ticks();
            sampler::barrier().map_err(|e| failed("membarrier", &e))?;
            windows.push((before, sampler::ticks()));
        }
        self.set_phase(LoopPhase::Idle);
        let seen = |gaps: &[Gap]| {
            let hit = |w: &&(u64, u64)| gaps.iter().any(|gap| gap.end >= w.0 && gap.start <= w.1);
            windows.iter().filter(hit).count()
        };
        let mut counts = Vec::new();
        for (cpu, spinner) in &self.spinners {
            let count =
                SpinnerSet::sample(spinner, LoopPhase::Control).map_or(0, |(_, gaps)| seen(&gaps));
            counts.push((*cpu, count));
        }
        Ok(SamplerReply::Provoked { seen: counts })
    }

    fn end(&self) -> SamplerReply {
        self.set_phase(LoopPhase::Idle);
        let rate = ClockPair::now().rate(self.start);
        let seen = |(cpu, spinner): &(usize, Spinner)| {
            let sample = SpinnerSet::sample(spinner, LoopPhase::Span);
            let affinity = sched::affinity(spinner.tid());
            let moved = affinity.is_ok_and(|cpus| cpus != CpuSet::one(*cpu));
            let seen =
                |sample| SamplerObservation { moved, ..in_ns(&sample, rate, self.threshold_ns) };
            (*cpu, sample.map(|(sample, _)| seen(sample)))
        };
        SamplerReply::Done { gaps: self.spinners.iter().map(seen).collect() }
    }
}

/// A real-time policy of this process must not be inherited: a spinning real-time task starves the
/// kernel's threads of its CPU, and the machine hangs.
fn keep_harmless(tid: i32) -> std::io::Result<()> {
    match sched::policy(tid)? {
        SchedPolicy::Other { .. } | SchedPolicy::Batch { .. } | SchedPolicy::Idle => Ok(()),
        _ => sched::set_policy(tid, SchedPolicy::Other { nice: 0 }),
    }
}

/// Why the sampler cannot be on a CPU: EINVAL says that its cpuset is without that CPU
/// (kernel/sched/syscalls.c, `__sched_setaffinity()`).
fn not_there(cpu: usize, error: &std::io::Error) -> AbsenceReason {
    if error.raw_os_error() == Some(22) {
        AbsenceReason::OutsideCpuset { cpu }
    } else {
        AbsenceReason::CpuRefused { cpu, answer: error.to_string() }
    }
}

fn in_ns(sample: &LoopSample, rate: f64, threshold_ns: u64) -> SamplerObservation {
    let ns = |ticks: u64| as_u64(as_f64(ticks) / rate);
    let looking = sample.last.saturating_sub(sample.first).saturating_sub(sample.sum);
    SamplerObservation {
        gaps: GapStatistics {
            resolution_ns: as_f64(looking) / as_f64(sample.loops.max(1)) / rate,
            threshold_ns,
            count: sample.gaps,
            max_ns: ns(sample.max),
            sum_ns: ns(sample.sum),
            longest_ns: ns(sample.longest),
            overflow: 0,
        },
        span_ns: ns(sample.last.saturating_sub(sample.first)),
        backwards: sample.backwards,
        moved: false,
    }
}
