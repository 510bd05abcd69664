//! The evidence of a watch and the verdict on it: what each witness saw, what it cannot see, why
//! it may be wrong, and whether the isolation holds. Pure data with its sentences.

mod absence;
mod document;
mod doubt;
mod entry_class;
mod gate;
mod ipi;
mod kernel_work;
mod ownership;
mod positive_control;
mod program_end;
mod reason;
mod second_witness;
mod unfinished;
mod verdict;
mod watch_options;
mod watched_machine;
mod why;
mod witness_kind;

pub use absence::{AbsenceReason, BlindReason, BlindSpot};
pub use document::*;
pub use doubt::{CircumstanceChange, CpuDoubt};
pub use entry_class::{EntryClass, list_classes, table_of_classes};
pub use gate::{Gate, GateFinding, GateLimit};
pub use ipi::{DeferredBy, DeferredFunction, IpiOrigin, SentIpi};
pub use kernel_work::KernelWork;
pub use ownership::{
    ActivationDelay, ActivationDelays, OwnedRow, Owner, OwnerSum, OwnershipDoubt,
    OwnershipEvidence, TickShare,
};
pub use positive_control::{
    BlindWitness, ControlAt, MissedControl, PositiveControl, ProvokeFailure, ProvokeMethod,
    ProvokedIpis, join_texts,
};
pub use program_end::{ProgramEnd, WorkloadEnd};
pub use reason::{HiddenTime, JudgeReason};
pub use second_witness::{
    CountedTime, EventEvidence, TraceInterference, WitnessDoubt, check_coverage,
};
pub use unfinished::UnfinishedWatch;
pub use verdict::*;
pub use watch_options::WatchOptions;
pub use watched_machine::WatchedMachine;
pub use why::{TimeBreakdown, TimeShare, UnknownBreakdown};
pub use witness_kind::WitnessKind;
