//! Memory that several processes use at the same time, and the measuring loops that write to it.

pub mod latency_stats;
mod mapping;
pub mod progress_counter;
pub mod sampler;

pub(crate) use mapping::{AtomicCells, MappingAccess, MemoryMapping};
