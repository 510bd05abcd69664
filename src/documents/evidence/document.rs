//! The [`Evidence`] document. What it means is in the [`Verdict`](super::Verdict).

use crate::causes::purpose::InterruptPurpose;
use crate::causes::{Cause, Culprit};
use crate::documents::evidence::{
    AbsenceReason, BlindSpot, CpuDoubt, DeferredFunction, EventEvidence, IpiOrigin, KernelWork,
    OwnershipEvidence, PositiveControl, SentIpi, TraceInterference, WatchOptions, WatchedMachine,
    WitnessDoubt, WitnessKind, WorkloadEnd,
};
use crate::documents::time_text::{exact_duration, measured};
use cpushield_sentence::Sentence;
use serde::{Deserialize, Serialize};

/// The format version of both documents.
pub const SCHEMA: u32 = 1;

/// What was observed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Evidence {
    /// The version of this format: [`SCHEMA`].
    pub schema: u32,
    /// Start of the span, in seconds since 1970 by the wall clock; `None` when unknown.
    pub began_s: Option<u64>,
    /// Start of the span by `CLOCK_MONOTONIC`, in nanoseconds, as in `dmesg` and other traces. All
    /// times in this document are relative to it.
    pub began_ns: u64,
    /// The length of the span, in nanoseconds.
    pub span_ns: u64,
    /// The requested length, in nanoseconds; 0 when it is unknown.
    pub asked_ns: u64,
    /// How the given program ended by itself; `None` when it ran to the end of the span, or when
    /// none was started.
    pub ended: Option<WorkloadEnd>,
    /// Whether the watch was stopped early. The figures cover the time until then.
    pub stopped: bool,
    /// What ran on the watched CPUs.
    pub workload: WatchedWorkload,
    /// Whether this machine is a guest, whose hypervisor can take a CPU unseen; `None` when that is
    /// unknown.
    pub guest: Option<bool>,
    /// The machine; `None` when unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<WatchedMachine>,
    /// The name of the shield that contains all watched CPUs; `None` without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shield: Option<String>,
    /// Why the shield proves nothing about later: others may enter it, and these threads of others
    /// are pinned there. `None` for a closed shield, and without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_to: Option<Vec<String>>,
    /// The options of `verify`; `None` for another command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub options: Option<WatchOptions>,
    /// One entry for each watched CPU.
    pub cpus: Vec<CpuEvidence>,
    /// Every witness, including those that could not watch.
    pub witnesses: Vec<WitnessReport>,
    /// The provoked interruption that proves the instrument sees.
    #[serde(with = "crate::with_text")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::with_text::WithText<PositiveControl>"))]
    pub control: PositiveControl,
    /// What other processes did to the trace while it recorded. An instrument that was interfered
    /// with proves nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty", with = "crate::with_text::list")]
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Vec<crate::with_text::WithText<TraceInterference>>")
    )]
    pub interference: Vec<TraceInterference>,
    /// The span on the clock of the trace, as in `--trace-dat`; `None` without a trace.
    pub traced: Option<TracedSpan>,
    /// The first breach of a limit. `None` unless the watch was to end with it and a trace saw it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub breach: Option<Breach>,
}

impl Evidence {
    /// The report of a witness; `None` when it was not requested.
    #[must_use]
    pub fn witness(&self, kind: WitnessKind) -> Option<&WitnessReport> {
        self.witnesses.iter().find(|witness| witness.kind == kind)
    }
}

/// A span on the clock of the trace. Records later than `began` and not later than `ended` count.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TracedSpan {
    /// `trace_clock`: `x86-tsc` counts ticks, others nanoseconds.
    pub clock: String,
    /// Its start.
    pub began: u64,
    /// Its end.
    pub ended: u64,
}

/// The first breach of a limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Breach {
    /// The CPU.
    pub cpu: usize,
    /// What broke the limit: `a gap of 41us; at most 10us allowed`.
    #[serde(with = "crate::with_text")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::with_text::WithText<LimitBreach>"))]
    pub what: LimitBreach,
    /// When, in nanoseconds since the start of the span.
    pub at_ns: u64,
    /// What ran then, the outer before the inner.
    pub tree: Vec<BreachNode>,
    /// Why the tree is empty; absent when it is not.
    #[serde(with = "crate::with_text::option", default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Option<crate::with_text::WithText<MissingTree>>")
    )]
    pub missing: Option<MissingTree>,
}

/// Why it is unknown what ran at a breach.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Sentence)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "missing", rename_all = "kebab-case")]
pub enum MissingTree {
    /// the trace shows no interruption at that moment.
    NothingRecorded,
    /// the trace lost events at that moment.
    EventsLost,
    /// the records of that moment were discarded; a longer --before would keep them.
    RecordsDiscarded,
    /// the records of that moment cannot be read back: {answer}.
    NotReadBack {
        /// The kernel's answer.
        answer: String,
    },
}

