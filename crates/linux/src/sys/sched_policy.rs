//! [`SchedPolicy`]: a scheduling policy with its parameters. Plain data.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A scheduling policy with its parameters, as `sched_setattr(2)` takes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "policy", rename_all = "kebab-case")]
pub enum SchedPolicy {
    /// `SCHED_OTHER` with a nice value from -20 to 19.
    Other {
        /// The nice value.
        nice: i32,
    },
    /// `SCHED_BATCH` with a nice value.
    Batch {
        /// The nice value.
        nice: i32,
    },
    /// `SCHED_IDLE`.
    Idle,
    /// `SCHED_FIFO` with a priority from 1 to 99.
    Fifo {
        /// The priority.
        priority: u32,
    },
    /// `SCHED_RR` with a priority from 1 to 99.
    Rr {
        /// The priority.
        priority: u32,
    },
    /// `SCHED_DEADLINE`, all times in nanoseconds.
    Deadline {
        /// Budget per period.
        runtime_ns: u64,
        /// Relative deadline.
        deadline_ns: u64,
        /// Period.
        period_ns: u64,
    },
    /// An unknown policy (`SCHED_EXT` and later ones).
    Unknown {
        /// The kernel's number of the policy.
        number: u32,
    },
}

impl SchedPolicy {
    /// The real-time priority (1 to 99), or 0 for the other classes.
    #[must_use]
    pub fn rt_priority(self) -> u32 {
        match self {
            SchedPolicy::Fifo { priority } | SchedPolicy::Rr { priority } => priority,
            _ => 0,
        }
    }

    /// Whether a task with this policy preempts a task of this real-time priority.
    #[must_use]
    pub fn is_above(self, priority: u32) -> bool {
        matches!(self, SchedPolicy::Deadline { .. }) || self.rt_priority() > priority
    }
}

/// `SCHED_FIFO 80`; the alternate form (`{:#}`) is `FIFO 80`.
impl fmt::Display for SchedPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sched = if f.alternate() { "" } else { "SCHED_" };
        match self {
            SchedPolicy::Other { nice: 0 } => write!(f, "{sched}OTHER"),
            SchedPolicy::Other { nice } => write!(f, "{sched}OTHER nice {nice}"),
            SchedPolicy::Batch { nice } => write!(f, "{sched}BATCH nice {nice}"),
            SchedPolicy::Idle => write!(f, "{sched}IDLE"),
            SchedPolicy::Fifo { priority } => write!(f, "{sched}FIFO {priority}"),
            SchedPolicy::Rr { priority } => write!(f, "{sched}RR {priority}"),
            SchedPolicy::Deadline { runtime_ns, deadline_ns, period_ns } => {
                write!(f, "{sched}DEADLINE {runtime_ns}/{deadline_ns}/{period_ns} ns")
            }
            SchedPolicy::Unknown { number } => write!(f, "policy {number}"),
        }
    }
}
