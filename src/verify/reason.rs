//! Why the judge proves nothing, or by what it knows that a limit held. Pure.

use crate::causes::Cause;
use crate::verify::class_coverage::list;
use crate::verify::judge::{limit, measured};
use crate::verify::{
    AbsenceReason, CpuDoubt, EntryClass, LONG_NS, TraceInterference, WitnessDoubt,
};
use serde::{Deserialize, Serialize};
use std::fmt;

/// What stands behind a verdict or a limit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "reason", rename_all = "kebab-case")]
pub enum JudgeReason {
    /// It held by the gap sampler.
    BySampler,
    /// It held by the trace, and nothing below the kernel took time.
    ByTrace,
    /// Another process changed what the trace records.
    Interfered {
        /// How.
        interference: TraceInterference,
    },
    /// It did so more often than is told one by one.
    MoreInterference {
        /// How often.
        count: usize,
    },
    /// Trace and perf events cannot be believed.
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
    /// A witness did not see the interruption that was provoked.
    ControlMissed {
        /// What was provoked and where it was not seen.
        what: String,
    },
    /// No interruption could be provoked.
    ControlNotDone {
        /// Why.
        why: String,
    },
    /// The program had ended before the span began.
    ProgramEndedBefore {
        /// In words: `exit status: 0`.
        how: String,
    },
    /// The program ended in the first half of the span.
    ProgramEndedEarly {
        /// So long after its beginning, in nanoseconds.
        after_ns: u64,
        /// How long was asked for, in nanoseconds.
        asked_ns: u64,
    },
    /// Nothing ran there that could have been interrupted.
    CpuIdle,
    /// The watch was stopped.
    StoppedEarly,
    /// Nothing counted entries into the kernel.
    NoEntryCounter,
    /// Without a trace the entries of the workload itself are not seen.
    WorkloadUnseen {
        /// Why there is no trace.
        no_trace: AbsenceReason,
    },
    /// Neither trace nor sampler watched.
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
        /// System management interrupts meanwhile; `None` when they cannot be counted.
        smis: Option<u64>,
    },
    /// The policy asks for two witnesses of each class.
    TooFewWitnesses {
        /// Classes that one alone watched.
        one_witness: Vec<EntryClass>,
        /// Classes that none watched.
        unwatched: Vec<EntryClass>,
    },
    /// System calls of the workload are entries, and were not counted.
    SyscallsNotCounted,
    /// The sampler does not count gaps as short as the limit.
    ThresholdTooLong {
        /// It counts them from so many nanoseconds on.
        threshold_ns: u64,
    },
    /// How long these interruptions took is not known.
    DurationUnknown {
        /// Their kind.
        cause: Cause,
    },
    /// Below the kernel time may go missing that the trace does not see.
    TimeHidden {
        /// What took it, or could have.
        by: HiddenTime,
    },
}

impl JudgeReason {
    /// What leads to a proof the next time, where that is known.
    #[must_use]
    pub fn advice(&self) -> Option<&'static str> {
        match self {
            JudgeReason::ProgramEndedBefore { .. } | JudgeReason::ProgramEndedEarly { .. } => {
                Some("--warmup 0s or a longer program shows more")
            }
            JudgeReason::SyscallsNotCounted => Some("--syscalls counts them"),
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
            JudgeReason::BySampler => f.write_str("by the gap sampler"),
            JudgeReason::ByTrace => {
                f.write_str("by the trace; no SMI was counted, and there is no hypervisor")
            }
            JudgeReason::Interfered { interference } => interference.fmt(f),
            JudgeReason::MoreInterference { count } => {
                write!(f, "and {count} more changes of what the trace records")
            }
            JudgeReason::WitnessesDoubtful { doubt } => doubt.fmt(f),
            JudgeReason::FiguresDoubtful { doubt } => doubt.fmt(f),
            JudgeReason::EventsLost { count } => write!(f, "the trace lost {count} events"),
            JudgeReason::ControlMissed { what } => {
                write!(f, "the positive control was not seen: {what}")
            }
            JudgeReason::ControlNotDone { why } => {
                write!(f, "the positive control could not be run: {why}")
            }
            JudgeReason::ProgramEndedBefore { how } => {
                write!(f, "the program ended before anything was watched ({how}); {advice}")
            }
            JudgeReason::ProgramEndedEarly { after_ns, asked_ns } => {
                let (after, asked) = (measured(*after_ns), limit(*asked_ns));
                write!(f, "the program ended after {after} of the {asked} asked for; {advice}")
            }
            JudgeReason::CpuIdle => {
                f.write_str("the CPU was idle the whole time, so this proves nothing")
            }
            JudgeReason::StoppedEarly => f.write_str("it was stopped early"),
            JudgeReason::NoEntryCounter => f.write_str("no counter of kernel entries is available"),
            JudgeReason::WorkloadUnseen { no_trace } => write!(
                f,
                "without the kernel trace, no witness sees system calls, page faults and \
                 exceptions of the workload: {no_trace}"
            ),
            JudgeReason::NothingWatched { no_trace } => {
                write!(f, "neither the trace nor the gap sampler watched: {no_trace}")
            }
            JudgeReason::GapsUnexplained { count, no_trace } => write!(
                f,
                "{count} gaps that no counter explains: firmware, the hypervisor or uncounted \
                 kernel work; the kernel trace could name them: {no_trace}"
            ),
            JudgeReason::GapsUnnamed { count, longest_ns, smis } => {
                write_unnamed(f, *count, *longest_ns, *smis)
            }
            JudgeReason::TooFewWitnesses { one_witness, unwatched } => {
                write_lack(f, one_witness, unwatched)
            }
            JudgeReason::SyscallsNotCounted => write!(
                f,
                "system calls of the workload are entries too, and were not counted: {advice}"
            ),
            JudgeReason::ThresholdTooLong { threshold_ns } => {
                write!(f, "the sampler counts gaps from {} on only", limit(*threshold_ns))
            }
            JudgeReason::DurationUnknown { cause } => {
                write!(f, "the duration of {cause} is unknown")
            }
            JudgeReason::TimeHidden { by } => by.fmt(f),
        }
    }
}

