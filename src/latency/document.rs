//! The [`LatencyMeasurement`] document.

use super::histogram::counts;
use super::measure::exact;
use super::{LatencyDoubt, ShieldBreach, ThreadDoubt};
use crate::load::LoadDone;
use crate::verify::{AbsenceReason, BlindSpot, Gate, TimeBreakdown};
use cpushield_linux::CpuSet;
use serde::{Deserialize, Serialize};

/// The version of the document's form.
pub const SCHEMA: u32 = 1;

/// How late threads were.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LatencyMeasurement {
    /// The version of this form: [`SCHEMA`].
    pub schema: u32,
    /// What was waited for: `timer` and the like.
    pub instrument: String,
    /// How long was to be measured, in nanoseconds.
    pub asked_ns: u64,
    /// How long was measured, in nanoseconds.
    pub span_ns: u64,
    /// How long the threads ran before anything counted.
    pub warmup_ns: u64,
    /// It was stopped before its time; what it saw until then is here.
    pub stopped: bool,
    /// It goes on, or whatever measured was ended by force; what it saw until then is here, and
    /// `--resume` goes on with it.
    #[serde(default)]
    pub unfinished: bool,
    /// When it began, in seconds since 1970 by the wall clock.
    pub began_s: u64,
    /// The same by `CLOCK_MONOTONIC`, in nanoseconds; every other time counts from here.
    pub began_ns: u64,
    /// What was measured one after the other, with pauses (`--resume`); empty when there was none.
    /// Times in this document count what was measured, without the pauses.
    #[serde(default)]
    pub parts: Vec<MeasurementPart>,
    /// One entry for each thread, worst first.
    pub series: Vec<ThreadSeries>,
    /// What else the machine was given to do meanwhile (`--load`); empty without.
    #[serde(default)]
    pub loads: Vec<LoadDone>,
    /// The limit that was asked for.
    pub gates: Vec<Gate<LatencyDoubt>>,
    /// Whether the kernel's trace told the causes of the worst.
    #[serde(default)]
    pub tracing: TraceUse,
    /// What kept others off the CPUs.
    pub isolation: MeasuredIsolation,
    /// What was measured on.
    pub setting: MeasuredSetting,
    /// What makes the figures doubtful, of all threads.
    #[serde(with = "crate::with_text::list")]
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Vec<crate::with_text::WithText<LatencyDoubt>>")
    )]
    pub doubts: Vec<LatencyDoubt>,
    /// What is good to know.
    pub notes: Vec<String>,
}

/// A part of a measurement that was gone on with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MeasurementPart {
    /// Where it begins, in nanoseconds of measured time.
    pub at_ns: u64,
    /// When it began, in seconds since 1970 by the wall clock.
    pub began_s: u64,
    /// The same by `CLOCK_MONOTONIC` of its boot, in nanoseconds.
    pub began_ns: u64,
    /// How long it was.
    pub span_ns: u64,
    /// Which boot it was measured in (`/proc/sys/kernel/random/boot_id`); `None` when that is not
    /// known.
    pub boot: Option<String>,
}

