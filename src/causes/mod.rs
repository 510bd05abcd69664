//! The catalogue of causes: every kind of thing that can run on a CPU instead of the workload's
//! user code. Pure. `tunables/` knows what removes each, `verify/` counts them.

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
