//! Recorded data of other machines, which is not part of the project.

use super::not_run::not_run;
use std::path::{Path, PathBuf};

/// The path of some data: below `CPUSHIELD_DATA`, or else below `shared/data` next to the checkout.
/// Without the data, the check that needs it is reported as not run.
pub fn shared_data(path: &str) -> Option<PathBuf> {
    let given = std::env::var_os("CPUSHIELD_DATA").map(PathBuf::from);
    // The crates of the project are at different depths.
    let above = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    let next_to_it = above.map(|dir| dir.join("shared/data")).find(|dir| dir.is_dir());
    let found = given.or(next_to_it).unwrap_or_else(|| PathBuf::from("shared/data")).join(path);
    if !found.exists() {
        not_run(&format!("no {path} of other machines: {} is missing", found.display()));
        return None;
    }
    Some(found)
}
