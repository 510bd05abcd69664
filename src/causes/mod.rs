//! The catalogue of causes: every kind of thing that can run on a CPU instead of the workload's
//! user code. Pure. `tunables/` knows what removes each, `verify/` counts them.
//!
//! `Cause` is the kind of an interruption, `Culprit` the function, thread or device behind it. Both
//! are types from the trace to the last table: only their `Display` makes text of them.
//! `kinds/mod.rs` has the list, and `lookup.rs` finds the page of a word in a table.

#[macro_use]
mod named;

pub mod culprit;
mod kinds;
pub mod known;
pub mod lookup;
pub mod purpose;
pub mod topics;

pub use culprit::Culprit;
pub use kinds::Cause;
