//! Plan: `Machine` + `Wish` → [`Plan`]. Chooses CPUs by topology and collects what tunables want.
//! Pure: it reads no machine and writes nothing.

mod document;

pub use document::*;
