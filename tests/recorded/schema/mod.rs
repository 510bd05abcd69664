//! The output of `--json` matches `docs/*.schema.json`, according to a validator of JSON schemas.
//! Every schema of that folder is in the list of one test.

use crate::{program, recordings};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

mod measurements;
mod pages;
mod plans;
mod shields;
use crate::not_run::not_run;
use crate::schemas::{python, validate};

/// Makes a test of each check. The test demands that the check validates documents of exactly these
/// schemas, and that it sees other documents rejected.
macro_rules! schema_tests {
    ($($name:ident: $check:path [$($schema:literal),*];)*) => {
        $(
            #[test]
            fn $name() {
                run(&[$($schema),*], $check);
            }
        )*

        /// The schemas of all tests.
        const CHECKED: &[&str] = &[$($($schema,)*)*];
    };
}

schema_tests! {
    experiments_and_reports_match_their_schemas_and_other_documents_do_not:
        measurements::check_experiments ["experiment.schema.json", "report.schema.json"];
    verdicts_frames_and_latencies_match_their_schemas_and_other_documents_do_not:
        measurements::check_measurements
            ["latency.schema.json", "verify.schema.json", "watch.schema.json"];
    tried_shields_match_their_schema_and_other_documents_do_not:
        measurements::check_tried_shields ["try.schema.json"];
    searches_match_their_schema_and_other_documents_do_not:
        measurements::check_searches ["search.schema.json"];
    comparisons_match_their_schema_and_other_documents_do_not:
        measurements::check_comparisons ["compare.schema.json"];
    plans_match_their_schemas_and_other_documents_do_not:
        plans::check_plans ["plan.schema.json", "policy-plans.schema.json"];
    exported_plans_match_their_schema_and_other_documents_do_not:
        plans::check_exported_plans ["exported-plan.schema.json"];
    free_cpus_match_their_schema_and_other_documents_do_not:
        plans::check_free_cpus ["free-cpus.schema.json"];
    imported_policies_match_their_schema_and_other_documents_do_not:
        plans::check_imported_policies ["imported-policy.schema.json"];
    shields_match_their_schemas_and_other_documents_do_not:
        shields::check_shields
            ["apply-all.schema.json", "apply.schema.json", "status.schema.json", "undo.schema.json"];
    shields_of_every_boot_match_their_schemas_and_other_documents_do_not:
        shields::check_every_boot
            ["disable.schema.json", "enable-all.schema.json", "enable.schema.json"];
    moved_processes_match_their_schema_and_other_documents_do_not:
        shields::check_moved ["moved.schema.json"];
    dry_runs_match_their_schemas_and_other_documents_do_not:
        plans::check_dry_runs ["dry-run.schema.json", "search-dry-run.schema.json"];
    fixes_match_their_schema_and_other_documents_do_not:
        shields::check_fixes ["fix.schema.json"];
    machines_and_boot_parameters_match_their_schemas_and_other_documents_do_not:
        pages::check_machines
            ["boot-plan.schema.json", "boot-status.schema.json", "lint.schema.json", "survey.schema.json"];
    boot_files_match_their_schemas_and_other_documents_do_not:
        plans::check_boot_files
            ["boot-apply.schema.json", "boot-conclude.schema.json", "boot-undo.schema.json"];
    pages_masks_and_errors_match_their_schemas_and_other_documents_do_not:
        pages::check_pages
            ["error.schema.json", "explain-list.schema.json", "explain.schema.json", "mask.schema.json"];
}

/// Runs a check, which returns why it cannot run.
fn run(schemas: &[&str], check: fn(&mut SchemaValidator) -> Result<(), String>) {
    let Some(python) = python() else { return };
    let mut validator =
        SchemaValidator { python, valid: BTreeSet::new(), invalid: BTreeSet::new() };
    if let Err(why) = check(&mut validator) {
        return not_run(&why);
    }
    let schemas = schemas.iter().map(|schema| (*schema).to_owned()).collect();
    assert_eq!(validator.valid, schemas);
    // Controls: the validator can reject.
    assert_eq!(validator.invalid, schemas);
}

#[test]
fn every_printed_document_has_a_test() {
    let docs = std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs")).unwrap();
    let names = docs.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let printed: BTreeSet<String> = names.filter(|name| name.ends_with(".schema.json")).collect();
    let checked: BTreeSet<String> = CHECKED.iter().map(|schema| (*schema).to_owned()).collect();
    assert!(printed.len() > 20, "{printed:?}");
    let unchecked: Vec<&String> = printed.symmetric_difference(&checked).collect();
    assert_eq!(unchecked, [""; 0], "in `CHECKED` or in docs/, but not in both");
}

#[test]
fn every_schema_is_one_and_has_a_version_number() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs");
    if let Some(python) = python() {
        let mut check = Command::new(python);
        check.arg(docs.with_file_name("tests/support/validate.py")).arg("--schemas");
        assert!(check.args(CHECKED.iter().map(|name| docs.join(name))).status().unwrap().success());
    }
    for name in CHECKED {
        let text = std::fs::read_to_string(docs.join(name)).unwrap();
        let schema: Value = serde_json::from_str(&text).unwrap();
        let required = schema["required"].as_array().unwrap();
        assert!(required.contains(&Value::from("schema")), "{name} has no field `schema`");
    }
}

/// A validator that remembers the schemas of which it has seen valid and invalid documents.
struct SchemaValidator {
    python: PathBuf,
    valid: BTreeSet<String>,
    invalid: BTreeSet<String>,
}

impl SchemaValidator {
    /// The answer for each document.
    fn validate(&mut self, schema: &str, documents: &[Value]) -> Vec<String> {
        let answers = validate(&self.python, schema, documents);
        assert_eq!(answers.len(), documents.len(), "{schema}");
        for answer in &answers {
            let seen = if answer == "valid" { &mut self.valid } else { &mut self.invalid };
            seen.insert(schema.to_owned());
        }
        answers
    }

    /// Checks that every document is of the schema, and not without this field of the first.
    fn check_schema(&mut self, schema: &str, mut documents: Vec<Value>, field: &str) {
        // Control: the validator can reject.
        let mut control = documents[0].clone();
        let (parent, name) = field.rsplit_once('/').unwrap();
        let object = control.pointer_mut(parent).unwrap().as_object_mut().unwrap();
        assert!(object.remove(name).is_some(), "{schema}: {field}");
        documents.push(control);
        let mut answers = self.validate(schema, &documents);
        assert_ne!(answers.pop().unwrap(), "valid", "{schema}");
        assert_eq!(answers, vec!["valid"; answers.len()], "{schema}");
    }
}

/// What a subcommand prints where no shield is active.
fn printed(words: &[&str]) -> Value {
    printed_with_state(words, Path::new("/nonexistent/cpushield"))
}

/// What a subcommand prints, with the shields of this state directory.
fn printed_with_state(words: &[&str], state: &Path) -> Value {
    let output =
        program::command().args(words).args(["--json", "--state"]).arg(state).output().unwrap();
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&output.stderr)))
}

/// What a subcommand prints about one of the recorded machines.
fn printed_on(machine: &str, words: &[&str]) -> Value {
    let root = recordings::root(machine).display().to_string();
    printed(&[words, &["--root", &root]].concat())
}

/// What a subcommand prints about each recorded machine.
fn printed_on_each(words: &[&str]) -> Vec<Value> {
    recordings::own().iter().map(|(name, _)| printed_on(name, words)).collect()
}
