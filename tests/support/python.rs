//! A Python with what a test needs.

use crate::not_run::not_run;
use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A Python that can import a module of a package: `CPUSHIELD_PYTHON`, the one from `scripts/need`,
/// or the system's.
pub fn with(module: &str, package: &str) -> Option<PathBuf> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/python/bin/python");
    let given = env::var_os("CPUSHIELD_PYTHON").map(PathBuf::from);
    let has = |python: &PathBuf| {
        let answer = Command::new(python).args(["-c", &format!("import {module}")]).output();
        answer.is_ok_and(|output| output.status.success())
    };
    let found = given.into_iter().chain([own, PathBuf::from("python3")]).find(has);
    if found.is_none() {
        not_run(&format!("no Python with the package {package} (scripts/need rust tests)"));
    }
    found
}
