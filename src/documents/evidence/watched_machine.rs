//! [`WatchedMachine`]: what a saved verdict says about the machine. Pure data.

use cpushield_linux::CpuSet;
use serde::{Deserialize, Serialize};

/// The watched machine. Two verdicts can be compared only when both name theirs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WatchedMachine {
    /// The kernel's release; `None` when it cannot be read.
    pub kernel: Option<String>,
    /// The kernel command line; `None` when it cannot be read.
    pub cmdline: Option<String>,
    /// The processor's name; `None` where `/proc/cpuinfo` has none.
    pub processor: Option<String>,
    /// Online CPUs.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub online: CpuSet,
}
