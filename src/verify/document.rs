//! The [`Evidence`] document; what it says is in the [`Verdict`](super::Verdict).

use crate::causes::purpose::InterruptPurpose;
use crate::causes::{Cause, Culprit};
use crate::verify::{
    AbsenceReason, BlindSpot, CpuDoubt, DeferredFunction, EventEvidence, IpiOrigin, SentIpi,
    TraceInterference, WitnessDoubt,
};
use serde::{Deserialize, Serialize};

/// The version of both documents' form.
pub const SCHEMA: u32 = 1;

/// What was observed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Evidence {
    /// The version of this form: [`SCHEMA`].
    pub schema: u32,
    /// When the span began, in seconds since 1970 by the wall clock; `None` in documents that are
    /// older than this field.
    #[serde(default)]
    pub began_s: Option<u64>,
    /// The same by `CLOCK_MONOTONIC`, in nanoseconds, as `dmesg` and other traces count; every
    /// moment in this document counts from here. `None` as above.
    #[serde(default)]
    pub began_ns: Option<u64>,
    /// How long was watched, in nanoseconds.
    pub span_ns: u64,
    /// How long was to be watched, in nanoseconds; 0 when that is not known.
    #[serde(default)]
    pub asked_ns: u64,
    /// How the given program ended by itself; `None` while it ran to the end of the span, and when
    /// none was started.
    #[serde(default)]
    pub ended: Option<WorkloadEnd>,
    /// It was stopped before its time; what it saw until then is here.
    pub stopped: bool,
    /// What ran on the watched CPUs.
    pub workload: WatchedWorkload,
    /// Whether this machine is a guest, whose hypervisor can take a CPU unseen; `None` when that is
    /// not known.
    #[serde(default)]
    pub guest: Option<bool>,
    /// One entry for each watched CPU.
    pub cpus: Vec<CpuEvidence>,
    /// Every witness, those that could not see too.
    pub witnesses: Vec<WitnessReport>,
    /// The provoked interruption that proves the instrument sees.
    pub control: PositiveControl,
    /// What other processes did to the trace while it recorded. An instrument that was interfered
    /// with proves nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interference: Vec<TraceInterference>,
    /// The span on the clock of the trace, as `--trace-dat` has it; `None` without a trace.
    #[serde(default)]
    pub traced: Option<TracedSpan>,
    /// The first breach of a limit, when the watch was to end with it and a trace saw it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub breach: Option<Breach>,
}

impl Evidence {
    /// What became of a witness; `None` when it was not asked for.
    #[must_use]
    pub fn witness(&self, kind: WitnessKind) -> Option<&WitnessReport> {
        self.witnesses.iter().find(|witness| witness.kind == kind)
    }
}

/// A span on the clock of the trace: what was recorded later than `began`, and not later than
/// `ended`, counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TracedSpan {
    /// `trace_clock`: `x86-tsc` counts ticks, others nanoseconds.
    pub clock: String,
    /// When it began.
    pub began: u64,
    /// When it ended.
    pub ended: u64,
}

/// The first breach of a limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Breach {
    /// The CPU.
    pub cpu: usize,
    /// What was broken: `more than 0 entries`, `a gap of 41 us`.
    pub what: String,
    /// When, in nanoseconds since the span began.
    pub at_ns: u64,
    /// What ran then, outer things before what lay inside them; empty when the trace shows nothing
    /// at that moment.
    pub tree: Vec<BreachNode>,
}

/// One thing in the tree of a breach.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BreachNode {
    /// 0 is the interruption itself.
    pub depth: usize,
    /// In words: `interruption`, `hrtimer`, `softirq`.
    pub kind: String,
    /// Its cause.
    pub cause: Cause,
    /// Its culprit.
    #[serde(with = "crate::with_text")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::with_text::WithText<Culprit>"))]
    pub culprit: Culprit,
    /// When it began, in nanoseconds since the interruption began.
    pub after_ns: u64,
    /// How long it took, in nanoseconds; 0 when nothing tells its end.
    pub took_ns: u64,
    /// The functions of the kernel that led there, innermost first; empty without `--stacks`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stack: Vec<String>,
}

/// A program that ended by itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WorkloadEnd {
    /// In words: `exit status: 0`.
    pub how: String,
    /// When that was noticed, in nanoseconds since the span began; 0 when it ended before.
    pub after_ns: u64,
}

/// What ran on the watched CPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum WatchedWorkload {
    /// The gap sampler, which never enters the kernel by itself.
    Sampler,
    /// Something else: a given command, or whatever runs there.
    Given,
}

