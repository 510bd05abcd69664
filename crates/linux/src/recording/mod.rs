//! Recorded machines: saved without private data, and opened as a root directory. They are
//! read-only, unless a test gives them a kernel.

pub mod record;
pub mod redaction;
pub(crate) mod root_dir;
