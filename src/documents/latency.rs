//! The [`LatencyMeasurement`] document.

mod doubt;
mod isolation_check;
mod note;
mod power;

pub use doubt::{GuardBreach, LatencyDoubt, ShieldBreach, ThreadDoubt};
pub use isolation_check::{IsolationAnswer, IsolationCheck, IsolationWitness};
pub use note::{FrequentInterrupt, LatencyNote};
pub use power::{MeasuredPower, memory_size};

use crate::documents::evidence::{AbsenceReason, BlindSpot, Gate, TimeBreakdown};
use crate::documents::load_done::LoadDone;
use crate::documents::time_text::exact_span;
use crate::policy::LatencyLimits;
use cpushield_linux::{CpuSet, SchedPolicy};
use cpushield_sentence::Sentence;
use serde::{Deserialize, Serialize};

/// The version of the document's schema.
pub const SCHEMA: u32 = 1;

/// The result of a latency measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LatencyMeasurement {
    /// The version of this schema: [`SCHEMA`].
    pub schema: u32,
    /// The instrument: `timer`, for example.
    pub instrument: String,
    /// The requested span in nanoseconds.
    pub asked_ns: u64,
    /// The measured span in nanoseconds.
    pub span_ns: u64,
    /// How long the threads ran before events counted, in nanoseconds.
    pub warmup_ns: u64,
    /// It was stopped early. The document has the events until then.
    pub stopped: bool,
    /// It still runs, or its process was killed. The document has the events until then.
    pub unfinished: bool,
    /// The start, in seconds since 1970 by the wall clock.
    pub began_s: u64,
    /// The start in nanoseconds of `CLOCK_MONOTONIC`. All other times count from here.
    pub began_ns: u64,
    /// One series for each thread and stage, worst first.
    pub series: Vec<ThreadSeries>,
    /// The load during the measurement (`--load`); empty without.
    pub loads: Vec<LoadDone>,
    /// The requested limits.
    pub limits: LatencyLimits,
    /// Whether they held, in the order of [`LatencyLimits::list`].
    pub gates: Vec<Gate<LatencyDoubt>>,
    /// Whether the kernel was traced for the causes of the worst latencies.
    pub tracing: TraceUse,
    /// The isolation of the measured CPUs.
    pub isolation: MeasuredIsolation,
    /// The measured machine.
    pub setting: MeasuredSetting,
    /// Reasons to doubt the figures of all threads.
    #[serde(with = "crate::with_text::TextList::<LatencyDoubt>")]
    pub doubts: Vec<LatencyDoubt>,
    /// Facts that a reader of the figures has to know.
    #[serde(with = "crate::with_text::TextList::<LatencyNote>")]
    pub notes: Vec<LatencyNote>,
}

/// The latencies of one thread. A latency is the time from when an event was due until the thread
/// saw it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ThreadSeries {
    /// Its CPU.
    pub cpu: usize,
    /// The stage of a wakeup, where the instrument distinguishes them; `None` where there are no
    /// stages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage: Option<WakeupStage>,
    /// Time between two events, in nanoseconds; 0 for threads that never sleep.
    pub period_ns: u64,
    /// Its scheduling policy.
    #[serde(with = "crate::with_text::WithText::<SchedPolicy>")]
    pub policy: SchedPolicy,
    /// Shorter latencies are not samples, so zero samples is not doubtful; `None` where every event
    /// is a sample.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threshold_ns: Option<u64>,
    /// The number of SMIs on its CPU by the processor's counter; `None` where they were not
    /// counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub smis: Option<u64>,
    /// Events that it saw.
    pub samples: u64,
    /// Events that passed while it was late by more than a period; they are not samples.
    pub missed: u64,
    /// The longest latencies, longest first; at most 16.
    pub worst: Vec<WorstLatency>,
    /// The shortest latency; `None` without events, like the mean and the longest.
    pub min_ns: Option<u64>,
    /// The mean.
    pub mean_ns: Option<u64>,
    /// The longest.
    pub max_ns: Option<u64>,
    /// Percentiles, exact to one part in a thousand. They include missed events, each as late as it
    /// would have been.
    pub percentiles: Vec<Percentile>,
    /// The number of latencies over each requested limit, including missed events as in the
    /// percentiles.
    pub over: Vec<OverLimit>,
    /// The largest difference between the period and the time between two events: the max jitter of
    /// LinuxCNC's latency test. `None` with fewer than two events, and where another program makes
    /// the events, because its jitter would be included.
    pub jitter_ns: Option<u64>,
    /// The average time of one clock read, without the samples, in nanoseconds; only for threads
    /// that poll the clock (`spin`). Shorter gaps cannot be seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub look_ns: Option<f64>,
    /// Events that it saw on another CPU; `None` where finding out needs a system call.
    pub elsewhere: Option<u64>,
    /// The worst latency of each moment.
    pub timeline: WorstTimeline,
    /// All latencies in nanoseconds, without missed events: an HDR histogram of three digits,
    /// encoded as V2 with DEFLATE, in base64.
    pub histogram: String,
    /// Reasons to doubt these figures: it ran on another CPU, its CPU went offline.
    #[serde(with = "crate::with_text::TextList::<ThreadDoubt>")]
    pub doubts: Vec<ThreadDoubt>,
}

