//! Why a verdict is unknown, or which evidence shows that a limit held. Pure.

use super::join_texts;
use super::list_classes;
use crate::causes::Cause;
use crate::documents::count_text::many;
use crate::documents::evidence::{
    AbsenceReason, CpuDoubt, EntryClass, LONG_NS, MissedControl, OwnershipDoubt, ProgramEnd,
    ProvokeFailure, TraceInterference, WitnessDoubt,
};
use crate::documents::time_text::{exact_duration, measured};
use cpushield_sentence::Sentence;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The reason for an unknown verdict, or the evidence that a limit held.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Sentence)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "reason", rename_all = "kebab-case")]
pub enum JudgeReason {
    /// according to the gap sampler.
    BySampler,
    /// according to the trace; no SMI was counted, and there is no hypervisor.
    ByTrace,
    /// Another process changed what the trace records.
    #[delegate]
    Interfered {
        /// How.
        interference: TraceInterference,
    },
    /// and {count} to what the trace records.
    #[with(count = many(*count, "more change"))]
    MoreInterference {
        /// How often.
        count: usize,
    },
    /// The trace and the perf events contradict each other, or one of them failed.
    #[delegate]
    WitnessesDoubtful {
        /// Why.
        doubt: WitnessDoubt,
    },
    /// The figures of the CPU are doubtful.
    #[delegate]
    FiguresDoubtful {
        /// Why.
        doubt: CpuDoubt,
    },
    /// the trace lost {count}.
    #[with(count = many(*count, "event"))]
    EventsLost {
        /// How many.
        count: u64,
    },
    /// the positive control was not seen: {missed}.
    #[with(missed = join_texts(missed))]
    ControlMissed {
        /// What was provoked and where it was not seen.
        missed: Vec<MissedControl>,
    },
    /// the positive control could not be run: {failure}.
    ControlNotDone {
        /// Why.
        failure: ProvokeFailure,
    },
    /// the program ended before the watch started ({how}); use --warmup 0s or a program that runs
    /// longer.
    ProgramEndedBefore {
        /// How it ended.
        #[serde(with = "crate::with_text")]
        #[cfg_attr(feature = "schema", schemars(with = "crate::with_text::WithText<ProgramEnd>"))]
        how: ProgramEnd,
    },
    /// the program ended after {after} of the requested {asked}; use --warmup 0s or a program that
    /// runs longer.
    #[with(after = measured(*after_ns), asked = exact_duration(*asked_ns))]
    ProgramEndedEarly {
        /// How long after the start of the span it ended, in nanoseconds.
        after_ns: u64,
        /// The requested length of the span, in nanoseconds.
        asked_ns: u64,
    },
    /// the CPU was idle throughout, which proves nothing.
    CpuIdle,
    /// Whose the interruptions of a cyclic workload were is not certain.
    #[delegate]
    Cyclic {
        /// Why.
        doubt: OwnershipDoubt,
    },
    /// the run was stopped early.
    StoppedEarly,
    /// no counter of kernel entries is available.
    NoEntryCounter,
    /// without the kernel trace, no witness sees system calls, page faults or exceptions of the
    /// workload: {no_trace}.
    WorkloadUnseen {
        /// Why there is no trace.
        no_trace: AbsenceReason,
    },
    /// neither the trace nor the gap sampler watched: {no_trace}.
    NothingWatched {
        /// Why there is no trace.
        no_trace: AbsenceReason,
    },
    /// Gaps that no counter explains.
    #[print(write_unexplained_gaps(f, *count, no_trace))]
    GapsUnexplained {
        /// How many.
        count: u64,
        /// Why there is no trace, which could name them.
        no_trace: AbsenceReason,
    },
    /// Long gaps in which the trace saw nothing.
    #[print(write_unnamed_gaps(f, *count, *longest_ns, *smis))]
    GapsUnnamed {
        /// How many.
        count: u64,
        /// The longest, in nanoseconds.
        longest_ns: u64,
        /// System management interrupts in that time; `None` when they cannot be counted.
        smis: Option<u64>,
    },
    /// The policy requires two witnesses for each class.
    #[print(write_missing_witnesses(f, one_witness, unwatched))]
    TooFewWitnesses {
        /// Classes that only one witness watched.
        one_witness: Vec<EntryClass>,
        /// Classes that no witness watched.
        unwatched: Vec<EntryClass>,
    },
    /// system calls are entries too, but were not counted: use --syscalls.
    SyscallsNotCounted,
    /// {count} of the gaps and interruptions could not be matched.
    GapsNotCompared {
        /// How many.
        count: u64,
    },
    /// the trace did not count {interrupts}, which caused no trace event.
    #[with(interrupts = many(*count, "interrupt"))]
    InterruptsWithoutEvent {
        /// How many.
        count: u64,
    },
    /// the sampler counts only gaps of {threshold} or more.
    #[with(threshold = exact_duration(*threshold_ns))]
    ThresholdTooLong {
        /// The shortest gap that it counts, in nanoseconds.
        threshold_ns: u64,
    },
    /// the duration of {cause} is unknown.
    DurationUnknown {
        /// Their cause.
        cause: Cause,
    },
    /// Time may go missing below the kernel, where the trace does not see it.
    #[delegate]
    TimeHidden {
        /// What took the time, or could have.
        by: HiddenTime,
    },
}

