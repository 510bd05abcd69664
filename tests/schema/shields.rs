//! What `apply`, `apply --all`, `status`, `undo` and `verify --fix` print.
//! `tests/roundtrip/documents.rs` validates the documents of all kinds of changes.

use super::{SchemaValidator, printed, printed_with_state, recordings};
use cpushield::apply::{self, AppliedPolicy, AppliedShield, ShieldEffect};
use cpushield::documents::evidence::VerifyDocument;
use cpushield::documents::fix_report::{
    AppliedFix, FixEnd, FixOutcome, FixReport, FixRound, MissingChangeReason, MissingPart, SCHEMA,
    remains,
};
use cpushield::plan::Plan;
use cpushield_linux::{Host, Store};
use std::process::Command;

pub fn check_shields(validator: &mut SchemaValidator) -> Result<(), String> {
    let dir = std::env::temp_dir().join(format!("cpushield-schema-shields-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let roots = recordings();
    let (_, root) = roots.iter().find(|(name, _)| name == "6.12-rt-smt").unwrap();
    // The recording keeps links and modes: --no-preserve makes its files writable.
    let mut copy = Command::new("cp");
    copy.args(["-R", "--no-preserve=mode", root]).arg(dir.join("root"));
    assert!(copy.status().unwrap().success());
    let host = Host::recorded(&dir.join("root")).unwrap();
    let plan: Plan = serde_json::from_value(printed(&["plan", "--root", root])).unwrap();
    let applied = apply::apply(&host, &Store::new(&dir.join("state")), &plan, &mut |_| {}).unwrap();
    let copied = dir.join("root").display().to_string();
    let printed_here =
        |subcommand| printed_with_state(&[subcommand, "--root", &copied], &dir.join("state"));
    let status = printed_here("status");
    assert_eq!(status["shields"].as_array().map(Vec::len), Some(1), "{status}");
    let undone = printed_here("undo");
    assert!(undone["shields"][0]["steps"][0].is_object(), "{undone}");
    std::fs::remove_dir_all(&dir).unwrap();
    let shields = [ShieldEffect::Made, ShieldEffect::Changed, ShieldEffect::Kept].map(|what| {
        AppliedShield { what, applied: applied.clone(), plan: plan.clone(), before: None }
    });
    let policy = AppliedPolicy { shields: shields.into(), others: vec![plan.shield.clone()] };
    let applied = vec![serde_json::to_value(applied).unwrap()];
    validator.check_schema("apply.schema.json", applied, "/steps/0/tunable");
    let policy = vec![serde_json::to_value(policy).unwrap()];
    validator.check_schema("apply-all.schema.json", policy, "/shields/0/what");
    let without = recordings().into_iter().map(|(_, root)| printed(&["status", "--root", &root]));
    let status = [status].into_iter().chain(without).collect();
    validator.check_schema("status.schema.json", status, "/shields/0/state/sentence");
    validator.check_schema("undo.schema.json", vec![undone], "/schema");
    Ok(())
}

pub fn check_fixes(validator: &mut SchemaValidator) -> Result<(), String> {
    let example = include_str!("../../docs/example/verify-before.json");
    let VerifyDocument { evidence, verdict } = serde_json::from_str(example).unwrap();
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
        let (rounds, remains, lacks) = (rounds.clone(), remains.clone(), lacks.clone());
        let report = FixReport { schema: SCHEMA, rounds, end, remains, lacks };
        serde_json::to_value(report).unwrap()
    });
    validator.check_schema("fix.schema.json", documents.into(), "/lacks/0/tunable");
    Ok(())
}
