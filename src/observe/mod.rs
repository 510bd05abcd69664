//! Observe: what watches CPUs together with the trace. Kernel counters, perf events that count, the
//! gap sampler, the SMI counter, and the circumstances of a watch (frequency, throttling, suspend).
//! Decides nothing.
//!
//! The perf events count the tracepoints of the trace, as a second witness. The gap sampler
//! (`sampler.rs`) is a third, in user space.

pub mod counters;
pub mod environment;
pub mod event_counters;
pub mod firmware;
mod machine;
mod other_tracers;
pub mod provoke;
pub mod rows;
pub mod sampler;

pub use machine::read_machine;
pub use other_tracers::other_tracers;
