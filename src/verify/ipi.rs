//! An interrupt that one CPU sent to another: what, from where, and for which timer or work item.
//! Pure.

use crate::causes::culprit::write_task;
use serde::{Deserialize, Serialize};
use std::fmt;

/// What was sent.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "ipi", rename_all = "kebab-case")]
pub enum SentIpi {
    /// A request to call a function.
    Call {
        /// Its name.
        function: String,
    },
    /// A request to call the scheduler.
    Reschedule,
}

impl fmt::Display for SentIpi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SentIpi::Reschedule => "reschedule",
            SentIpi::Call { function } => function,
        })
    }
}

/// From where it was sent.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "from", rename_all = "kebab-case")]
pub enum IpiOrigin {
    /// A task.
    Task {
        /// Its number.
        pid: i32,
        /// Its command name; empty when it had ended before it could be looked up.
        comm: String,
    },
    /// A CPU that was idle.
    IdleCpu,
    /// An interrupt: the task that it interrupted had nothing to do with it.
    Interrupt {
        /// On this CPU.
        cpu: usize,
    },
}

impl fmt::Display for IpiOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            IpiOrigin::Task { pid, comm } => write_task(f, *pid, comm),
            IpiOrigin::IdleCpu => f.write_str("an idle CPU"),
            IpiOrigin::Interrupt { cpu } => write!(f, "an interrupt on CPU {cpu}"),
        }
    }
}

/// What calls functions that other code has left behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum DeferredBy {
    /// A timer of the wheel.
    Timer,
    /// A high-resolution timer.
    Hrtimer,
    /// A work item.
    Work,
}

/// A function that a timer or a work item called.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DeferredFunction {
    /// What called it.
    pub by: DeferredBy,
    /// Its name.
    pub function: String,
}

impl fmt::Display for DeferredFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let by = match self.by {
            DeferredBy::Timer => "timer",
            DeferredBy::Hrtimer => "hrtimer",
            DeferredBy::Work => "work",
        };
        write!(f, "{by} {}", self.function)
    }
}
