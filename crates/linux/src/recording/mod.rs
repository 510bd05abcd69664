//! Recorded machines: saved without private data, and opened as a root directory. With the feature
//! `simulator`, which only tests enable, they answer writes as a kernel does (`tests/simulate/`);
//! otherwise they are read-only.

#[cfg(not(feature = "simulator"))]
mod read_only;
pub mod record;
pub mod redaction;
pub(crate) mod root_dir;
#[cfg(feature = "simulator")]
#[path = "../../tests/simulate/mod.rs"]
pub(crate) mod simulate;
