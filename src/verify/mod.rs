//! Verify: watch (`Host` → [`Evidence`]) and judge ([`Evidence`] → [`Verdict`], pure).

mod document;
pub mod trace;

pub use document::*;
