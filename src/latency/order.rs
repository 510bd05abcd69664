//! The request for a measurement, its progress, and the errors that prevent it.

use super::refusal::{InstrumentRefusal, ThreadRefusal};
use super::{Instrument, LatencyMeasurement, ShieldMonitor, ThreadSpec};
use crate::load::{self, LoadError};
use crate::policy::LatencyLimits;
use cpushield_linux::{CpuSet, SchedPolicy, Store};
use cpushield_sentence::Sentence;
use std::fmt;
use std::time::Duration;

/// Whether the isolation of the CPUs is checked before the measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IsolationChecking {
    /// It is checked, which keeps the other CPUs busy for a second.
    Checked,
    /// It is not checked.
    Unchecked,
}

/// What to measure, and how.
pub struct MeasureRequest<'a> {
    /// The instrument.
    pub instrument: &'static Instrument,
    /// The measured CPUs.
    pub cpus: CpuSet,
    /// The threads of each CPU.
    pub threads: Vec<ThreadSpec>,
    /// The measured time, without the warm-up.
    pub span: Duration,
    /// How long the threads run before their events count: the first events find cold caches.
    pub warmup: Duration,
    /// Limits: latencies longer than each are counted; at most
    /// [`LIMITS`](cpushield_linux::shared_memory::latency_stats::LIMITS).
    pub over_ns: Vec<u64>,
    /// The limits to check.
    pub limits: LatencyLimits,
    /// The cgroup directory that the threads join; `None` without a shield.
    pub cgroup: Option<String>,
    /// The shield that the threads run in.
    pub guard: Option<ShieldMonitor>,
    /// The state directory, which keeps the originals of changed settings.
    pub store: Store,
    /// The load to run during the measurement.
    pub load: load::LoadRequest,
    /// Measure real-time threads even when every CPU is measured.
    pub force: bool,
    /// Trace the kernel to show what ran during the worst latencies.
    pub why: bool,
    /// Whether three witnesses check the isolation of the CPUs before the measurement.
    pub isolation: IsolationChecking,
    /// Called with the progress several times a second.
    pub progress: &'a dyn Fn(MeasureProgress),
    /// Called once a second with the document so far, to save it.
    pub autosave: Option<&'a dyn Fn(LatencyMeasurement)>,
    /// Called several times a second: whether to stop early. The document then has what was
    /// measured.
    pub stop: &'a dyn Fn() -> bool,
}

impl MeasureRequest<'_> {
    /// Refuses the request because its instrument cannot run here.
    pub(super) fn refuse(&self, why: impl Into<InstrumentRefusal>) -> LatencyError {
        LatencyError::Impossible { instrument: self.instrument.name, why: Box::new(why.into()) }
    }
}

impl fmt::Debug for MeasureRequest<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MeasureRequest")
            .field("instrument", &self.instrument)
            .field("cpus", &self.cpus)
            .field("threads", &self.threads)
            .field("span", &self.span)
            .finish_non_exhaustive()
    }
}

/// The progress of a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MeasureProgress {
    /// The threads are being started.
    Starting,
    /// The threads measure.
    Measuring {
        /// Elapsed time.
        done: Duration,
        /// The requested time.
        of: Duration,
        /// The worst latency so far in nanoseconds; `None` before the first event.
        worst_ns: Option<u64>,
    },
}

/// Why a measurement is not possible.
#[derive(Debug, Sentence)]
#[kind(Usage)]
pub enum LatencyError {
    /// cannot measure latency on a recorded machine.
    Recorded,
    /// no CPUs to measure.
    NoCpus,
    /// CPU {cpus} is not online (online: {online}).
    Offline {
        /// The offline CPUs of the request.
        cpus: CpuSet,
        /// The online CPUs.
        online: CpuSet,
    },
    /// `latency {instrument}` cannot run here: {why}.
    #[kind(Machine)]
    Impossible {
        /// The name of the instrument.
        instrument: &'static str,
        /// Why.
        why: Box<InstrumentRefusal>,
    },
    /// {instrument}: {why}.
    Unsuited {
        /// The name of the instrument.
        instrument: &'static str,
        /// Why.
        why: ThreadRefusal,
    },
    /// the kernel refused the policy {policy} for a thread: {why}.
    #[kind(Machine)]
    #[hint("run it as root, or measure ordinary threads: --other")]
    Policy {
        /// The policy.
        policy: SchedPolicy,
        /// The kernel's answer.
        why: String,
    },
    /// cannot start the measuring threads: {why}.
    #[kind(Machine)]
    Threads {
        /// Why.
        why: String,
    },
    /// The load cannot run.
    #[delegate(from)]
    Load(LoadError),
    /// The machine did not answer.
    #[delegate(from)]
    Linux(cpushield_linux::Error),
}

impl std::error::Error for LatencyError {}
