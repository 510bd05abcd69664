//! The validator of JSON schemas: a Python with `jsonschema`.

use crate::not_run::not_run;
use serde_json::Value;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A Python with a validator.
pub fn python() -> Option<PathBuf> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/python/bin/python");
    let has = |python: &PathBuf| {
        let answer = Command::new(python).args(["-c", "import jsonschema"]).output();
        answer.is_ok_and(|output| output.status.success())
    };
    let found = [own, PathBuf::from("python3")].into_iter().find(has);
    if found.is_none() {
        not_run("no Python with the package jsonschema (scripts/need rust tests)");
    }
    found
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
