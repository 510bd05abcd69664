//! Reads a file that the user named.

use crate::failure::{Failure, FailureKind};
use cpushield_linux::UserFiles;
use std::path::Path;

/// Reads a file that the user named.
///
/// # Errors
/// The name is empty; the file does not exist, is not text, or cannot be read.
pub fn read_file(files: &UserFiles, file: &Path) -> Result<String, Failure> {
    if file.as_os_str().is_empty() {
        return Err(Failure::usage("the name of a file is empty"));
    }
    files.read(file).map_err(|error| {
        let denied = error.is_forbidden();
        let failure = Failure::from(error);
        if denied { failure } else { Failure { kind: FailureKind::Usage, ..failure } }
    })
}
