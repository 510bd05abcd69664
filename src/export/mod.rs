//! Export: a [`crate::trace::recording::TraceRecording`] → files for other programs. Pure:
//! it writes to a given writer, which `workflow` opens.
//!
//! `trace.dat` has the pages exactly as the kernel wrote them (`trace_dat.rs`). The Perfetto
//! timeline has the interruptions that `trace` decoded (`perfetto.rs`).

pub mod perfetto;
mod protobuf;
pub mod trace_dat;
