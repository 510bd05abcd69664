//! Verify: watch (`Host` → [`Evidence`]) and judge ([`Evidence`] → [`Verdict`], pure).

mod absence;
mod breach;
mod class_coverage;
mod control;
pub mod counters;
mod document;
mod doubt;
mod entry_class;
pub(crate) mod environment;
mod event_counters;
pub(crate) mod firmware;
mod instruments;
mod ipi;
pub(crate) mod judge;
mod observations;
mod order;
mod other_tracers;
mod positive_control;
mod reason;
mod rows;
pub mod sampler;
mod second_witness;
pub mod trace;
mod verdict;
mod watch;
mod why;

pub use crate::policy::VerifyLimits;
pub use absence::{AbsenceReason, BlindReason, BlindSpot};
pub use class_coverage::list_classes;
pub use document::*;
pub use doubt::{CircumstanceChange, CpuDoubt};
pub use entry_class::{EntryClass, table_of_classes};
pub use ipi::{DeferredBy, DeferredFunction, IpiOrigin, SentIpi};
pub use judge::judge;
pub use order::{
    GivenWorkload, RawTraceUse, UntilBreach, WatchError, WatchOrder, WatchProgress, WorstSoFar,
};
pub use other_tracers::other_tracers;
pub use positive_control::{
    BlindWitness, ControlAt, MissedControl, PositiveControl, ProvokeFailure, ProvokeMethod,
    ProvokedIpis, join_texts,
};
pub use reason::{HiddenTime, JudgeReason};
pub use second_witness::{EventEvidence, TraceInterference, WitnessDoubt};
pub use verdict::*;
pub use watch::watch;
pub use why::{TimeBreakdown, TimeShare, UnknownBreakdown};
