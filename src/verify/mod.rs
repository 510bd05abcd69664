//! Verify: watch (`Host` → [`Evidence`](crate::documents::evidence::Evidence)) and judge
//! (`Evidence` → [`Verdict`](crate::documents::evidence::Verdict), pure).
//!
//! `watch.rs` arms the witnesses, provokes an interruption on purpose (the positive control) before
//! and after the span, and watches. `judge.rs` asks the tunables what removes each leak. For
//! `--fix`, `src/workflow/fix.rs` repeats both and adds the missing changes to the shield in
//! between.
//!
//! **The second witness** is a group of perf events on each watched CPU, which count the same
//! tracepoints (`src/observe/event_counters.rs`, `crates/linux/src/sys/perf.rs`). The switches of
//! a trace instance do not affect them. The number of trace records bounds each counter
//! (`src/documents/evidence/second_witness.rs`, `src/trace/record_window.rs`). Outside these
//! bounds the verdict is `unknown`. `src/verify/class_coverage.rs` says how many witnesses each
//! class of entries has on this machine. `src/trace/interference.rs` notices other processes that
//! write to the instance.

mod certain;
mod class_coverage;
mod control;
mod cyclic;
mod gates;
mod instruments;
pub(crate) mod judge;
mod observations;
mod order;
mod reasons;
mod watch;

pub use judge::{FindRemedy, judge};
pub use order::{
    COUNTED_GAP_NS, GivenWorkload, RawTraceUse, UntilBreach, WatchError, WatchOrder, WatchProgress,
    WorstSoFar,
};
pub use reasons::count_entries;
pub use watch::watch;
