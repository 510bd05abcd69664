//! [`WitnessKind`]: the sources of evidence. Plain data.

use serde::{Deserialize, Serialize};

/// A source of evidence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum WitnessKind {
    /// The kernel's trace of the CPU.
    Trace,
    /// `/proc/interrupts`, `/proc/softirqs`, `/proc/stat`, schedstat.
    Counters,
    /// Perf events that count the events of the trace.
    EventCounters,
    /// The gap sampler in user space.
    Sampler,
    /// The processor's counter of system management interrupts.
    Firmware,
}