/// What was observed on one CPU.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CpuEvidence {
    /// The CPU.
    pub cpu: usize,
    /// Entries into the kernel from user mode (trace); where there is no trace, interrupts of any
    /// kind (counters); `None` when nothing could count.
    pub entries: Option<u64>,
    /// Interrupts that hit the kernel itself: a system call, a page fault, another interrupt, a
    /// kernel thread, the idle loop; `None` without a trace.
    #[serde(default)]
    pub kernel_interrupts: Option<u64>,
    /// Whether the workload's own entries (system calls, exceptions) are among them: they were
    /// traced, or context tracking tells of them (on CPUs of `nohz_full=`).
    #[serde(default)]
    pub whole: bool,
    /// Whether context tracking reports entries from user mode here (on CPUs of `nohz_full=`).
    #[serde(default)]
    pub tracked: bool,
    /// Interruptions by cause and culprit, most frequent first.
    pub interruptions: Vec<InterruptionCount>,
    /// Longest uninterrupted stretch in nanoseconds, by the best witness there was.
    pub longest_ns: Option<u64>,
    /// Gaps seen from user space; `None` when a workload was given.
    pub gaps: Option<GapStatistics>,
    /// Events lost by the trace; `None` without a trace.
    pub lost: Option<u64>,
    /// Time the hypervisor took, by `/proc/stat`; `None` when that could not be read.
    pub steal_ns: Option<u64>,
    /// Time in which nothing at all ran, by `/proc/stat`, in steps of 10 ms; `None` when that could
    /// not be read.
    #[serde(default)]
    pub idle_ns: Option<u64>,
    /// How often firmware took the CPU (system management mode), by the processor's own counter,
    /// from just before the span to just after it; `None` when it cannot be read.
    #[serde(default)]
    pub smis: Option<u64>,
    /// Gaps and trace laid beside each other; `None` without one of the two, or without a clock
    /// that they share.
    #[serde(default)]
    pub joined: Option<GapAttribution>,
    /// Who sent interrupts to this CPU from others, most frequent first; empty where that cannot be
    /// seen (before 6.5).
    #[serde(default)]
    pub senders: Vec<InterruptSender>,
    /// Each event that reports an entry, by the trace and by the perf event that counts it; empty
    /// without a trace.
    #[serde(default)]
    pub events: Vec<EventEvidence>,
    /// Why these two witnesses cannot be believed; empty when they agree.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub witness_doubts: Vec<WitnessDoubt>,
    /// What makes the figures of this CPU doubtful: it went offline, a counter went back.
    #[serde(with = "crate::with_text::list")]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<crate::with_text::WithText<CpuDoubt>>"))]
    pub doubts: Vec<CpuDoubt>,
}

/// Interruptions of one kind by one culprit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct InterruptionCount {
    /// The kind.
    pub cause: Cause,
    /// Who: `IRQ 24 nvme0q3`, `vmstat_update`, `irqbalance (812)`.
    #[serde(with = "crate::with_text")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::with_text::WithText<Culprit>"))]
    pub culprit: Culprit,
    /// How many interruptions began with it.
    pub count: u64,
    /// How often it ran inside an interruption that something else had begun (a softirq inside a
    /// tick, a kernel thread that the tick woke). A tunable may still remove it.
    #[serde(default)]
    pub nested: u64,
    /// Time it took itself in nanoseconds, without what ran inside it, where the witness can say.
    pub time_ns: Option<u64>,
    /// The longest interruption that began with it, from start to end, in nanoseconds.
    pub max_ns: Option<u64>,
    /// Which witness saw it.
    pub witness: WitnessKind,
    /// The functions of the kernel that led to the first of them, innermost first; empty without
    /// `--stacks`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stack: Vec<String>,
}

impl InterruptionCount {
    /// So many of a kind, of which the witness knows neither times nor what they were inside of.
    #[must_use]
    pub fn counted(
        cause: Cause,
        culprit: Culprit,
        count: u64,
        witness: WitnessKind,
    ) -> InterruptionCount {
        let (time_ns, max_ns, stack) = (None, None, Vec::new());
        InterruptionCount { cause, culprit, count, nested: 0, time_ns, max_ns, witness, stack }
    }
}

/// Time lost as the workload sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GapStatistics {
    /// Mean time of one look at the clock in nanoseconds, gaps left out: what the sampler resolves.
    pub resolution_ns: f64,
    /// Gaps longer than this many nanoseconds are counted.
    pub threshold_ns: u64,
    /// How many.
    pub count: u64,
    /// The longest in nanoseconds.
    pub max_ns: u64,
    /// Sum in nanoseconds.
    pub sum_ns: u64,
    /// Longest stretch without a gap, in nanoseconds.
    pub longest_ns: u64,
    /// Gaps that were overwritten before they could be laid beside the trace.
    pub overflow: u64,
}

