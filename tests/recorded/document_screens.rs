//! What `verify`, `latency`, `compare`, `experiment` and `try` print: the screens of their
//! documents, as snapshots in the folder of this name. `SNAPSHOTS=overwrite cargo test --test
//! recorded document_screens` renews them. `minimize/` has the screen of a search.

use crate::screen;
use cpushield::compare::{GivenGroup, GivenRun, MeasuredDocument, compare};
use cpushield::documents::evidence::{Evidence, TraceInterference, VerifyDocument};
use cpushield::documents::experiment::Experiment;
use cpushield::documents::latency::LatencyMeasurement;
use cpushield::documents::plan::Plan;
use cpushield::documents::try_report::{SCHEMA, TryReport};
use cpushield::policy::VerifyLimits;
use cpushield::report::blocks::ReportBlock;
use cpushield::report::compare::blocks as compare_screen;
use cpushield::report::{experiment, latency, verdict};
use cpushield::tunables::RemedyAnswer;
use cpushield::verify::judge;
use serde::de::DeserializeOwned;
use std::fs;
use std::path::Path;

/// A document of the documentation, recorded in a guest.
fn example<T: DeserializeOwned>(file: &str) -> T {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/example").join(file);
    let text = fs::read_to_string(&file).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn watched(name: &str) -> VerifyDocument {
    example(&format!("verify-{name}.json"))
}

fn measured(name: &str) -> LatencyMeasurement {
    example(&format!("latency-{name}.json"))
}

fn judged(evidence: Evidence, limits: &VerifyLimits) -> VerifyDocument {
    let verdict = judge(&evidence, limits, &|_, _| RemedyAnswer::Unknown);
    VerifyDocument::new(evidence, verdict)
}

fn check(name: &str, blocks: &[ReportBlock]) {
    screen::check(&screen::text(blocks), &format!("tests/recorded/document_screens/{name}.txt"));
}

fn check_verdict(name: &str, VerifyDocument { evidence, verdict, .. }: &VerifyDocument) {
    check(name, &verdict::blocks(evidence, verdict));
}

#[test]
fn every_interruption_of_an_unshielded_cpu_is_named_with_its_culprit_and_remedy() {
    check_verdict("leaks", &watched("before"));
}

#[test]
fn a_shield_that_holds_is_shown_with_what_proves_it() {
    check_verdict("holds", &watched("shielded"));
}

#[test]
fn limits_are_shown_with_the_figures_that_break_or_keep_them() {
    let limits =
        VerifyLimits { max_entries: Some(5), max_gap_ns: Some(20_000), ..VerifyLimits::default() };
    check_verdict("limits", &judged(watched("shielded").evidence, &limits));
}

#[test]
fn a_trace_that_another_process_stopped_proves_nothing_and_both_figures_are_shown() {
    let mut evidence = watched("shielded").evidence;
    let by = Some("trace-cmd (812)".to_owned());
    evidence.interference = vec![TraceInterference::Written { file: "tracing_on".to_owned(), by }];
    let cpu = &mut evidence.cpus[0];
    let faults = cpu.events.iter_mut().find(|it| it.event.ends_with("page_fault_user")).unwrap();
    faults.counted = Some(1_382);
    cpu.witness_doubts.extend(faults.disagreement());
    check_verdict("unknown", &judged(evidence, &VerifyLimits::default()));
}

#[test]
fn the_worst_latency_is_shown_with_what_ran_and_under_which_load_and_conditions() {
    check("latency", &latency::blocks(&measured("before")));
}

#[test]
fn two_single_measurements_are_compared_without_a_claim_that_they_differ() {
    let group = |name: &str| {
        let measured = MeasuredDocument::Latency(Box::new(measured(name)));
        let runs = vec![GivenRun { name: format!("{name}.json"), measured }];
        GivenGroup { name: name.to_owned(), runs }
    };
    let comparison = compare(&[group("before"), group("shielded")]).unwrap();
    check("compare", &compare_screen(&comparison));
}

#[test]
fn an_experiment_shows_each_row_the_best_one_and_what_each_option_changes() {
    check("experiment", &experiment::blocks(&example::<Experiment>("experiment.json")));
}

#[test]
fn a_shield_that_was_tried_is_shown_with_both_watches_and_that_everything_was_restored() {
    let (before, shielded) = (watched("before"), watched("shielded"));
    let plan: Plan = example("shield.plan");
    let mut changed: Vec<(String, usize)> = Vec::new();
    for step in plan.steps.iter().filter(|step| step.is_runtime()) {
        match changed.iter_mut().find(|(name, _)| *name == step.tunable) {
            Some((_, count)) => *count += 1,
            None => changed.push((step.tunable.clone(), 1)),
        }
    }
    let restored = changed.iter().map(|(_, count)| count).sum();
    let report = TryReport {
        schema: SCHEMA,
        plan,
        changed,
        refused: 0,
        before: before.evidence,
        shielded: shielded.evidence,
        verdict: shielded.verdict,
        price: None,
        restored,
        left: Vec::new(),
        differences: Vec::new(),
    };
    check("try", &report.blocks());
}
