//! What a measurement is asked for, how it tells of its progress, and why there may be none.

use super::{Instrument, LatencyMeasurement, ShieldMonitor};
use crate::load::{self, LoadError};
use cpushield_linux::{CpuSet, SchedPolicy, Store};
use std::fmt;
use std::time::Duration;

/// A periodic thread that every measured CPU gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadSpec {
    /// Time between two events, in nanoseconds.
    pub period_ns: u64,
    /// Its scheduling policy.
    pub policy: SchedPolicy,
}

/// What is to be measured.
pub struct MeasureRequest<'a> {
    /// By what.
    pub instrument: &'static dyn Instrument,
    /// On which CPUs.
    pub cpus: CpuSet,
    /// The threads of each CPU.
    pub beats: Vec<ThreadSpec>,
    /// For how long.
    pub span: Duration,
    /// How long the threads run before anything counts: the first events find cold caches.
    pub warmup: Duration,
    /// Events that take longer than these are counted; at most
    /// [`LIMITS`](cpushield_linux::tally::LIMITS).
    pub over_ns: Vec<u64>,
    /// The worst that is allowed.
    pub max_ns: Option<u64>,
    /// The cgroup directory that the threads join; `None` without a shield.
    pub cgroup: Option<String>,
    /// The shield they run in.
    pub guard: Option<ShieldMonitor>,
    /// Where what must be put back is kept.
    pub store: Store,
    /// What else the machine is given to do meanwhile.
    pub load: load::LoadRequest,
    /// Real-time threads may be measured even where no CPU is left for anything else.
    pub force: bool,
    /// The kernel's trace is to tell what ran while the worst waited.
    pub why: bool,
    /// Told about the progress several times a second.
    pub progress: &'a dyn Fn(MeasureProgress),
    /// Told once a second what was seen so far, to keep it.
    pub keep: Option<&'a dyn Fn(LatencyMeasurement)>,
    /// Asked several times a second whether to stop early; what was seen until then is kept.
    pub stop: &'a dyn Fn() -> bool,
}

impl fmt::Debug for MeasureRequest<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Order")
            .field("instrument", &self.instrument)
            .field("cpus", &self.cpus)
            .field("beats", &self.beats)
            .field("span", &self.span)
            .finish_non_exhaustive()
    }
}

/// How far it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MeasureProgress {
    /// The threads are made.
    Starting,
    /// They measure.
    Measuring {
        /// How much of the time is over.
        done: Duration,
        /// How long it is.
        of: Duration,
        /// The worst so far in nanoseconds; `None` before the first event.
        worst_ns: Option<u64>,
    },
}

/// Why nothing can be measured.
#[derive(Debug)]
pub enum LatencyError {
    /// A recorded machine does not run.
    Recorded,
    /// There is nothing to measure.
    NoCpus,
    /// These CPUs are not online.
    Offline {
        /// Those that are not.
        cpus: CpuSet,
        /// Those that are.
        online: CpuSet,
    },
    /// The instrument cannot run here.
    Impossible {
        /// Which.
        instrument: &'static str,
        /// Why.
        why: String,
    },
    /// The instrument cannot have these threads.
    Unsuited {
        /// Which.
        instrument: &'static str,
        /// Why.
        why: String,
    },
    /// The kernel does not give a thread its policy.
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
    /// The load cannot run.
    Load(LoadError),
    /// The machine did not answer.
    Linux(cpushield_linux::Error),
}

impl fmt::Display for LatencyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LatencyError::Recorded => {
                f.write_str("a recorded machine does not run: nothing to measure")
            }
            LatencyError::NoCpus => f.write_str("no CPUs to measure on"),
            LatencyError::Offline { cpus, online } => {
                write!(f, "CPU {cpus} is not online; online are {online}")
            }
            LatencyError::Impossible { instrument, why } => {
                write!(f, "`latency {instrument}` cannot run here: {why}")
            }
            LatencyError::Unsuited { instrument, why } => write!(f, "{instrument}: {why}"),
            LatencyError::Policy { policy, why } => {
                write!(f, "the kernel does not give a thread {policy}: {why}")
            }
            LatencyError::Threads { why } => {
                write!(f, "the measuring threads cannot be started: {why}")
            }
            LatencyError::Load(error) => error.fmt(f),
            LatencyError::Linux(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for LatencyError {}

impl From<cpushield_linux::Error> for LatencyError {
    fn from(error: cpushield_linux::Error) -> LatencyError {
        LatencyError::Linux(error)
    }
}

impl From<LoadError> for LatencyError {
    fn from(error: LoadError) -> LatencyError {
        LatencyError::Load(error)
    }
}