fn write_unexplained_gaps(
    f: &mut fmt::Formatter<'_>,
    count: u64,
    no_trace: &AbsenceReason,
) -> fmt::Result {
    write!(
        f,
        "{} that no counter explains: firmware, the hypervisor or uncounted kernel work; the \
         kernel trace could name the cause, but did not watch: {no_trace}",
        many(count, "gap")
    )
}

fn write_unnamed_gaps(
    f: &mut fmt::Formatter<'_>,
    count: u64,
    longest_ns: u64,
    smis: Option<u64>,
) -> fmt::Result {
    let smis = match smis {
        Some(0) => "no SMI was counted",
        Some(_) => "fewer SMIs than gaps were counted",
        None => "SMIs cannot be counted",
    };
    let (least, longest) = (exact_duration(LONG_NS), measured(longest_ns));
    let gaps = many(count, "gap");
    write!(f, "{gaps} of {least} or more without a trace event, the longest {longest}; {smis}")
}

fn write_missing_witnesses(
    f: &mut fmt::Formatter<'_>,
    one_witness: &[EntryClass],
    unwatched: &[EntryClass],
) -> fmt::Result {
    f.write_str("the policy requires two witnesses, but ")?;
    if !one_witness.is_empty() {
        write!(f, "only one witness watched {}", list_classes(one_witness))?;
    }
    if !one_witness.is_empty() && !unwatched.is_empty() {
        f.write_str("; ")?;
    }
    if !unwatched.is_empty() {
        write!(f, "no witness watched {}", list_classes(unwatched))?;
    }
    Ok(())
}

/// Time taken below the kernel, which no event of the trace shows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Sentence)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "hidden", rename_all = "kebab-case")]
pub enum HiddenTime {
    /// the trace does not show time taken by the hypervisor; run `verify` without a command, so
    /// that the gap sampler measures it.
    HypervisorUnseen,
    /// firmware took the CPU {times}; for how long is unknown.
    #[with(times = many(*count, "time"))]
    FirmwareTook {
        /// How often.
        count: u64,
    },
    /// the trace does not show time taken by firmware, and SMIs cannot be counted: {no_counter}.
    FirmwareUnseen {
        /// Why the SMI counter did not watch.
        no_counter: AbsenceReason,
    },
    /// the hypervisor took {ns}.
    #[with(ns = measured(*ns))]
    HypervisorTook {
        /// How much, in nanoseconds.
        ns: u64,
    },
    /// could not read how much time the hypervisor took.
    StealUnreadable,
}
