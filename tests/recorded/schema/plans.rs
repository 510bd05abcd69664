//! What `plan`, `plan --all`, `plan --free`, `plan --from`, `experiment --dry-run` and the writing
//! subcommands of `boot` print.

use super::{SchemaValidator, printed_on, printed_on_each};
use crate::recordings;
use cpushield::boot::{
    ConcludedTrial, FileFate, KernelWords, NextBoot, NextReason, RemovedParameters, SCHEMA,
    SettledAs, TrialEnd, TrialReason, UndoNote, UndoneParameters, WrittenParameters,
};
use cpushield::change::Change;
use cpushield::documents::free_cpus::{CpuHolder, CpuHolding};
use cpushield::exchange::make_policy;
use cpushield::plan::{
    BootAdvice, BootAdviceReason, Immovable, ImmovableReason, ImmovableThing, Plan, RefusedIrq,
    Step, find_free_cpus,
};
use cpushield::policy::{MemoryLimit, OperatorLimits, OperatorName, ShieldOperators, Siblings};
use cpushield::survey::other_tools::{OtherTool, SettingTarget, ToolSetting, read_setup};
use cpushield::survey::survey;
use cpushield_linux::{CpuSet, Host, TaskId};
use serde_json::{Value, json};

/// A plan with a step of every kind that the recorded machines do not need, and with operators.
fn whole_plan(plan: &Value) -> Plan {
    let mut plan: Plan = serde_json::from_value(plan.clone()).unwrap();
    let cpus = CpuSet::single(1);
    let task = TaskId { tid: 12, started: 34 };
    let others = [
        Change::Affinity { task, comm: "task".to_owned(), cpus: cpus.clone() },
        Change::MoveTasks { from: "/a".to_owned(), to: "/b".to_owned(), keep: CpuSet::new() },
        Change::MoveProcess { task, comm: "task".to_owned(), to: "/b".to_owned() },
        Change::KeepAffinities,
        Change::BanFromIrqbalance { cpus: cpus.clone() },
        Change::Slice { unit: "a.slice".to_owned(), cpus: cpus.clone(), mems: CpuSet::new() },
        Change::GiveToGroup { path: "/tasks".to_owned(), gid: 4 },
        Change::CycleCpu { cpu: 1 },
        Change::OfflineSibling { cpu: 1, sibling: 0 },
    ];
    let first = plan.steps[0].clone();
    plan.steps.extend(others.map(|change| Step { change, ..first.clone() }));
    let answer = "EIO".to_owned();
    plan.immovable.push(Immovable {
        what: ImmovableThing::Irq { irq: 1, actions: String::new() },
        reason: ImmovableReason::Refused { answer, arrives: RefusedIrq::OwnRequests },
    });
    plan.shield.offline_siblings = cpus;
    plan.boot.push(BootAdvice {
        tunable: "rcu-nocbs".to_owned(),
        parameter: "rcu_nocbs=1".to_owned(),
        removes: Vec::new(),
        reason: BootAdviceReason::CallbacksElsewhere { known: true },
    });
    let name = |id| OperatorName { name: "joe".to_owned(), id };
    plan.operators = Some(ShieldOperators {
        users: vec![name(1)],
        group: Some(name(2)),
        limits: OperatorLimits { priority: Some(1), locked_memory: Some(MemoryLimit::Bytes(2)) },
    });
    plan
}

pub fn check_plans(validator: &mut SchemaValidator) -> Result<(), String> {
    let policy = std::env::temp_dir().join(format!("cpushield-schema-{}.toml", std::process::id()));
    let shields = [("a", 3), ("b", 2)]
        .map(|(name, cpu)| format!("[shield.{name}]\nsiblings = \"share\"\ncpus = \"{cpu}\"\n"));
    std::fs::write(&policy, shields.concat()).unwrap();
    let file = policy.display().to_string();
    let (mut plans, mut policies) = (Vec::new(), Vec::new());
    for (name, _) in recordings::own() {
        plans.push(printed_on(&name, &["plan"]));
        // It has two CPUs: too few for two shields.
        if name != "6.18-hybrid" {
            policies.push(printed_on(&name, &["plan", "--all", "--policy", &file]));
        }
    }
    std::fs::remove_file(policy).unwrap();
    let whole = whole_plan(&plans[0]);
    policies[0]["others"] = serde_json::to_value([&whole.shield]).unwrap();
    plans.push(serde_json::to_value(whole).unwrap());
    assert_eq!(policies[0]["plans"].as_array().map(Vec::len), Some(2), "{}", policies[0]);
    for (schema, mut documents) in
        [("plan.schema.json", plans), ("policy-plans.schema.json", policies)]
    {
        assert_eq!(validator.validate(schema, &documents), vec!["valid"; documents.len()]);
        // Control: the validator can reject.
        let document = &mut documents[0];
        let plan = if document["plans"].is_array() { &mut document["plans"][1] } else { document };
        plan["steps"][0]["change"].as_object_mut().unwrap().remove("do");
        assert_ne!(validator.validate(schema, &documents[..1]), ["valid"], "{schema}");
    }
    Ok(())
}

pub fn check_exported_plans(validator: &mut SchemaValidator) -> Result<(), String> {
    let exported = ["kernel-parameters", "tuned", "systemd-drop-in"]
        .map(|format| printed_on("6.12-rt-systemd", &["plan", "--export", format]));
    validator.check_schema("exported-plan.schema.json", exported.into(), "/text");
    Ok(())
}

