//! [`UncheckedPart`]: what `status` could not check, because the user is not root.

use serde::{Deserialize, Serialize};
use std::fmt;

/// What a user other than root could not check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum UncheckedPart {
    /// Whether settings have changed since apply: only the journal has what apply left.
    Settings,
    /// Which kernel threads were raised above real-time programs.
    RaisedThreads,
    /// The processes of other users, which this machine hides.
    Processes,
}

impl fmt::Display for UncheckedPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            UncheckedPart::Settings => "changes to settings since apply",
            UncheckedPart::RaisedThreads => "raised kernel threads",
            UncheckedPart::Processes => "processes of other users",
        })
    }
}
