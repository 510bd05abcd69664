//! The validator of JSON schemas: a Python with `jsonschema`.

use crate::python;
use serde_json::Value;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A Python with a validator.
pub fn python() -> Option<PathBuf> {
    python::with("jsonschema", "jsonschema")
}

/// The validator's answer for each document.
pub fn validate(python: &Path, schema: &str, documents: &[Value]) -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut child = Command::new(python)
        .arg(root.join("tests/support/validate.py"))
        .arg(root.join("docs").join(schema))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    documents.iter().for_each(|document| writeln!(input, "{document}").unwrap());
    drop(input);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}
