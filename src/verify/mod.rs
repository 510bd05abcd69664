//! Verify: watch (`Host` → [`Evidence`]) and judge ([`Evidence`] → [`Verdict`], pure).

pub(crate) mod aside;
mod breach;
pub(crate) mod circumstances;
mod control;
pub mod counters;
mod document;
pub(crate) mod firmware;
mod gathered;
mod judge;
mod order;
mod rows;
pub mod sampler;
pub mod trace;
mod watch;
mod why;

pub use crate::policy::Limits;
pub use document::*;
pub use judge::judge;
pub use order::{Given, Keep, Progress, UntilBreach, WatchError, WatchOrder, Worst};
pub use sampler::HIDDEN as SAMPLER;
pub use watch::watch;
pub use why::{Share, Why};
