//! [`DriftedValue`] and [`DroppedLine`]: what is no longer as apply left it. Plain data.

use serde::Serialize;
use std::fmt;

/// A value that changed since apply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DriftedValue {
    /// The value that apply left.
    pub left: String,
    /// The current value; `None` when it is gone.
    pub now: Option<String>,
}

/// An unreadable line after `begin`, which is ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DroppedLine {
    /// The line, from 1.
    pub line: usize,
    /// Its length in bytes.
    pub bytes: usize,
}

impl fmt::Display for DroppedLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DroppedLine { line, bytes } = self;
        write!(f, "line {line} of the journal ({bytes} bytes) is torn and was ignored")
    }
}
