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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "reason", rename_all = "kebab-case")]
pub enum JudgeReason {
    /// The gap sampler shows that it held.
    BySampler,
    /// The trace shows that it held, and nothing below the kernel took time.
    ByTrace,
    /// Another process changed what the trace records.
    Interfered {
        /// How.
        interference: TraceInterference,
    },
    /// Further interferences, beyond those that are listed.
    MoreInterference {
        /// How often.
        count: usize,
    },
    /// The trace and the perf events contradict each other, or one of them failed.
    WitnessesDoubtful {
        /// Why.
        doubt: WitnessDoubt,
    },
    /// The figures of the CPU are doubtful.
    FiguresDoubtful {
        /// Why.
        doubt: CpuDoubt,
    },
    /// The trace lost events.
    EventsLost {
        /// How many.
        count: u64,
    },
    /// A witness did not see the provoked interruption.
    ControlMissed {
        /// What was provoked and where it was not seen.
        missed: Vec<MissedControl>,
    },
    /// No interruption could be provoked.
    ControlNotDone {
        /// Why.
        failure: ProvokeFailure,
    },
    /// The program had ended before the span began.
    ProgramEndedBefore {
        /// How it ended.
        #[serde(with = "crate::with_text")]
        #[cfg_attr(feature = "schema", schemars(with = "crate::with_text::WithText<ProgramEnd>"))]
        how: ProgramEnd,
    },
    /// The program ended in the first half of the span.
    ProgramEndedEarly {
        /// How long after the start of the span it ended, in nanoseconds.
        after_ns: u64,
        /// The requested length of the span, in nanoseconds.
        asked_ns: u64,
    },
    /// Nothing ran on the CPU that could have been interrupted.
    CpuIdle,
    /// Whose the interruptions of a cyclic workload were is not certain.
    Cyclic {
        /// Why.
        doubt: OwnershipDoubt,
    },
    /// The watch was stopped.
    StoppedEarly,
    /// Nothing counted entries into the kernel.
    NoEntryCounter,
    /// Without a trace, the workload's own entries are not seen.
    WorkloadUnseen {
        /// Why there is no trace.
        no_trace: AbsenceReason,
    },
    /// Neither the trace nor the sampler watched.
    NothingWatched {
        /// Why there is no trace.
        no_trace: AbsenceReason,
    },
    /// Gaps that no counter explains.
    GapsUnexplained {
        /// How many.
        count: u64,
        /// Why there is no trace, which could name them.
        no_trace: AbsenceReason,
    },
    /// Long gaps in which the trace saw nothing.
    GapsUnnamed {
        /// How many.
        count: u64,
        /// The longest, in nanoseconds.
        longest_ns: u64,
        /// System management interrupts in that time; `None` when they cannot be counted.
        smis: Option<u64>,
    },
    /// The policy requires two witnesses for each class.
    TooFewWitnesses {
        /// Classes that only one witness watched.
        one_witness: Vec<EntryClass>,
        /// Classes that no witness watched.
        unwatched: Vec<EntryClass>,
    },
    /// System calls of the workload are entries and were not counted.
    SyscallsNotCounted,
    /// Gaps, or interruptions, were not compared with each other, because too many came at once.
    GapsNotCompared {
        /// How many.
        count: u64,
    },
    /// Interrupts were counted that have no event: some may have come from user mode.
    InterruptsWithoutEvent {
        /// How many.
        count: u64,
    },
    /// The sampler does not count gaps as short as the limit.
    ThresholdTooLong {
        /// The shortest gap that it counts, in nanoseconds.
        threshold_ns: u64,
    },
    /// The duration of these interruptions is unknown.
    DurationUnknown {
        /// Their cause.
        cause: Cause,
    },
    /// Time may go missing below the kernel, where the trace does not see it.
    TimeHidden {
        /// What took the time, or could have.
        by: HiddenTime,
    },
}

impl JudgeReason {
    /// How to get a known verdict in the next run; `None` when there is no advice.
    #[must_use]
    pub fn advice(&self) -> Option<&'static str> {
        match self {
            JudgeReason::ProgramEndedBefore { .. } | JudgeReason::ProgramEndedEarly { .. } => {
                Some("use --warmup 0s or a program that runs longer")
            }
            JudgeReason::SyscallsNotCounted => Some("use --syscalls"),
            JudgeReason::TimeHidden { by } => by.advice(),
            JudgeReason::WorkloadUnseen { no_trace }
            | JudgeReason::NothingWatched { no_trace }
            | JudgeReason::GapsUnexplained { no_trace, .. } => no_trace.advice(),
            _ => None,
        }
    }
}

