//! What `apply`, `apply --all`, `status`, `undo`, `enable`, `disable`, `add`, `remove` and
//! `verify --fix` print.
//! `tests/recorded/roundtrip/documents.rs` validates the documents of all kinds of changes.

use super::{SchemaValidator, printed_on, printed_on_each, printed_with_state};
use crate::recordings;
use crate::roundtrip::bench::Bench;
use cpushield::apply::{AppliedPlan, AppliedPolicy, AppliedShield, ShieldEffect};
use cpushield::boot::InitSystem;
use cpushield::documents::evidence::VerifyDocument;
use cpushield::documents::fix_report::{
    AppliedFix, FixEnd, FixOutcome, FixReport, FixRound, MissingChangeReason, MissingPart, SCHEMA,
    remains,
};
use cpushield::documents::process_note::ProcessNote;
use cpushield::plan::Plan;
use cpushield::run::{MovedProcess, MovedProcesses};
use cpushield::workflow::every_boot::{
    self, DisabledShield, Enabled, EnabledPolicy, EnabledShield,
};
use cpushield_linux::CpuSet;
use serde_json::json;

/// The recorded machine of the shields.
const MACHINE: &str = "6.12-rt-smt";

pub fn check_shields(validator: &mut SchemaValidator) -> Result<(), String> {
    let plan: Plan = serde_json::from_value(printed_on(MACHINE, &["plan"])).unwrap();
    let bench = Bench::of_recording(&recordings::root(MACHINE)).into_files();
    let applied = bench.apply(&bench.host(), &plan).unwrap();
    let dir = &bench.scratch.0;
    let root = dir.join("root").display().to_string();
    let printed_here =
        |subcommand| printed_with_state(&[subcommand, "--root", &root], &dir.join("state"));
    let status = printed_here("status");
    assert_eq!(status["shields"].as_array().map(Vec::len), Some(1), "{status}");
    let undone = printed_here("undo");
    assert!(undone["shields"][0]["steps"][0].is_object(), "{undone}");
    let shields = [ShieldEffect::Made, ShieldEffect::Changed, ShieldEffect::Kept].map(|what| {
        AppliedShield { what, applied: applied.clone(), plan: plan.clone(), before: None }
    });
    let policy = AppliedPolicy::new(shields.into(), vec![plan.shield.clone()]);
    let applied = vec![serde_json::to_value(applied).unwrap()];
    validator.check_schema("apply.schema.json", applied, "/schema");
    let policy = vec![serde_json::to_value(policy).unwrap()];
    validator.check_schema("apply-all.schema.json", policy, "/schema");
    let status = [vec![status], printed_on_each(&["status"])].concat();
    validator.check_schema("status.schema.json", status, "/shields/0/state/sentence");
    validator.check_schema("undo.schema.json", vec![undone], "/schema");
    Ok(())
}

/// A shield of a recorded machine, as `apply` reports it.
fn applied_plan() -> AppliedPlan {
    let plan: Plan = serde_json::from_value(printed_on(MACHINE, &["plan"])).unwrap();
    AppliedPlan::new(plan.shield, "/var/lib/cpushield/journal.json".to_owned())
}

pub fn check_every_boot(validator: &mut SchemaValidator) -> Result<(), String> {
    let enabled = || Enabled {
        init: InitSystem::Systemd,
        path: "/etc/systemd/system/cpushield.service".to_owned(),
        ban_path: None,
        words: vec!["apply".to_owned()],
        shield: Some("cpushield".to_owned()),
        policy: None,
        operator_paths: Vec::new(),
    };
    let schema = every_boot::SCHEMA;
    let one = |applied| EnabledShield { schema, enabled: enabled(), applied };
    let documents = [Some(applied_plan()), None].map(|applied| json!(one(applied)));
    validator.check_schema("enable.schema.json", documents.into(), "/schema");
    let active = applied_plan().shield;
    let all = |applied| EnabledPolicy { schema, enabled: enabled(), applied };
    let applied = AppliedPolicy::new(Vec::new(), vec![active.clone()]);
    let documents = [Some(applied), None].map(|applied| json!(all(applied)));
    validator.check_schema("enable-all.schema.json", documents.into(), "/schema");
    let documents = [Some(enabled()), None].map(|disabled| {
        let (active, active_unknown) = (vec![active.clone()], Some("EACCES".to_owned()));
        json!(DisabledShield { schema, disabled, active, active_unknown, undone: Vec::new() })
    });
    validator.check_schema("disable.schema.json", documents.into(), "/schema");
    Ok(())
}

pub fn check_moved(validator: &mut SchemaValidator) -> Result<(), String> {
    let note = ProcessNote::GroupGone { group: "/a".to_owned() };
    let (tid, comm, threads, cpus) = (4711, "control".to_owned(), 2, CpuSet::single(3));
    let moved = MovedProcess { tid, comm, threads, cpus, notes: vec![note] };
    let documents = [vec![moved], Vec::new()].map(|moved| json!(MovedProcesses::new(moved)));
    validator.check_schema("moved.schema.json", documents.into(), "/schema");
    Ok(())
}

pub fn check_fixes(validator: &mut SchemaValidator) -> Result<(), String> {
    let example = include_str!("../../../docs/example/verify-before.json");
    let VerifyDocument { evidence, verdict, .. } = serde_json::from_str(example).unwrap();
    let tunable = || "irq-affinity".to_owned();
    let subject = || "/proc/irq/9/smp_affinity_list".to_owned();
    let answer = Some("EIO".to_owned());
    let outcomes =
        [FixOutcome::Changed, FixOutcome::AlreadySo, FixOutcome::Refused, FixOutcome::Absent];
    let done = outcomes.map(|result| AppliedFix {
        tunable: tunable(),
        subject: subject(),
        result,
        why: answer.clone(),
    });
    let reasons = [
        MissingChangeReason::Refused { answer },
        MissingChangeReason::Absent,
        MissingChangeReason::ChangedSince,
        MissingChangeReason::MovesProgram { comm: "a".to_owned(), tid: 1 },
    ];
    let lacks: Vec<MissingPart> =
        reasons.map(|why| MissingPart { tunable: tunable(), subject: subject(), why }).into();
    let rounds = vec![
        FixRound { evidence: evidence.clone(), verdict: verdict.clone(), done: done.into() },
        FixRound { evidence, verdict, done: Vec::new() },
    ];
    let remains = remains(&rounds, &lacks);
    assert!(!remains.is_empty());
    let ends = [FixEnd::Holds, FixEnd::NothingMore, FixEnd::Stopped, FixEnd::TooOften];
    let documents = ends.map(|end| {
        // The evidence is long, and one document with all rounds is enough.
        let rounds = if end == FixEnd::TooOften { rounds.clone() } else { Vec::new() };
        let (remains, lacks) = (remains.clone(), lacks.clone());
        let report = FixReport { schema: SCHEMA, rounds, end, remains, lacks };
        serde_json::to_value(report).unwrap()
    });
    validator.check_schema("fix.schema.json", documents.into(), "/lacks/0/tunable");
    Ok(())
}
