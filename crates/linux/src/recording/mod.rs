//! Recorded machines: saved without private data, opened as a root directory, and simulated when
//! they are written to.

pub mod record;
pub mod redaction;
pub(crate) mod root_dir;
mod simulate;