impl fmt::Display for JudgeReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let advice = self.advice().unwrap_or_default();
        match self {
            JudgeReason::BySampler => f.write_str("according to the gap sampler"),
            JudgeReason::ByTrace => f.write_str(
                "according to the trace; no SMI was counted, and there is no hypervisor",
            ),
            JudgeReason::Interfered { interference } => interference.fmt(f),
            JudgeReason::MoreInterference { count } => {
                write!(f, "and {} to what the trace records", many(*count, "more change"))
            }
            JudgeReason::WitnessesDoubtful { doubt } => doubt.fmt(f),
            JudgeReason::FiguresDoubtful { doubt } => doubt.fmt(f),
            JudgeReason::EventsLost { count } => {
                write!(f, "the trace lost {}", many(*count, "event"))
            }
            JudgeReason::ControlMissed { missed } => {
                write!(f, "the positive control was not seen: {}", join_texts(missed))
            }
            JudgeReason::ControlNotDone { failure } => {
                write!(f, "the positive control could not be run: {failure}")
            }
            JudgeReason::ProgramEndedBefore { how } => {
                write!(f, "the program ended before the watch started ({how}); {advice}")
            }
            JudgeReason::ProgramEndedEarly { after_ns, asked_ns } => {
                let (after, asked) = (measured(*after_ns), exact_duration(*asked_ns));
                write!(f, "the program ended after {after} of the requested {asked}; {advice}")
            }
            JudgeReason::CpuIdle => {
                f.write_str("the CPU was idle throughout, which proves nothing")
            }
            JudgeReason::Cyclic { doubt } => doubt.fmt(f),
            JudgeReason::StoppedEarly => f.write_str("the run was stopped early"),
            JudgeReason::NoEntryCounter => f.write_str("no counter of kernel entries is available"),
            JudgeReason::WorkloadUnseen { no_trace } => write!(
                f,
                "without the kernel trace, no witness sees system calls, page faults or exceptions \
                 of the workload: {no_trace}"
            ),
            JudgeReason::NothingWatched { no_trace } => {
                write!(f, "neither the trace nor the gap sampler watched: {no_trace}")
            }
            JudgeReason::GapsUnexplained { count, no_trace } => {
                write_unexplained_gaps(f, *count, no_trace)
            }
            JudgeReason::GapsUnnamed { count, longest_ns, smis } => {
                write_unnamed_gaps(f, *count, *longest_ns, *smis)
            }
            JudgeReason::TooFewWitnesses { one_witness, unwatched } => {
                write_missing_witnesses(f, one_witness, unwatched)
            }
            JudgeReason::SyscallsNotCounted => {
                write!(f, "system calls are entries too, but were not counted: {advice}")
            }
            JudgeReason::GapsNotCompared { count } => {
                write!(f, "{count} of the gaps and interruptions could not be matched")
            }
            JudgeReason::InterruptsWithoutEvent { count } => {
                let interrupts = many(*count, "interrupt");
                write!(f, "the trace did not count {interrupts}, which caused no trace event")
            }
            JudgeReason::ThresholdTooLong { threshold_ns } => {
                let threshold = exact_duration(*threshold_ns);
                write!(f, "the sampler counts only gaps of {threshold} or more")
            }
            JudgeReason::DurationUnknown { cause } => {
                write!(f, "the duration of {cause} is unknown")
            }
            JudgeReason::TimeHidden { by } => by.fmt(f),
        }
    }
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
    /// the trace does not show time taken by the hypervisor; {text}.
    #[with(text = self.advice().unwrap_or_default())]
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

impl HiddenTime {
    /// What would show that time; `None` when there is no advice.
    #[must_use]
    pub fn advice(&self) -> Option<&'static str> {
        match self {
            HiddenTime::HypervisorUnseen => {
                Some("run `verify` without a command, so that the gap sampler measures it")
            }
            HiddenTime::FirmwareUnseen { no_counter } => no_counter.advice(),
            _ => None,
        }
    }
}
