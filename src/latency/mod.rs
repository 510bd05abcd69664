//! Latency: `Host` → [`LatencyMeasurement`]: how late threads see the events that they wait for.
//!
//! The threads are in a separate process (`measurement_process`), which may be in the shield's
//! cgroup. This process controls it, reads its figures from shared memory from a housekeeping CPU,
//! and makes the document (`measure`). The kernel's trace can show what ran during the worst
//! latencies (`trace_witness`). An instrument, one file each, determines the events.
//!
//! `src/latency/measure.rs` starts a separate process (`measurement_process.rs`). That process
//! joins the shield's cgroup, locks its memory, and runs a thread for each CPU and period. Each
//! thread runs the loop of `crates/linux/src/shared_memory/latency_stats.rs`. It takes events from
//! an `EventSource` and counts them in shared memory. The loop allocates nothing and makes no
//! system call except the wait for its next event; tests check this. An instrument, one file in
//! `src/latency/instruments/`, says what the threads wait for.
//!
//! `SampleSource` (`sample_source.rs`) hides where samples come from: the measuring process, or a
//! kernel tracer (`trace.rs`, `tracer.rs`). Tracer settings apply to the whole machine.
//! `settings.rs` saves their originals on disk first, and the next run restores what a killed run
//! left.
//!
//! `shield_monitor.rs` checks from a housekeeping CPU whether the shield is active. Threads end on
//! their own soon after the end of the measurement. A real-time thread that cannot keep up stops
//! itself, because the process that would stop it may get no CPU. Any such problem is a doubt in
//! the document, and no limit holds with a doubt.
//!
//! With `--why`, `trace_witness.rs` runs the recorder of `verify` too.
//! `src/trace/flight_recorder.rs` keeps the last seconds, and each new worst latency gets a
//! `TimeBreakdown` (`src/documents/evidence/why.rs`). `crates/linux/src/sys/clock_sync.rs`
//! converts between `CLOCK_MONOTONIC` and TSC ticks. With `-o FILE`, `autosave.rs` saves the
//! document once a second from a thread on a housekeeping CPU.
//!
//! With `--load`, each kind of load is another process (`src/load/generator.rs`). It starts before
//! the warm-up and counts its work in shared memory. This process reads the counters at the start
//! and the end of the measurement. The load runs on CPUs that are neither measured nor shielded,
//! unless the user chooses others.

mod check;
mod empty_document;
mod every_doubt;
mod histogram;
pub mod instruments;
mod isolation_check;
mod kthreads;
mod limits;
mod measure;
mod measurement_process;
mod order;
mod power;
mod refusal;
mod sample_source;
mod sampled_series;
mod settings;
mod shield_monitor;
mod thread_spec;
mod timeline;
mod trace;
mod trace_witness;
mod tracer;

pub use crate::documents::latency::*;
pub use crate::documents::load_done::LoadDone;
pub use histogram::{HistogramError, counts, cyclictest, hdr_log, percent_of, percentiles_of};
pub use instruments::{INSTRUMENTS, Instrument};
pub use measure::measure;
pub(crate) use measurement_process::MeasurementProtocol;
pub use measurement_process::serve;
pub use order::{IsolationChecking, LatencyError, MeasureProgress, MeasureRequest};
pub use power::{read_memory_kib, read_power};
pub use refusal::{HpetRefusal, InstrumentRefusal, ThreadRefusal, TracerRefusal};
pub use settings::{SettingTime, TemporarySetting, TracerRecovery, restore_tracer_settings};
pub use shield_monitor::ShieldMonitor;
pub use thread_spec::{
    PERIOD_NS, PRIORITY, PeriodError, ThreadSpec, choose_periods, ordinary_threads,
    real_time_threads,
};
pub use tracer::{LatencyTracer, MeasuredThreads, TracerJob, TracerSample, TracerUse};

#[cfg(test)]
pub(crate) use measure::tests::latency_of;
