//! An interrupt that one CPU sent to another: its kind, its origin, and its timer or work item.
//! Pure.

use crate::causes::culprit::write_task;
use crate::causes::purpose::{IDLE_CPU, INTERRUPT_ON_CPU, RESCHEDULE, WATCHER};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The kind of an interrupt that one CPU sent to another.
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
            SentIpi::Reschedule => RESCHEDULE,
            SentIpi::Call { function } => function,
        })
    }
}

/// The origin of an interrupt that one CPU sent to another.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "from", rename_all = "kebab-case")]
pub enum IpiOrigin {
    /// A task.
    Task {
        /// Its process number.
        pid: i32,
        /// Its command name; empty when the task ended before it could be looked up.
        comm: String,
    },
    /// The watch itself: a thread of cpushield.
    Watcher,
    /// An idle CPU.
    IdleCpu,
    /// An interrupt handler. The task that it interrupted is unrelated.
    Interrupt {
        /// The CPU that handled the interrupt.
        cpu: usize,
    },
}

impl fmt::Display for IpiOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            IpiOrigin::Task { pid, comm } => write_task(f, *pid, comm),
            IpiOrigin::Watcher => f.write_str(WATCHER),
            IpiOrigin::IdleCpu => f.write_str(IDLE_CPU),
            IpiOrigin::Interrupt { cpu } => write!(f, "{INTERRUPT_ON_CPU}{cpu}"),
        }
    }
}

/// What called a deferred function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum DeferredBy {
    /// A timer of the timer wheel.
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
