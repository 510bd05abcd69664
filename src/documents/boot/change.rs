//! The changes of the boot parameters since the boot files had their original text. Plain data.

use serde::{Deserialize, Serialize};

/// One change of the words in the boot files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ParameterChange {
    /// When, in seconds since 1970.
    pub at_s: u64,
    /// The words before; empty for the first change.
    pub before: Vec<String>,
    /// The words after.
    pub after: Vec<String>,
    /// The kernels whose entries were changed.
    pub kernels: Vec<String>,
    /// The files that were changed.
    pub files: Vec<String>,
}
