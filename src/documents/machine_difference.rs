//! [`MachineDifference`]: what differs between two surveys of one machine. Plain data.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A fact that changed between two surveys.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MachineDifference {
    /// The file, interrupt, task or cgroup.
    pub what: String,
    /// Its value before; `absent` when it did not exist.
    pub before: String,
    /// Its value now; `absent` when it does not exist.
    pub after: String,
}

impl fmt::Display for MachineDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: was {}, is {}", self.what, self.before, self.after)
    }
}
