//! Latency: `Host` → [`LatencyMeasurement`]: how late threads see the events that they wait for.
//!
//! The threads are in a separate process (`measurement_process`), which may be in the shield's
//! cgroup. This process controls it, reads its figures from shared memory from a housekeeping CPU,
//! and makes the document (`measure`). The kernel's trace can show what ran during the worst
//! latencies (`trace_witness`). An instrument, one file each, determines the events.

mod check;
mod document;
mod doubt;
mod duration;
mod empty_document;
mod every_doubt;
mod histogram;
pub mod instruments;
mod isolation_check;
mod kthreads;
mod limits;
mod measure;
mod measurement_process;
mod note;
mod order;
mod power;
mod resume;
mod sample_source;
mod sampled_series;
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
pub use isolation_check::{IsolationAnswer, IsolationCheck, IsolationWitness};
pub use measure::measure;
#[cfg(test)]
pub(crate) use measure::tests::latency_of;
pub(crate) use measurement_process::MeasurementProtocol;
pub use measurement_process::serve;
pub use note::{FrequentInterrupt, LatencyNote, LostPart, MeasurementPause};
pub use order::{IsolationChecking, LatencyError, MeasureProgress, MeasureRequest, ThreadSpec};
pub use power::{MeasuredPower, memory_size, read_memory_kib};
pub use resume::{ResumeMismatch, find_mismatch, join_parts};
pub use settings::{
    SettingTime, TemporarySetting as TracerSetting, TracerRecovery, restore_tracer_settings,
};
pub use shield_monitor::{GuardState, ShieldMonitor};
pub use tracer::{LatencyTracer, MeasuredThreads, TracerJob, TracerSample, TracerUse};
