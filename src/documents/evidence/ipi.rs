//! An interrupt that one CPU sent to another: its kind, its origin, and its timer or work item.
//! Pure.

use crate::causes::culprit::write_task;
use crate::causes::purpose::{IDLE_CPU, INTERRUPT_ON_CPU, RESCHEDULE, WATCHER};
use cpushield_sentence::Sentence;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The kind of an interrupt that one CPU sent to another.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Sentence)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "ipi", rename_all = "kebab-case")]
pub enum SentIpi {
    /// {function}.
    Call {
        /// Its name.
        function: String,
    },
    /// {RESCHEDULE}.
    Reschedule,
}

/// The origin of an interrupt that one CPU sent to another.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Sentence)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "from", rename_all = "kebab-case")]
pub enum IpiOrigin {
    /// A task.
    #[print(write_task(f, *pid, comm))]
    Task {
        /// Its process number.
        pid: i32,
        /// Its command name; empty when the task ended before it could be looked up.
        comm: String,
    },
    /// {WATCHER}.
    Watcher,
    /// {IDLE_CPU}.
    IdleCpu,
    /// {INTERRUPT_ON_CPU}{cpu}.
    ///
    /// The task that it interrupted is unrelated.
    Interrupt {
        /// The CPU that handled the interrupt.
        cpu: usize,
    },
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