/// A stage of a wakeup. All stages start when the event was due, so a later one includes those
/// before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, Sentence)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[names]
pub enum WakeupStage {
    /// Until the timer's interrupt was handled.
    Irq,
    /// Until the thread ran in the kernel.
    Thread,
    /// Until the thread was back in user mode.
    User,
}

/// One of the longest latencies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WorstLatency {
    /// When the event was due, in nanoseconds since the measurement began.
    pub at_ns: u64,
    /// The latency in nanoseconds.
    pub late_ns: u64,
    /// What ran on the CPU during that time; `None` without `--why`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<TimeBreakdown>,
}

/// Whether the kernel was traced, which makes every event on the measured CPUs a little longer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TraceUse {
    /// It was requested (`--why`).
    pub asked: bool,
    /// Why there was no trace, or why it ended early.
    #[serde(with = "crate::with_text::option")]
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Option<crate::with_text::WithText<AbsenceReason>>")
    )]
    pub absent: Option<AbsenceReason>,
    /// What tracing cannot see on this kernel.
    #[serde(with = "crate::with_text::TextList::<BlindSpot>")]
    pub blind: Vec<BlindSpot>,
}

/// A percentile of the latencies.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Percentile {
    /// The percentage of latencies up to this one.
    pub percent: f64,
    /// The latency in nanoseconds.
    pub ns: u64,
}

/// The number of latencies over a limit.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OverLimit {
    /// The limit in nanoseconds.
    pub limit_ns: u64,
    /// The number of longer latencies.
    pub count: u64,
    /// Their percentage of all events, including missed ones.
    pub percent: f64,
}

/// The worst latency of each moment of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WorstTimeline {
    /// The length of a moment in nanoseconds.
    pub step_ns: u64,
    /// The longest latency of each moment, from the start; 0 for a moment without events.
    pub worst_ns: Vec<u64>,
}

/// The isolation of the measured CPUs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MeasuredIsolation {
    /// The name of the shield that contains all measured CPUs; `None` without one.
    pub shield: Option<String>,
    /// Whether it was in force at every check, one a second; `None` without a shield, and when it
    /// has no cgroup to check.
    pub held: Option<bool>,
    /// When and how it was broken.
    #[serde(with = "crate::with_text::TextList::<ShieldBreach>")]
    pub broken: Vec<ShieldBreach>,
    /// CPUs isolated at boot (`/sys/devices/system/cpu/isolated`).
    pub isolated: Option<CpuSet>,
    /// CPUs whose tick the kernel can stop (`/sys/devices/system/cpu/nohz_full`).
    pub nohz_full: Option<CpuSet>,
    /// What three witnesses showed before the measurement; `None` when they were not asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check: Option<IsolationCheck>,
}

