//! Documents as JSON text.

use serde::Serialize;
use std::fmt;

/// A document that cannot be written as JSON: a defect of this program.
#[derive(Debug)]
pub struct JsonError(serde_json::Error);

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot write JSON: {}", self.0)
    }
}

impl std::error::Error for JsonError {}

/// Formats a document as it is saved.
///
/// # Errors
/// A defect of this program.
pub fn to_json(document: &impl Serialize) -> Result<String, JsonError> {
    Ok(serde_json::to_string_pretty(document).map_err(JsonError)? + "\n")
}

/// Formats a document as one line, without the line end.
///
/// # Errors
/// A defect of this program.
pub fn to_json_line(document: &impl Serialize) -> Result<String, JsonError> {
    serde_json::to_string(document).map_err(JsonError)
}
