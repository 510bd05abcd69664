//! Recorded machines: saved without private data, and opened as a root directory. With the feature
//! `simulator` they answer writes as a kernel does; otherwise they are read-only.

#[cfg(not(feature = "simulator"))]
mod read_only;
pub mod record;
pub mod redaction;
pub(crate) mod root_dir;
#[cfg(feature = "simulator")]
pub(crate) mod simulate;
