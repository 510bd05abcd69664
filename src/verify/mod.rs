//! Verify: watch (`Host` → [`Evidence`]) and judge ([`Evidence`] → [`Verdict`], pure).

pub(crate) mod aside;
mod breach;
pub(crate) mod circumstances;
mod class_coverage;
mod control;
pub mod counters;
mod document;
mod entry_class;
mod event_counters;
pub(crate) mod firmware;
mod gathered;
mod ipi;
pub(crate) mod judge;
mod order;
mod other_tracers;
mod rows;
pub mod sampler;
mod second_witness;
pub mod trace;
mod watch;
mod why;

pub use crate::policy::Limits;
pub use class_coverage::list as list_classes;
pub use document::*;
pub use entry_class::{EntryClass, table as table_of_classes};
pub use ipi::{DeferredBy, DeferredFunction, IpiOrigin, SentIpi};
pub use judge::judge;
pub use order::{Given, Keep, Progress, UntilBreach, WatchError, WatchOrder, Worst};
pub use other_tracers::other_tracers;
pub use sampler::HIDDEN as SAMPLER;
pub use second_witness::{EventEvidence, Interference, WitnessDoubt};
pub use watch::watch;
pub use why::{Share, Why};
