//! Export: a [`crate::trace::recording::TraceRecording`] → files for other programs. Pure:
//! it writes to a given writer, which `workflow` opens.

pub mod perfetto;
mod protobuf;
pub mod trace_dat;