/// What one thread saw. A latency is the time from when an event was due until the thread saw it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ThreadSeries {
    /// Its CPU.
    pub cpu: usize,
    /// What of a wakeup it is, where the instrument tells that apart: `irq`, until the timer's
    /// interrupt was handled; `thread`, until the thread ran in the kernel; `user`, until it was
    /// back in user mode. All begin when the event was due. `None` where there is one figure only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage: Option<String>,
    /// Time between two events, in nanoseconds; 0 for threads that never sleep.
    pub period_ns: u64,
    /// Its scheduling policy, `SCHED_FIFO 80`.
    pub policy: String,
    /// Shorter latencies are no samples, so that none is no doubt; `None` where every event is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threshold_ns: Option<u64>,
    /// How often system management mode took its CPU meanwhile, as the processor counts it; `None`
    /// where nobody asked or it does not count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub smis: Option<u64>,
    /// Events that it saw.
    pub samples: u64,
    /// Events that it did not wait for, because it was late for longer than a period; they are no
    /// samples.
    pub missed: u64,
    /// The longest latencies, longest first; at most 16.
    pub worst: Vec<WorstLatency>,
    /// The shortest latency; `None` without events, as all of these.
    pub min_ns: Option<u64>,
    /// The mean.
    pub mean_ns: Option<u64>,
    /// The longest.
    pub max_ns: Option<u64>,
    /// Latencies below which so many of all are, to one part in a thousand. Missed events are among
    /// them, each as late as it would have been.
    pub percentiles: Vec<Percentile>,
    /// How many latencies were longer than each limit asked for; missed events count as they do in
    /// the percentiles.
    pub over: Vec<OverLimit>,
    /// How far the time between two events seen was from the period at most: the max jitter of
    /// LinuxCNC's latency test. `None` with fewer than two events, and where another program makes
    /// them, whose own jitter it would be.
    pub jitter_ns: Option<u64>,
    /// How long one look at the clock took on average, without the samples, in nanoseconds; of
    /// threads that do nothing else (`spin`). Gaps that are not longer cannot be seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub look_ns: Option<f64>,
    /// Events that it saw on another CPU; `None` where that cannot be known without asking the
    /// kernel.
    pub elsewhere: Option<u64>,
    /// The worst of each moment.
    pub timeline: WorstTimeline,
    /// All latencies in nanoseconds, without missed events: an HDR histogram of three digits,
    /// encoded as V2 with DEFLATE, in base64.
    pub histogram: String,
    /// What makes these figures doubtful: it ran elsewhere, its CPU went away.
    #[serde(with = "crate::with_text::list")]
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Vec<crate::with_text::WithText<ThreadDoubt>>")
    )]
    pub doubts: Vec<ThreadDoubt>,
}

/// One of the longest latencies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WorstLatency {
    /// When the event was due, in nanoseconds since the measurement began.
    pub at_ns: u64,
    /// How late it was.
    pub late_ns: u64,
    /// What ran on the CPU meanwhile; `None` when that was not asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<TimeBreakdown>,
}

/// Whether the kernel's trace was on. It makes every event of the measured CPUs a little longer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TraceUse {
    /// It was asked for (`--why`).
    pub asked: bool,
    /// Why there was none all the same, or why it ended before its time.
    #[serde(with = "crate::with_text::option")]
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Option<crate::with_text::WithText<AbsenceReason>>")
    )]
    pub absent: Option<AbsenceReason>,
    /// What it cannot see on this kernel.
    #[serde(with = "crate::with_text::list")]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<crate::with_text::WithText<BlindSpot>>"))]
    pub blind: Vec<BlindSpot>,
}

/// A latency below which a part of all are.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Percentile {
    /// How many of a hundred.
    pub percent: f64,
    /// The latency.
    pub ns: u64,
}

/// Latencies over a limit.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OverLimit {
    /// The limit.
    pub limit_ns: u64,
    /// How many were longer.
    pub count: u64,
    /// How many of a hundred, missed events among them.
    pub percent: f64,
}

/// The worst of each moment of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WorstTimeline {
    /// How long a moment is, in nanoseconds.
    pub step_ns: u64,
    /// The longest latency of each moment that is known of, from the beginning on; 0 where no event
    /// came.
    pub worst_ns: Vec<u64>,
}

/// What kept others off the CPUs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MeasuredIsolation {
    /// The name of cpushield's shield that holds all of the CPUs; `None` when there is none.
    pub shield: Option<String>,
    /// Whether it did so at every look, one a second; `None` without a shield, and when it has
    /// nothing that can be looked at.
    pub held: Option<bool>,
    /// Since when it did not, and why.
    #[serde(with = "crate::with_text::list")]
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Vec<crate::with_text::WithText<ShieldBreach>>")
    )]
    pub broken: Vec<ShieldBreach>,
    /// CPUs that the kernel keeps out of scheduling since it was booted
    /// (`/sys/devices/system/cpu/isolated`).
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub isolated: Option<CpuSet>,
    /// CPUs whose tick the kernel can stop (`/sys/devices/system/cpu/nohz_full`).
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub nohz_full: Option<CpuSet>,
}

