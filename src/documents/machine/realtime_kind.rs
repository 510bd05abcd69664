//! [`RealtimeKind`]: what makes a kernel a real-time kernel. Plain data.

use serde::{Deserialize, Serialize};
use std::fmt;

/// What makes a kernel a real-time kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum RealtimeKind {
    /// The kernel's own real-time preemption.
    PreemptRt,
    /// RTAI.
    Rtai,
    /// Xenomai, or EVL (Xenomai 4).
    Xenomai,
    /// An interrupt pipeline (I-pipe, Dovetail) for RTAI or Xenomai; which of the two is unknown.
    InterruptPipeline,
}

impl fmt::Display for RealtimeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            RealtimeKind::PreemptRt => "PREEMPT_RT",
            RealtimeKind::Rtai => "RTAI",
            RealtimeKind::Xenomai => "Xenomai",
            RealtimeKind::InterruptPipeline => "interrupt pipeline for RTAI or Xenomai",
        })
    }
}
