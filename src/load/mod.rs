//! Load: what a machine is given to do on purpose. `gentle` is the modest workload of `try`; the
//! kinds, one file each, are those of `latency --load`: as much as their CPUs can do, and counted,
//! so that what a shield costs the rest of the machine can be told.
//!
//! Every kind is a process of its own (`gang`), which ends with its maker. Its counters are in
//! shared memory, so that nothing is asked of it while it works.

mod document;
mod doubt;
mod generator;
mod gentle_load;
pub mod kinds;
mod order;
mod work;

pub use document::LoadDone;
pub use doubt::LoadDoubt;
pub use generator::{HIDDEN as WORKER, LoadGenerator, rate, serve as serve_kind};
pub use gentle_load::{GentleLoad, HIDDEN, serve, start};
pub use kinds::{KINDS, LoadKind};
pub use order::{LoadError, LoadRequest, WantedLoad, wanted};
