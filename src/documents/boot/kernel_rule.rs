//! Which kernels get the parameters, including those that are installed later. Plain data.

use serde::{Deserialize, Serialize};

/// Which kernels get the parameters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "rule", rename_all = "kebab-case")]
pub enum KernelRule {
    /// Real-time kernels: PREEMPT_RT by configuration or image, RTAI and Xenomai also by name.
    Realtime,
    /// The first kernel in the menu; a sorted menu begins with the newest one.
    First,
    /// Kernels whose version matches.
    Matching {
        /// A shell pattern: `*-rt-*`.
        glob: String,
    },
}
