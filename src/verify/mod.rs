//! Verify: watch (`Host` → [`Evidence`](crate::documents::evidence::Evidence)) and judge
//! (`Evidence` → [`Verdict`](crate::documents::evidence::Verdict), pure).

mod class_coverage;
mod control;
mod instruments;
pub(crate) mod judge;
mod observations;
mod order;
mod watch;

pub use judge::judge;
pub use order::{
    GivenWorkload, RawTraceUse, UntilBreach, WatchError, WatchOrder, WatchProgress, WorstSoFar,
};
pub use watch::watch;