pub fn check_free_cpus(validator: &mut SchemaValidator) -> Result<(), String> {
    let mut documents = printed_on_each(&["plan", "--free"]);
    // What an active shield and other programs hold, which no recording shows.
    let machine = survey(&Host::recorded(&recordings::root("6.12-rt-4")).unwrap(), &[]);
    let mut found = find_free_cpus(&machine, Some(&[("a".to_owned(), CpuSet::single(1))]));
    assert_eq!(found.taken.len(), 1);
    let holders =
        [CpuHolder::Cpuset { path: "/x".to_owned() }, CpuHolder::Isolcpus, CpuHolder::NohzFull];
    let held = holders.map(|holder| CpuHolding { cpus: CpuSet::single(2), holder });
    found.isolated.extend(held);
    found.groups[0].node = None;
    documents.push(serde_json::to_value(found).unwrap());
    let schema = "free-cpus.schema.json";
    assert_eq!(validator.validate(schema, &documents), vec!["valid"; documents.len()]);
    // Control: the validator can reject.
    documents[0]["groups"][0].as_object_mut().unwrap().remove("cpus");
    assert_ne!(validator.validate(schema, &documents[..1]), ["valid"]);
    Ok(())
}

pub fn check_imported_policies(validator: &mut SchemaValidator) -> Result<(), String> {
    let imported = printed_on("6.12-rt-smt", &["plan", "--from", "cmdline"]);
    assert!(imported["policy"].as_str().is_some_and(|text| text.contains("[shield.cmdline]")));
    // What other tools write, which the recording does not have.
    let host = Host::recorded(&recordings::root("6.12-rt-smt")).unwrap();
    let machine = survey(&host, &[]);
    let setup = read_setup(&host, &machine, OtherTool::Cmdline).unwrap();
    let mut whole = make_policy(&machine, &setup).unwrap();
    let place = whole.setup.shields[0].place.clone();
    let targets =
        [SettingTarget::KernelFile { path: "/sys/*".to_owned() }, SettingTarget::BootParameter];
    let settings = targets.into_iter().map(|target| {
        let (name, value, place) = ("kernel.x".to_owned(), "1".to_owned(), place.clone());
        ToolSetting { name, target, value, place }
    });
    whole.setup.settings.extend(settings);
    whole.shields[0].siblings = Some(Siblings::Share);
    let mut documents = vec![imported, serde_json::to_value(whole).unwrap()];
    let schema = "imported-policy.schema.json";
    assert_eq!(validator.validate(schema, &documents), ["valid", "valid"]);
    // Control: the validator can reject.
    documents[1]["setup"]["settings"][0]["value"] = Value::from(1);
    assert_ne!(validator.validate(schema, &documents[1..]), ["valid"]);
    Ok(())
}

pub fn check_dry_runs(validator: &mut SchemaValidator) -> Result<(), String> {
    let words = ["experiment", "docs/experiment.toml", "--dry-run"];
    let dry_run = |more: &[&str]| printed_on("6.12-rt-smt", &[&words[..], more].concat());
    let documents = vec![dry_run(&[]), dry_run(&["--reboot"])];
    assert_ne!(documents[0]["skipped"], documents[1]["skipped"]);
    validator.check_schema("dry-run.schema.json", documents, "/schema");
    let documents = vec![dry_run(&["--minimize", "--max", "20us"])];
    assert!(documents[0]["options"][0].is_object(), "{}", documents[0]);
    validator.check_schema("search-dry-run.schema.json", documents, "/schema");
    Ok(())
}

pub fn check_boot_files(validator: &mut SchemaValidator) -> Result<(), String> {
    let text = || "a".to_owned();
    let written = WrittenParameters {
        schema: SCHEMA,
        loader: "grub".to_owned(),
        words: vec![text()],
        replaced: Vec::new(),
        kernels: vec![text()],
        groups: vec![KernelWords { kernels: vec![text()], words: vec![text()] }],
        files: vec![text()],
        next: Some(NextBoot { title: text(), why: NextReason::default() }),
        next_has: true,
        entry: Some(text()),
        choice: None,
        menu: text(),
        entries_without: vec![text()],
        trial: None,
    };
    validator.check_schema("boot-apply.schema.json", vec![json!(written)], "/schema");
    let fates = [
        FileFate::Restored,
        FileFate::AlreadySo,
        FileFate::Removed,
        FileFate::WordsRemoved,
        FileFate::Regenerated,
        FileFate::Drifted,
    ];
    let notes = vec![
        UndoNote::StillLoaded { answer: text() },
        UndoNote::ChangedFileRemoved { path: text() },
    ];
    let files = fates.map(|fate| (text(), fate)).into();
    let removed = [Some(RemovedParameters { files, notes }), None];
    let documents = removed.map(|removed| json!(UndoneParameters::from(removed)));
    validator.check_schema("boot-undo.schema.json", documents.into(), "/schema");
    let documents = [SettledAs::Permanent, SettledAs::TakenBack].map(|end| {
        let why = TrialReason::Holds { proves: CpuSet::single(3) };
        json!(ConcludedTrial::from(TrialEnd { entry: text(), end, why, files: vec![text()] }))
    });
    validator.check_schema("boot-conclude.schema.json", documents.into(), "/schema");
    Ok(())
}