/// What broke a limit, with the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Sentence)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "breach", rename_all = "kebab-case")]
pub enum LimitBreach {
    /// entry {count} into the kernel; at most {most} allowed.
    Entries {
        /// How many there were; 0 when they were not counted.
        count: u64,
        /// How many are allowed.
        most: u64,
    },
    /// a gap of {length}; at most {most} allowed.
    #[with(length = measured(*ns), most = exact_duration(*most_ns))]
    Gap {
        /// Its length, in nanoseconds.
        ns: u64,
        /// The allowed length, in nanoseconds.
        most_ns: u64,
    },
    /// an interruption of {length}; at most {most} allowed.
    #[with(length = measured(*ns), most = exact_duration(*most_ns))]
    Interruption {
        /// Its length, in nanoseconds.
        ns: u64,
        /// The allowed length, in nanoseconds.
        most_ns: u64,
    },
}

/// A node in the tree of a breach.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BreachNode {
    /// Depth in the tree; 0 is the interruption itself.
    pub depth: usize,
    /// What it is.
    pub kind: KernelWork,
    /// Its cause.
    pub cause: Cause,
    /// Its culprit.
    #[serde(with = "crate::with_text")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::with_text::WithText<Culprit>"))]
    pub culprit: Culprit,
    /// When it began, in nanoseconds since the interruption began.
    pub after_ns: u64,
    /// How long it took, in nanoseconds; 0 when its end is unknown.
    pub took_ns: u64,
    /// The kernel stack, innermost function first; empty without `--stacks`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stack: Vec<String>,
}

/// What ran on the watched CPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum WatchedWorkload {
    /// The gap sampler, which never enters the kernel by itself.
    Sampler,
    /// A given command, or whatever runs on the CPUs.
    Given,
    /// The same, judged as a program that sleeps.
    Cyclic,
}

/// What was observed on one CPU.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CpuEvidence {
    /// The CPU.
    pub cpu: usize,
    /// Entries into the kernel from user mode, by the trace. Without a trace, interrupts of any
    /// kind, by the counters. `None` when neither could count.
    pub entries: Option<u64>,
    /// Interrupts that hit kernel code: a system call, a page fault, another interrupt, a kernel
    /// thread, the idle loop. `None` without a trace.
    pub kernel_interrupts: Option<u64>,
    /// Whether `entries` includes the workload's own entries (system calls, exceptions): they were
    /// traced, or context tracking reports them (on CPUs of `nohz_full=`).
    pub whole: bool,
    /// Whether context tracking reports entries from user mode here (on CPUs of `nohz_full=`).
    pub tracked: bool,
    /// Interruptions by cause and culprit, most frequent first.
    pub interruptions: Vec<InterruptionCount>,
    /// Longest uninterrupted stretch in nanoseconds: by the sampler where it ran, else by the
    /// trace.
    pub longest_ns: Option<u64>,
    /// Gaps seen from user space; `None` when a workload was given.
    pub gaps: Option<GapStatistics>,
    /// Events lost by the trace; `None` without a trace.
    pub lost: Option<u64>,
    /// Time the hypervisor took, by `/proc/stat`; `None` when that could not be read.
    pub steal_ns: Option<u64>,
    /// Idle time, by `/proc/stat`, in steps of 10 ms; `None` when that could not be read. If the
    /// CPU was idle at all, the parts of the span outside the two reads count as idle too.
    pub idle_ns: Option<u64>,
    /// How often firmware took the CPU (system management mode), by the processor's own counter,
    /// from just before the span to just after it; `None` when it cannot be read.
    pub smis: Option<u64>,
    /// The gaps correlated with the trace; `None` without one of the two, or without a common
    /// clock.
    pub joined: Option<GapAttribution>,
    /// Whose the interruptions are; `None` unless a cyclic workload was watched and its trace could
    /// tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ownership: Option<OwnershipEvidence>,
    /// The senders of interrupts from other CPUs to this one, most frequent first; empty where they
    /// cannot be seen (before 6.5).
    pub senders: Vec<InterruptSender>,
    /// Each event that reports an entry, as seen by the trace and by the perf event that counts it;
    /// empty without a trace.
    pub events: Vec<EventEvidence>,
    /// Why these two witnesses cannot be relied on; empty when they agree.
    #[serde(default, skip_serializing_if = "Vec::is_empty", with = "crate::with_text::list")]
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Vec<crate::with_text::WithText<WitnessDoubt>>")
    )]
    pub witness_doubts: Vec<WitnessDoubt>,
    /// What makes the figures of this CPU doubtful: it went offline, a counter went backwards.
    #[serde(with = "crate::with_text::list")]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<crate::with_text::WithText<CpuDoubt>>"))]
    pub doubts: Vec<CpuDoubt>,
}

