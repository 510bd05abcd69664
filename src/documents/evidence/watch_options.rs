//! The options of a watch, for repeating it. Pure.

use serde::{Deserialize, Serialize};

/// The options of a watch that the other fields of the evidence do not show.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WatchOptions {
    /// How long the workload ran before the watch began, in nanoseconds.
    pub warmup_ns: u64,
    /// Whether system calls were traced (`--syscalls`).
    pub syscalls: bool,
    /// Whether the kernel stack of each event was recorded (`--stacks`).
    pub stacks: bool,
    /// The time before a breach that was kept of the trace, in nanoseconds; `None` if a breach did
    /// not end the watch (`--stop-on-breach`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before_breach_ns: Option<u64>,
    /// The cgroup that the busy loop joined (`--cgroup`); `None` without the option.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<String>,
    /// Whether the watch started a program. The command line is not recorded, because it may
    /// contain secrets.
    pub started_program: bool,
}