fn write_unnamed(
    f: &mut fmt::Formatter<'_>,
    count: u64,
    longest_ns: u64,
    smis: Option<u64>,
) -> fmt::Result {
    let smis = match smis {
        Some(0) => "no SMI was counted",
        Some(_) => "fewer SMIs were counted",
        None => "SMIs cannot be counted",
    };
    let (least, longest) = (limit(LONG_NS), measured(longest_ns));
    write!(
        f,
        "{count} gaps of {least} or more, the longest {longest}, in which the trace saw nothing; \
         {smis}"
    )
}

fn write_lack(
    f: &mut fmt::Formatter<'_>,
    one_witness: &[EntryClass],
    unwatched: &[EntryClass],
) -> fmt::Result {
    f.write_str("the policy asks for two witnesses, and ")?;
    if !one_witness.is_empty() {
        write!(f, "one witness alone watched {}", list(one_witness))?;
    }
    if !one_witness.is_empty() && !unwatched.is_empty() {
        f.write_str("; ")?;
    }
    if !unwatched.is_empty() {
        write!(f, "nothing watched {}", list(unwatched))?;
    }
    Ok(())
}

/// What takes time below the kernel, where no event of the trace shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "hidden", rename_all = "kebab-case")]
pub enum HiddenTime {
    /// The trace does not see what the hypervisor takes.
    HypervisorUnseen,
    /// Firmware took the CPU, for a time that nothing measured.
    FirmwareTook {
        /// How often.
        count: u64,
    },
    /// The trace does not see what firmware takes, and nothing counts it.
    FirmwareUnseen {
        /// Why the SMI counter did not watch.
        no_counter: AbsenceReason,
    },
    /// The hypervisor took time.
    HypervisorTook {
        /// How much, in nanoseconds.
        ns: u64,
    },
    /// Whether a hypervisor took time cannot be read.
    StealUnreadable,
}

impl HiddenTime {
    /// What would show it, where that is known.
    #[must_use]
    pub fn advice(&self) -> Option<&'static str> {
        match self {
            HiddenTime::HypervisorUnseen => Some("without a command, the gap sampler does"),
            HiddenTime::FirmwareUnseen { no_counter } => no_counter.advice(),
            _ => None,
        }
    }
}

impl fmt::Display for HiddenTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HiddenTime::HypervisorUnseen => {
                write!(
                    f,
                    "the trace does not see what the hypervisor takes; {}",
                    self.advice().unwrap_or_default()
                )
            }
            HiddenTime::FirmwareTook { count } => {
                write!(f, "firmware took the CPU {count} times, for an unknown time")
            }
            HiddenTime::FirmwareUnseen { no_counter } => write!(
                f,
                "the trace does not see what firmware takes, and SMIs cannot be counted: \
                 {no_counter}"
            ),
            HiddenTime::HypervisorTook { ns } => {
                write!(f, "the hypervisor took {}", measured(*ns))
            }
            HiddenTime::StealUnreadable => {
                f.write_str("whether a hypervisor took time cannot be read")
            }
        }
    }
}
