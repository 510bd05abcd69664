//! Latency: `Host` → [`Latency`]: how late threads on some CPUs are when what they wait for has
//! come.
//!
//! The threads are in a process of their own (`crew`), which may be in the shield's cgroup; this
//! process tells it what to do, reads its figures from shared memory from a housekeeping CPU, and
//! makes the document (`measure`). Beside it the kernel's trace may tell what ran while the worst
//! waited (`witness`). What is waited for is an instrument, one file each.

pub mod autosave;
mod check;
mod document;
mod doubt;
mod empty_document;
mod histogram;
pub mod instruments;
mod kthreads;
mod measure;
mod measurement_process;
mod order;
mod resume;
mod sample_source;
mod settings;
mod shield_monitor;
mod timeline;
mod trace;
mod trace_witness;
mod tracer;

pub use crate::load::LoadDone;
pub use document::*;
pub use doubt::{GuardBreach, LatencyDoubt, ShieldBreach, ThreadDoubt};
pub use histogram::{counts, cyclictest, hdr_log, percentiles_of};
pub use instruments::{INSTRUMENTS, Instrument};
pub use measure::measure;
#[cfg(test)]
pub(crate) use measure::tests::latency_of;
pub use measurement_process::{HIDDEN, serve};
pub use order::{LatencyError, MeasureProgress, MeasureRequest, ThreadSpec};
pub use resume::{ResumeMismatch, joined, misfit};
pub use settings::{TemporarySetting as TracerSetting, recovered};
pub use shield_monitor::{GuardState, ShieldMonitor};
pub use tracer::{LatencyTracer, MeasuredThreads, TracerJob, TracerSample, TracerUse};
