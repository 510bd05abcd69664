//! Latency: `Host` → [`Latency`]: how late threads on some CPUs are when what they wait for has
//! come.
//!
//! The threads are in a process of their own (`crew`), which may be in the shield's cgroup; this
//! process tells it what to do, reads its figures from shared memory from a housekeeping CPU, and
//! makes the document (`measure`). Beside it the kernel's trace may tell what ran while the worst
//! waited (`witness`). What is waited for is an instrument, one file each.

mod blank;
mod check;
mod crew;
mod document;
mod doubt;
mod feed;
mod guard;
mod histogram;
pub mod instruments;
pub mod keep;
mod kthreads;
mod measure;
mod order;
mod parts;
mod settings;
mod timeline;
mod trace;
mod tracer;
mod witness;

pub use crate::load::LoadDone;
pub use crew::{HIDDEN, serve};
pub use document::*;
pub use doubt::{GuardBreach, LatencyDoubt, ShieldBreach, ThreadDoubt};
pub use guard::{GuardState, ShieldMonitor};
pub use histogram::{counts, cyclictest, hdr_log, percentiles_of};
pub use instruments::{INSTRUMENTS, Instrument};
pub use measure::measure;
#[cfg(test)]
pub(crate) use measure::tests::latency_of;
pub use order::{LatencyError, MeasureProgress, MeasureRequest, ThreadSpec};
pub use parts::{ResumeMismatch, joined, misfit};
pub use settings::{TemporarySetting as TracerSetting, recovered};
pub use tracer::{LatencyTracer, MeasuredThreads, TracerJob, TracerSample, TracerUse};