/// The interruptions of one cause by one culprit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct InterruptionCount {
    /// The cause.
    pub cause: Cause,
    /// The culprit: `IRQ 24 nvme0q3`, `vmstat_update`, `irqbalance (812)`.
    #[serde(with = "crate::with_text")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::with_text::WithText<Culprit>"))]
    pub culprit: Culprit,
    /// The number of interruptions that began with it.
    pub count: u64,
    /// How often it ran inside an interruption that began with something else (a softirq inside a
    /// tick, a kernel thread that the tick woke). A tunable may still remove it.
    pub nested: u64,
    /// Its own time in nanoseconds, without what ran inside it; `None` when the witness cannot
    /// tell.
    pub time_ns: Option<u64>,
    /// The longest interruption that began with it, in nanoseconds; `None` when it is unknown.
    pub max_ns: Option<u64>,
    /// The witness that saw it.
    pub witness: WitnessKind,
    /// The kernel stack of the first of them, innermost function first; empty without `--stacks`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stack: Vec<String>,
}

impl InterruptionCount {
    /// A count from a witness that knows neither the times nor the nesting.
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
    /// Mean time of one read of the clock in nanoseconds, without gaps: the sampler's resolution.
    pub resolution_ns: f64,
    /// Gaps longer than this many nanoseconds are counted.
    pub threshold_ns: u64,
    /// The number of gaps.
    pub count: u64,
    /// The longest gap in nanoseconds.
    pub max_ns: u64,
    /// The sum of all gaps in nanoseconds.
    pub sum_ns: u64,
    /// Longest stretch without a gap, in nanoseconds.
    pub longest_ns: u64,
    /// Gaps that were overwritten before they could be correlated with the trace.
    pub overflow: u64,
}

/// An unexplained gap of at least this many nanoseconds is long: caches, memory and the sibling
/// thread of the core cannot take that much at once.
pub const LONG_NS: u64 = 10_000;

/// The gaps of one CPU, correlated with the trace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GapAttribution {
    /// Gaps that the trace explains: the kernel or another task ran.
    pub explained: GapPart,
    /// Gaps, or parts of gaps, in which the trace saw nothing: firmware, the hypervisor, or
    /// something without an event.
    pub unexplained: GapPart,
    /// The number of unexplained gaps of at least [`LONG_NS`].
    pub long: u64,
    /// The longest unexplained gaps, longest first.
    pub worst: Vec<UnexplainedGap>,
    /// The gaps that interruptions caused, by what the interruption began with.
    pub by: Vec<MadeGap>,
    /// Interruptions that were too short to cause a gap.
    pub without_gap: u64,
    /// Gaps and interruptions that were not correlated, because too many were pending.
    pub unjoined: u64,
}

/// Number and duration of some gaps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GapPart {
    /// The number of gaps.
    pub count: u64,
    /// Their sum, in nanoseconds.
    pub sum_ns: u64,
    /// The longest, in nanoseconds.
    pub max_ns: u64,
}

/// A gap that nothing explains.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UnexplainedGap {
    /// When, in nanoseconds since the start of the span.
    pub at_ns: u64,
    /// The unexplained time, in nanoseconds.
    pub ns: u64,
}

/// The gaps that interruptions of one cause by one culprit made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MadeGap {
    /// The cause.
    pub cause: Cause,
    /// The culprit.
    #[serde(with = "crate::with_text")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::with_text::WithText<Culprit>"))]
    pub culprit: Culprit,
    /// The gaps.
    pub gaps: GapPart,
}

/// A sender of interrupts from one CPU to another.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct InterruptSender {
    /// What was sent.
    #[serde(with = "crate::with_text")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::with_text::WithText<SentIpi>"))]
    pub what: SentIpi,
    /// The task, idle CPU or interrupt that sent it.
    #[serde(with = "crate::with_text")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::with_text::WithText<IpiOrigin>"))]
    pub by: IpiOrigin,
    /// The kernel function that sent it: `text_poke_bp_batch`; empty when it is hidden.
    pub site: String,
    /// The timer or work item whose function sent it; `None` when it was neither, or when its stack
    /// was not seen.
    #[serde(with = "crate::with_text::option")]
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Option<crate::with_text::WithText<DeferredFunction>>")
    )]
    pub within: Option<DeferredFunction>,
    /// Its purpose, according to the call path in the kernel; `None` when it is unknown.
    #[serde(with = "crate::with_text::option")]
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Option<crate::with_text::WithText<InterruptPurpose>>")
    )]
    pub purpose: Option<InterruptPurpose>,
    /// How to prevent it; empty when that is unknown.
    pub remedy: String,
    /// How often it was sent.
    pub count: u64,
    /// The most frequent kernel stack, innermost function first; empty without
    /// `--stacks`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stack: Vec<String>,
}

/// Whether a witness watched, and what it could not see.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WitnessReport {
    /// The witness.
    pub kind: WitnessKind,
    /// Why it did not watch; `None` when it did.
    #[serde(with = "crate::with_text::option")]
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Option<crate::with_text::WithText<AbsenceReason>>")
    )]
    pub absent: Option<AbsenceReason>,
    /// What it cannot see on this machine.
    #[serde(with = "crate::with_text::list")]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<crate::with_text::WithText<BlindSpot>>"))]
    pub blind: Vec<BlindSpot>,
}
