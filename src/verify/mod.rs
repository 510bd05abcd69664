//! Verify: watch (`Host` → [`Evidence`]) and judge ([`Evidence`] → [`Verdict`], pure).

mod document;

pub use document::*;
