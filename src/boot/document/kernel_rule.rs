//! Which kernels get the parameters, including those that are installed later. Plain data.

use serde::{Deserialize, Serialize};

/// Which kernels get the parameters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "rule", rename_all = "kebab-case")]
pub enum KernelRule {
    /// PREEMPT_RT kernels, judged by their configuration and not by their name.
    Realtime,
    /// The first kernel in the menu; a sorted menu begins with the newest one.
    First,
    /// Kernels whose version matches.
    Matching {
        /// A shell pattern: `*-rt-*`.
        glob: String,
    },
}
