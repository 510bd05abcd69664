//! What `apply`, `status` and `undo` print as JSON matches `docs/*.schema.json`.

use super::bench::{Bench, Tree};
use super::trees::{machines, machines_with_offline_sibling};
use crate::program;
use crate::schemas::{python, validate};
use cpushield::plan::Plan;
use serde_json::Value;
use std::path::Path;

/// What a subcommand prints about this machine.
fn printed(bench: &Bench, subcommand: &str) -> Value {
    let mut command = program::command();
    command.arg("--root").arg(bench.scratch.0.join("root"));
    command.arg("--state").arg(bench.scratch.0.join("state"));
    let output = command.args([subcommand, "--json"]).output().unwrap();
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&output.stderr)))
}

/// The documents of one shield: of `apply`, of `status`, and of `undo`.
fn documents((_, tree, plan): (&str, Tree, Plan)) -> [Value; 3] {
    let bench = Bench::of(&tree).into_files();
    let applied = bench.apply(&bench.host(), &plan).unwrap();
    let status = printed(&bench, "status");
    [serde_json::to_value(applied).unwrap(), status, printed(&bench, "undo")]
}

fn check(python: &Path, schema: &str, documents: Vec<Value>, part: &str, field: &str) {
    assert_eq!(validate(python, schema, &documents), vec!["valid"; documents.len()], "{schema}");
    // Control: the validator can reject.
    let mut document = documents[0].clone();
    let object = document.pointer_mut(part).and_then(Value::as_object_mut);
    assert!(object.unwrap().remove(field).is_some(), "{schema}: {part} {field}");
    assert_ne!(validate(python, schema, &[document]), ["valid"], "{schema}");
}

#[test]
fn documents_of_a_shield_match_their_schemas_and_other_documents_do_not() {
    let Some(python) = python() else { return };
    let (mut applied, mut status, mut undone) = (Vec::new(), Vec::new(), Vec::new());
    for machine in machines().into_iter().chain(machines_with_offline_sibling()) {
        let [one, two, three] = documents(machine);
        applied.push(one);
        status.push(two);
        undone.push(three);
    }
    assert!(status.iter().all(|status| !status["shields"][0].is_null()), "{status:?}");
    check(&python, "apply.schema.json", applied, "/steps/0", "tunable");
    check(&python, "status.schema.json", status, "/shields/0/state", "sentence");
    check(&python, "undo.schema.json", undone, "", "schema");
}
