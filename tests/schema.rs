//! What is printed with `--json` has the form that `docs/*.schema.json` describes, as a validator
//! of JSON schemas sees it.

use cpushield_linux::sched;
use serde_json::Value;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn not_run(why: &str) {
    let _ = writeln!(std::io::stderr(), "NOT RUN: {why}");
}

/// A Python that has a validator.
fn python() -> Option<PathBuf> {
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

/// What the validator says of each document.
fn validate(python: &Path, schema: &str, documents: &[Value]) -> Vec<String> {
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

/// What a subcommand prints.
fn printed(words: &[&str]) -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_cpushield"))
        .args(words)
        .args(["--json", "--state", "/nonexistent/cpushield"])
        .output()
        .unwrap();
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&output.stderr)))
}

#[test]
fn verdicts_frames_and_latencies_have_the_form_that_is_described_and_others_do_not() {
    let Some(python) = python() else { return };
    let allowed = sched::affinity(0).unwrap();
    if allowed.len() < 2 {
        return not_run("one CPU is too few to watch one from another");
    }
    let cpu = allowed.last().unwrap().to_string();
    let span = ["verify", "--cpus", &cpu, "--for", "300ms", "--settle", "100ms"];
    let limits = [&span[..], &["--max-entries", "0", "--max-gap", "5us", "--syscalls"]].concat();
    let busy = [&span[..], &["--busy"]].concat();
    let mut documents = vec![printed(&limits), printed(&busy)];
    assert_eq!(documents[0]["verdict"]["gates"].as_array().map(Vec::len), Some(2));
    assert_eq!(documents[1]["evidence"]["workload"], "given");
    assert_eq!(validate(&python, "verify.schema.json", &documents), ["valid", "valid"]);
    // The judge can say no.
    documents[0]["evidence"]["surprise"] = Value::from(1);
    documents[1]["verdict"]["cpus"][0]["state"] = Value::from("perfect");
    let answers = validate(&python, "verify.schema.json", &documents);
    assert!(answers[0].contains("'surprise' was unexpected"), "{answers:?}");
    assert!(answers[1].contains("$.verdict.cpus[0].state"), "{answers:?}");

    let mut frame = printed(&["watch", "--once", "--interval", "100ms", "--cpus", &cpu]);
    assert_eq!(validate(&python, "watch.schema.json", std::slice::from_ref(&frame)), ["valid"]);
    frame["cpus"][0].as_object_mut().unwrap().remove("entries_per_s");
    assert_ne!(validate(&python, "watch.schema.json", &[frame]), ["valid"]);

    let mut latency = printed(&[
        "latency", "timer", "--cpus", &cpu, "--for", "300ms", "--other", "--over", "20us", "--max",
        "1min",
    ]);
    assert_eq!(validate(&python, "latency.schema.json", std::slice::from_ref(&latency)), ["valid"]);
    latency["series"][0].as_object_mut().unwrap().remove("missed");
    assert_ne!(validate(&python, "latency.schema.json", &[latency]), ["valid"]);
}
