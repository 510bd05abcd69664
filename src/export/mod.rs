//! Export: a [`crate::verify::trace::recording::Recording`] → files that other programs open.
//! Pure: bytes go to a writer that is given; who opens it is `cli`.

pub mod perfetto;
mod protobuf;
pub mod trace_dat;