/// What was measured on. A figure without this cannot be compared with another.
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
    /// Which boot it was measured in (`/proc/sys/kernel/random/boot_id`); the last one's when it
    /// was gone on with.
    #[serde(default)]
    pub boot: Option<String>,
    /// The processor's name.
    pub processor: Option<String>,
    /// CPUs in use.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub online: CpuSet,
    /// The hypervisor that this runs under, or `unknown`; `None` on a machine of its own.
    pub hypervisor: Option<String>,
    /// The clock of all figures.
    pub clock: String,
    /// What the kernel's clock is made of.
    pub clocksource: Option<String>,
    /// What one look at the clock takes, in nanoseconds; it is part of every figure.
    pub clock_read_ns: u64,
}

impl ThreadSeries {
    /// A percentile that the document names, in nanoseconds; `None` when it does not.
    #[must_use]
    pub fn percentile(&self, percent: f64) -> Option<u64> {
        let same = |found: f64| (found - percent).abs() < 1e-6;
        self.percentiles.iter().find(|one| same(one.percent)).map(|one| one.ns)
    }
}

impl LatencyMeasurement {
    /// The worst of all, with its thread.
    #[must_use]
    pub fn worst(&self) -> Option<(&ThreadSeries, &WorstLatency)> {
        let worst = self.series.iter().filter_map(|series| Some((series, series.worst.first()?)));
        worst.max_by_key(|(_, worst)| worst.late_ns)
    }

    /// Every doubt of the document, of its shield, its threads and its loads: whoever tells or
    /// weighs doubts has these.
    #[must_use]
    pub fn every_doubt(&self) -> Vec<LatencyDoubt> {
        let mut doubts = self.doubts.clone();
        let broken = self.isolation.broken.iter().cloned();
        doubts.extend(broken.map(|breach| LatencyDoubt::ShieldBroken { breach }));
        for series in &self.series {
            let unreadable = counts(series).err();
            let unreadable = unreadable.map(|why| ThreadDoubt::HistogramUnreadable { why });
            let of_thread = series.doubts.iter().cloned().chain(unreadable);
            doubts.extend(
                of_thread
                    .map(|doubt| LatencyDoubt::ThreadDoubtful { thread: series.thread(), doubt }),
            );
        }
        for load in &self.loads {
            doubts.extend(
                load.doubts
                    .iter()
                    .cloned()
                    .map(|doubt| LatencyDoubt::LoadDoubtful { load: load.name.clone(), doubt }),
            );
        }
        let (span_ns, asked_ns) = (self.span_ns, self.asked_ns);
        if self.unfinished {
            doubts.push(LatencyDoubt::Incomplete { span_ns, asked_ns });
        }
        if self.stopped {
            doubts.push(LatencyDoubt::Stopped { span_ns, asked_ns });
        }
        doubts
    }

    /// The stage that contains the others, where a wakeup is measured in stages.
    #[must_use]
    pub fn whole(&self) -> Option<&str> {
        let has = |stage: &&str| self.series.iter().any(|one| one.stage.as_deref() == Some(*stage));
        ["user", "thread", "irq"].into_iter().find(has)
    }

    /// Where no series has a sample because none was as long as this: so long at least they would
    /// have been.
    #[must_use]
    pub fn silent_below_ns(&self) -> Option<u64> {
        let silent = |one: &ThreadSeries| one.threshold_ns.filter(|_| one.samples == 0);
        let all: Option<Vec<u64>> = self.series.iter().map(silent).collect();
        all?.into_iter().max()
    }

    /// Whether every limit holds for certain.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.gates.iter().all(|gate| gate.held == Some(true))
    }
}

impl ThreadSeries {
    /// Which thread it is: `CPU 3, 1ms`, `CPU 3, 1ms (irq)`, `CPU 3` for one that never sleeps.
    #[must_use]
    pub fn thread(&self) -> String {
        let stage = self.stage.as_ref().map_or_else(String::new, |stage| format!(" ({stage})"));
        match self.period_ns {
            0 => format!("CPU {}{stage}", self.cpu),
            period_ns => format!("CPU {}, {}{stage}", self.cpu, exact(period_ns)),
        }
    }

    /// What its thread does, on whatever CPU: `threads of 1ms`, `threads of 1ms (irq)`.
    #[must_use]
    pub fn role(&self) -> String {
        let stage = self.stage.as_ref().map_or_else(String::new, |stage| format!(" ({stage})"));
        match self.period_ns {
            0 => format!("threads that never sleep{stage}"),
            period_ns => format!("threads of {}{stage}", exact(period_ns)),
        }
    }
}