/// An unexplained gap from this many nanoseconds on is long: caches, memory and the other thread of
/// the core cannot take so much at once.
pub const LONG_NS: u64 = 10_000;

/// Gaps and trace of one CPU laid beside each other.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GapAttribution {
    /// Gaps that the trace accounts for: the kernel or another task ran then.
    pub explained: GapPart,
    /// Gaps, or what is left of them, in which the trace saw nothing: firmware, the hypervisor, or
    /// something that has no event.
    pub unexplained: GapPart,
    /// How many of them were [`LONG_NS`] or longer.
    pub long: u64,
    /// The longest of them, longest first.
    pub worst: Vec<UnexplainedGap>,
    /// The gaps that interruptions made, by what they began with: what they cost the workload.
    pub by: Vec<MadeGap>,
    /// Interruptions that were too short to make a gap.
    pub without_gap: u64,
    /// Gaps and interruptions that were not laid beside each other, because too many waited.
    pub unjoined: u64,
}

/// Some gaps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GapPart {
    /// How many.
    pub count: u64,
    /// All together, in nanoseconds.
    pub sum_ns: u64,
    /// The longest, in nanoseconds.
    pub max_ns: u64,
}

/// A gap that nothing explains.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UnexplainedGap {
    /// When, in nanoseconds since the span began.
    pub at_ns: u64,
    /// How long nothing explains, in nanoseconds.
    pub ns: u64,
}

/// The gaps that interruptions of one kind by one culprit made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MadeGap {
    /// The kind.
    pub cause: Cause,
    /// Who.
    #[serde(with = "crate::with_text")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::with_text::WithText<Culprit>"))]
    pub culprit: Culprit,
    /// The gaps.
    pub gaps: GapPart,
}

/// Somebody who sent interrupts to a CPU from another.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct InterruptSender {
    /// What was sent.
    #[serde(with = "crate::with_text")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::with_text::WithText<SentIpi>"))]
    pub what: SentIpi,
    /// From where.
    #[serde(with = "crate::with_text")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::with_text::WithText<IpiOrigin>"))]
    pub by: IpiOrigin,
    /// Where in the kernel it was sent from: `text_poke_bp_batch`; empty when that is hidden.
    pub site: String,
    /// The timer or work item whose function sent it; `None` when it was none, or its stack was not
    /// seen.
    #[serde(default, with = "crate::with_text::option")]
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Option<crate::with_text::WithText<DeferredFunction>>")
    )]
    pub within: Option<DeferredFunction>,
    /// What for, by the way through the kernel to there; `None` when that is not known.
    #[serde(default, with = "crate::with_text::option")]
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Option<crate::with_text::WithText<InterruptPurpose>>")
    )]
    pub purpose: Option<InterruptPurpose>,
    /// What keeps it from being sent, where that is known; else empty.
    #[serde(default)]
    pub remedy: String,
    /// How often.
    pub count: u64,
    /// The functions of the kernel that led there most often, innermost first; empty without
    /// `--stacks`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stack: Vec<String>,
}

/// A source of evidence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum WitnessKind {
    /// The kernel's trace of the CPU.
    Trace,
    /// `/proc/interrupts`, `/proc/softirqs`, `/proc/stat`, schedstat.
    Counters,
    /// Perf events that count the events of the trace.
    EventCounters,
    /// The gap sampler in user space.
    Sampler,
    /// The processor's counter of system management interrupts.
    Firmware,
}

/// What became of a witness.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WitnessReport {
    /// Which.
    pub kind: WitnessKind,
    /// `None` when it watched; else why not.
    #[serde(with = "crate::with_text::option")]
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Option<crate::with_text::WithText<AbsenceReason>>")
    )]
    pub absent: Option<AbsenceReason>,
    /// What it cannot see here.
    #[serde(with = "crate::with_text::list")]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<crate::with_text::WithText<BlindSpot>>"))]
    pub blind: Vec<BlindSpot>,
}

/// The positive control.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "control", rename_all = "kebab-case")]
pub enum PositiveControl {
    /// So many interruptions were provoked, and so many seen (at least one on every CPU).
    Seen {
        /// What was done: `3 reschedule IPIs by sched_setaffinity`.
        what: String,
    },
    /// Provoked but not seen on these CPUs: the instrument is blind.
    Missed {
        /// What was done and where it was not seen.
        what: String,
    },
    /// Not provoked, and why.
    NotDone {
        /// Why.
        why: String,
    },
}
