//! Verify: watch (`Host` → [`Evidence`]) and judge ([`Evidence`] → [`Verdict`], pure).

mod control;
pub mod counters;
mod document;
mod firmware;
mod gathered;
mod judge;
mod rows;
pub mod sampler;
pub mod trace;
mod watch;

pub use crate::policy::Limits;
pub use document::*;
pub use judge::judge;
pub use sampler::HIDDEN as SAMPLER;
pub use watch::{Given, Keep, Progress, WatchError, WatchOrder, watch};
