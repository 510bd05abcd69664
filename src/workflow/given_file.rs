//! Reads a file that the user named.

use crate::failure::{Failure, FailureKind};
use cpushield_linux::read_document;
use std::path::Path;

/// Reads a file that the user named.
///
/// # Errors
/// The file does not exist, is not text, or cannot be read.
pub fn read_file(file: &Path) -> Result<String, Failure> {
    read_document(file).map_err(|error| {
        let denied = error.is_forbidden();
        let failure = Failure::from(error);
        if denied { failure } else { Failure { kind: FailureKind::Usage, ..failure } }
    })
}
