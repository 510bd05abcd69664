//! What `verify` prints: the screens of its documents, as snapshots in `tests/verdict_screens/`.
//! `SNAPSHOTS=overwrite cargo test --test verdict_screens` renews them.

use cpushield::documents::evidence::{Evidence, TraceInterference, VerifyDocument};
use cpushield::policy::VerifyLimits;
use cpushield::report::blocks::{terminal_blocks, unpainted};
use cpushield::report::verdict;
use cpushield::tunables::RemedyAnswer;
use cpushield::verify::judge;
use snapbox::{Assert, Data};
use std::fs;
use std::path::Path;

/// A terminal that shows every column.
const COLUMNS: usize = 100;

/// A document of the documentation, recorded in a guest.
fn example(name: &str) -> VerifyDocument {
    let file = format!("docs/example/verify-{name}.json");
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn judged(evidence: Evidence, limits: &VerifyLimits) -> VerifyDocument {
    let verdict = judge(&evidence, limits, &|_| RemedyAnswer::Unknown);
    VerifyDocument::new(evidence, verdict)
}

fn check(name: &str, VerifyDocument { evidence, verdict, .. }: &VerifyDocument) {
    let screen = terminal_blocks(&verdict::blocks(evidence, verdict), COLUMNS, &unpainted);
    let file =
        Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/verdict_screens/{name}.txt"));
    let expected = Data::read_from(&file, None).raw();
    Assert::new().action_env("SNAPSHOTS").eq(screen, expected);
}

#[test]
fn every_interruption_of_an_unshielded_cpu_is_named_with_its_culprit_and_remedy() {
    check("leaks", &example("before"));
}

#[test]
fn a_shield_that_holds_is_shown_with_what_proves_it() {
    check("holds", &example("shielded"));
}

#[test]
fn limits_are_shown_with_the_figures_that_break_or_keep_them() {
    let limits =
        VerifyLimits { max_entries: Some(5), max_gap_ns: Some(20_000), ..VerifyLimits::default() };
    check("limits", &judged(example("shielded").evidence, &limits));
}

#[test]
fn a_trace_that_another_process_stopped_proves_nothing_and_both_figures_are_shown() {
    let mut evidence = example("shielded").evidence;
    let by = Some("trace-cmd (812)".to_owned());
    evidence.interference = vec![TraceInterference::Written { file: "tracing_on".to_owned(), by }];
    let cpu = &mut evidence.cpus[0];
    let faults = cpu.events.iter_mut().find(|it| it.event.ends_with("page_fault_user")).unwrap();
    faults.counted = Some(1_382);
    cpu.witness_doubts.extend(faults.disagreement());
    check("unknown", &judged(evidence, &VerifyLimits::default()));
}
