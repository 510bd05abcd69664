//! Load: work that keeps the machine busy on purpose. `gentle_load` is the modest workload of
//! `try`. The kinds, one file each, are those of `latency --load`. They work as fast as their CPUs
//! allow, and their work is counted. So the results show what a shield costs the rest of the
//! machine.
//!
//! Each kind runs in a separate process (`generator`), which ends with its parent. Its counters are
//! in shared memory, so reading them does not disturb it.
//!
//! The result is `LoadDone`. A load counts only the work that it did, and a load that cannot run
//! says why. See `LoadKind` in `kinds/mod.rs`.

mod generator;
mod gentle_load;
pub mod kinds;
mod order;
mod work;

pub use crate::documents::load_done::{LoadDone, SkippedLoad, requested_words};
pub use crate::documents::load_doubt::LoadDoubt;
pub use crate::documents::load_refusal::LoadRefusal;
pub(crate) use generator::LoadProtocol;
pub use generator::{CountReading, LoadGenerator, compute_rate, serve as serve_kind};
pub(crate) use gentle_load::GentleLoadProtocol;
pub use gentle_load::{GentleLoad, serve as serve_gentle, start};
pub use kinds::{KINDS, LoadKind};
pub use order::{COMMAND, LoadError, LoadRequest, NONE, WantedLoad, parse_loads};