/// The measured machine. Without it, figures cannot be compared.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MeasuredSetting {
    /// The kernel's release.
    pub kernel: Option<String>,
    /// Whether it is a PREEMPT_RT kernel.
    pub realtime: Option<bool>,
    /// Whether `kernel.timer_migration` is on: then a timer that a `nohz_full` CPU arms may expire
    /// on another one.
    pub timer_migration: Option<bool>,
    /// Its command line.
    pub cmdline: Option<String>,
    /// The boot it was measured in (`/proc/sys/kernel/random/boot_id`).
    pub boot: Option<String>,
    /// The processor's name.
    pub processor: Option<String>,
    /// Its memory in KiB (`MemTotal` of `/proc/meminfo`); `None` when it cannot be read.
    pub memory_kib: Option<u64>,
    /// The power management of the measured CPUs; `None` when it was not read.
    pub power: Option<MeasuredPower>,
    /// The time that a hypervisor took from the measured CPUs during the measurement, in
    /// nanoseconds (`/proc/stat`, exact to 10 ms); `None` when it cannot be read.
    pub steal_ns: Option<u64>,
    /// Online CPUs.
    pub online: CpuSet,
    /// The hypervisor, or `unknown`; `None` on bare metal.
    pub hypervisor: Option<String>,
    /// The clock of all figures.
    pub clock: String,
    /// The kernel's current clocksource.
    pub clocksource: Option<String>,
    /// The cost of one clock read in nanoseconds; it is part of every figure.
    pub clock_read_ns: u64,
}

impl ThreadSeries {
    /// A percentile in nanoseconds; `None` when the document does not contain it.
    #[must_use]
    pub fn percentile(&self, percent: f64) -> Option<u64> {
        let mut percentiles = self.percentiles.iter();
        percentiles.find(|found| (found.percent - percent).abs() < 1e-6).map(|found| found.ns)
    }

    /// The threshold that no latency reached; `None` with samples, or without a threshold.
    #[must_use]
    pub fn silent_below_ns(&self) -> Option<u64> {
        self.threshold_ns.filter(|_| self.samples == 0)
    }

    /// The longest latency. Where none reached the threshold, the threshold is its upper bound.
    #[must_use]
    pub fn longest_at_most_ns(&self) -> Option<u64> {
        self.max_ns.or(self.silent_below_ns())
    }

    /// ` (irq)` where a wakeup is measured in stages.
    #[must_use]
    pub fn stage_text(&self) -> String {
        self.stage.map_or_else(String::new, |stage| format!(" ({stage})"))
    }

    /// Names the thread: `CPU 3, 1 ms`, `CPU 3, 1 ms (irq)`, `CPU 3` for one that never sleeps.
    #[must_use]
    pub fn thread(&self) -> String {
        let stage = self.stage_text();
        match self.period_ns {
            0 => format!("CPU {}{stage}", self.cpu),
            period_ns => format!("CPU {}, {}{stage}", self.cpu, exact_span(period_ns)),
        }
    }

    /// Describes its thread without the CPU: `1 ms threads`, `1 ms threads (irq)`.
    #[must_use]
    pub fn role(&self) -> String {
        let stage = self.stage_text();
        match self.period_ns {
            0 => format!("threads that never sleep{stage}"),
            period_ns => format!("{} threads{stage}", exact_span(period_ns)),
        }
    }
}

impl LatencyMeasurement {
    /// The worst latency of all threads, with its thread.
    #[must_use]
    pub fn worst(&self) -> Option<(&ThreadSeries, &WorstLatency)> {
        let worst = self.series.iter().filter_map(|series| Some((series, series.worst.first()?)));
        worst.max_by_key(|(_, worst)| worst.late_ns)
    }

    /// The stage that includes the others, where a wakeup is measured in stages.
    #[must_use]
    pub fn last_stage(&self) -> Option<WakeupStage> {
        self.series.iter().filter_map(|series| series.stage).max()
    }

    /// The threshold that no latency reached; `None` when a series has samples or no threshold.
    #[must_use]
    pub fn silent_below_ns(&self) -> Option<u64> {
        let series = self.series.iter();
        let thresholds = series.map(ThreadSeries::silent_below_ns);
        thresholds.collect::<Option<Vec<u64>>>()?.into_iter().max()
    }

    /// The thread with the largest max jitter; `None` when no thread has one.
    #[must_use]
    pub fn worst_jitter(&self) -> Option<(&ThreadSeries, u64)> {
        let jitters = self.series.iter().filter_map(|series| Some((series, series.jitter_ns?)));
        jitters.max_by_key(|(_, jitter_ns)| *jitter_ns)
    }

    /// Whether every limit holds for certain.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.gates.iter().all(|gate| gate.held == Some(true))
    }
}
