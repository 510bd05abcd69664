//! The output of `--json` matches `docs/*.schema.json`, according to a validator of JSON schemas.

use cpushield::change::Change;
use cpushield::exchange::make_policy;
use cpushield::experiment::between::{Difference, DifferenceRole, DifferenceSubject, ListedReason};
use cpushield::experiment::journal::ExperimentJournal;
use cpushield::experiment::search::{
    FixedOption, FixedReason, GoalObservation, OptionSearch, SearchGoal, SearchKind, SearchOption,
    SearchRequest, TrialPlan, collect_search, list_only,
};
use cpushield::experiment::{ExperimentSetup, Matrix, RowCpus, Schedule};
use cpushield::plan::{
    CpuHolder, CpuHolding, Immovable, ImmovableReason, ImmovableThing, Plan, RefusedIrq, Step,
    find_free_cpus,
};
use cpushield::policy::{MemoryLimit, OperatorLimits, OperatorName, ShieldOperators, Siblings};
use cpushield::survey::other_tools::{
    OtherTool, SettingTarget, ToolSetting, UnknownValue, read_setup,
};
use cpushield::survey::survey;
use cpushield_linux::{CpuSet, Host, SchedPolicy, TaskId, sched};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

#[path = "support/schemas.rs"]
mod schemas;
use schemas::{not_run, python, validate};

/// An experiment of one cell, which needs no shield.
const ROWS: &str = r#"
repeats = 1
cpus = "CPU"
time = "300ms"
warmup = "50ms"
[[row]]
name = "as it is"
[[column]]
name = "timer"
instrument = "timer"
threads = ["20ms"]
other = true
"#;

#[test]
fn experiments_and_reports_match_their_schemas_and_other_documents_do_not() {
    let Some(python) = python() else { return };
    let allowed = sched::affinity(0).unwrap();
    if allowed.len() < 2 {
        return not_run("one CPU is too few to watch one from another");
    }
    let dir = std::env::temp_dir().join(format!("cpushield-schema-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let (cpu, state) = (allowed.last().unwrap().to_string(), dir.join("state"));
    let file = |name: &str| dir.join(name).display().to_string();
    std::fs::write(dir.join("experiment.toml"), ROWS.replace("CPU", &cpu)).unwrap();
    let experiment = Command::new(env!("CARGO_BIN_EXE_cpushield"))
        .args(["experiment", &file("experiment.toml"), "--json", "--state"])
        .arg(&state)
        .output()
        .unwrap();
    if !experiment.status.success() {
        let why = String::from_utf8_lossy(&experiment.stderr).trim().to_owned();
        std::fs::remove_dir_all(&dir).unwrap();
        return not_run(&format!("no experiment for this user: {why}"));
    }
    let mut experiment: Value = serde_json::from_slice(&experiment.stdout).unwrap();
    assert_eq!(experiment["cells"].as_array().map(Vec::len), Some(1), "{experiment}");
    let span = ["--cpus", &cpu, "--for", "300ms", "--warmup", "100ms"];
    let verdict = printed(&[&["verify"], &span[..]].concat());
    let latency = printed(&[&["latency", "timer", "--other"], &span[..]].concat());
    for (name, document) in
        [("experiment.json", &experiment), ("verify.json", &verdict), ("latency.json", &latency)]
    {
        std::fs::write(dir.join(name), document.to_string()).unwrap();
    }
    let machine = printed(&["survey"]);
    std::fs::write(dir.join("machine.json"), machine.to_string()).unwrap();
    let names = ["machine.json", "verify.json", "before=latency.json", "experiment.json"];
    let files: Vec<String> = names
        .iter()
        .map(|name| match name.split_once('=') {
            Some((label, name)) => format!("{label}={}", file(name)),
            None => file(name),
        })
        .collect();
    let words: Vec<&str> = ["report"].into_iter().chain(files.iter().map(String::as_str)).collect();
    let mut bundle = printed(&words);
    assert_eq!(bundle["documents"].as_array().map(Vec::len), Some(4), "{bundle}");
    assert_eq!(bundle["documents"][3]["document"], experiment);
    let whole = [bundle.clone()];
    assert_eq!(
        validate(&python, "experiment.schema.json", std::slice::from_ref(&experiment)),
        ["valid"]
    );
    assert_eq!(validate(&python, "report.schema.json", &whole), ["valid"]);
    // Control: the validator also rejects wrong contents of a document.
    experiment["rows"][0]["surprise"] = Value::from(1);
    assert_ne!(validate(&python, "experiment.schema.json", &[experiment]), ["valid"]);
    bundle["documents"][2]["document"]["series"][0].as_object_mut().unwrap().remove("missed");
    assert_ne!(validate(&python, "report.schema.json", &[bundle]), ["valid"]);
    std::fs::remove_dir_all(dir).unwrap();
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
fn verdicts_frames_and_latencies_match_their_schemas_and_other_documents_do_not() {
    let Some(python) = python() else { return };
    let allowed = sched::affinity(0).unwrap();
    if allowed.len() < 2 {
        return not_run("one CPU is too few to watch one from another");
    }
    let cpu = allowed.last().unwrap().to_string();
    let span = ["verify", "--cpus", &cpu, "--for", "300ms", "--warmup", "100ms"];
    let limits = [&span[..], &["--max-entries", "0", "--max-gap", "5us", "--syscalls"]].concat();
    let busy = [&span[..], &["--busy"]].concat();
    let mut documents = vec![printed(&limits), printed(&busy)];
    assert_eq!(documents[0]["verdict"]["gates"].as_array().map(Vec::len), Some(2));
    assert_eq!(documents[1]["evidence"]["workload"], "given");
    assert_eq!(validate(&python, "verify.schema.json", &documents), ["valid", "valid"]);
    // Control: the validator can reject.
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

#[test]
fn searches_match_their_schema_and_other_documents_do_not() {
    let Some(python) = python() else { return };
    let row = "[[row]]\nname = \"all\"\nshield = true\n";
    let column = "[[column]]\nname = \"timer\"\ninstrument = \"timer\"\n";
    let text = format!("{row}{column}");
    let matrix = Matrix::parse(&text, "m.toml").unwrap();
    let tunable = |name: &str| SearchOption::Tunable { name: name.to_owned(), on: true };
    let difference = |role| Difference {
        what: DifferenceSubject::Kernel,
        good: Some("6.1".to_owned()),
        bad: None,
        role,
    };
    let request = SearchRequest {
        kind: SearchKind::Minimize { row: "all".to_owned() },
        goal: SearchGoal::MaxLatency { ns: 20_000 },
        base: matrix.rows[0].clone(),
        options: vec![tunable("thp"), tunable("cpuset")],
        forced: BTreeSet::new(),
        shield_stays: false,
        fixed: vec![FixedOption {
            option: tunable("keep-affinities"),
            why: FixedReason::Bookkeeping,
        }],
        differences: vec![difference(DifferenceRole::NeedsReboot)],
    };
    let mut observations = Vec::new();
    let plan = loop {
        let search = request.replay(&observations);
        if search.end.is_some() {
            let rows = search.trials.iter().map(|trial| request.row(&trial.options)).collect();
            let schedule = Schedule { boots: Vec::new(), steps: Vec::new() };
            break TrialPlan { search, rows, schedule };
        }
        let has_cpuset = search.trials.last().unwrap().options.contains(&1);
        observations.push(match has_cpuset {
            true => GoalObservation::Met { figure: 9 },
            false => GoalObservation::Missed { figure: 90_000 },
        });
    };
    let cpus = CpuSet::single(3);
    let row_cpus = RowCpus { shielded: cpus.clone(), measured: cpus };
    let journal = ExperimentJournal::new("m.toml".to_owned(), text, vec![row_cpus], 1);
    let search = collect_search(&request, &matrix, &journal, &plan);
    let listed = list_only(
        &request,
        "between".to_owned(),
        ExperimentSetup::default(),
        ListedReason::NothingToSet,
    );
    let found = serde_json::to_value(&search).unwrap();
    assert_eq!(found["end"]["end"], "least-set", "{found}");
    let read: OptionSearch = serde_json::from_value(found.clone()).unwrap();
    assert_eq!(read, search);
    let mut documents = vec![found, serde_json::to_value(listed).unwrap()];
    assert_eq!(validate(&python, "search.schema.json", &documents), ["valid", "valid"]);
    // Control: the validator can reject.
    documents[0]["options"][0]["state"] = Value::from("unneeded");
    documents[1].as_object_mut().unwrap().remove("goal");
    let answers = validate(&python, "search.schema.json", &documents);
    assert!(answers.iter().all(|answer| answer != "valid"), "{answers:?}");
}

/// The recorded machines, by name.
fn recordings() -> Vec<(String, String)> {
    let machines = Path::new(env!("CARGO_MANIFEST_DIR")).join("machines");
    let entries = std::fs::read_dir(machines).unwrap().map(|entry| entry.unwrap().path());
    let dirs = entries.filter(|path| path.is_dir());
    let name = |dir: &PathBuf| dir.file_name().unwrap().to_string_lossy().into_owned();
    dirs.map(|dir| (name(&dir), dir.join("root").display().to_string())).collect()
}

/// A plan with a step of every kind that the recorded machines do not need, and with operators.
fn whole_plan(plan: &Value) -> Plan {
    let mut plan: Plan = serde_json::from_value(plan.clone()).unwrap();
    let cpus = CpuSet::single(1);
    let task = TaskId { tid: 12, started: 34 };
    let policies = [
        SchedPolicy::Other { nice: 0 },
        SchedPolicy::Batch { nice: 0 },
        SchedPolicy::Idle,
        SchedPolicy::Fifo { priority: 1 },
        SchedPolicy::Rr { priority: 1 },
        SchedPolicy::Deadline { runtime_ns: 1, deadline_ns: 2, period_ns: 3 },
        SchedPolicy::Unknown { number: 7 },
    ];
    let comm = || "task".to_owned();
    let scheduling = policies.map(|policy| Change::Scheduling { task, comm: comm(), policy });
    let others = [
        Change::Affinity { task, comm: comm(), cpus: cpus.clone() },
        Change::MoveTasks { from: "/a".to_owned(), to: "/b".to_owned() },
        Change::KeepAffinities,
        Change::BanFromIrqbalance { cpus: cpus.clone() },
        Change::Slice { unit: "a.slice".to_owned(), cpus: cpus.clone(), mems: CpuSet::new() },
        Change::GiveToGroup { path: "/tasks".to_owned(), gid: 4 },
        Change::CycleCpu { cpu: 1 },
        Change::OfflineSibling { cpu: 1, sibling: 0 },
    ];
    let first = plan.steps[0].clone();
    let steps = scheduling.into_iter().chain(others);
    plan.steps.extend(steps.map(|change| Step { change, ..first.clone() }));
    let answer = "EIO".to_owned();
    plan.immovable.push(Immovable {
        what: ImmovableThing::Irq { irq: 1, actions: String::new() },
        reason: ImmovableReason::Refused { answer, arrives: RefusedIrq::OwnRequests },
    });
    plan.shield.offline_siblings = cpus;
    let name = |id| OperatorName { name: "joe".to_owned(), id };
    plan.operators = Some(ShieldOperators {
        users: vec![name(1)],
        group: Some(name(2)),
        limits: OperatorLimits { priority: Some(1), locked_memory: Some(MemoryLimit::Bytes(2)) },
    });
    plan
}

#[test]
fn plans_match_their_schemas_and_other_documents_do_not() {
    let Some(python) = python() else { return };
    let policy = std::env::temp_dir().join(format!("cpushield-schema-{}.toml", std::process::id()));
    let shields = [("a", 3), ("b", 2)]
        .map(|(name, cpu)| format!("[shield.{name}]\nsiblings = \"share\"\ncpus = \"{cpu}\"\n"));
    std::fs::write(&policy, shields.concat()).unwrap();
    let file = policy.display().to_string();
    let (mut plans, mut policies) = (Vec::new(), Vec::new());
    for (name, root) in recordings() {
        plans.push(printed(&["plan", "--root", &root]));
        // It has two CPUs: too few for two shields.
        if name != "6.18-hybrid" {
            policies.push(printed(&["plan", "--all", "--policy", &file, "--root", &root]));
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
        assert_eq!(validate(&python, schema, &documents), vec!["valid"; documents.len()]);
        // Control: the validator can reject.
        let document = &mut documents[0];
        let plan = if document["plans"].is_array() { &mut document["plans"][1] } else { document };
        plan["steps"][0]["change"].as_object_mut().unwrap().remove("do");
        assert_ne!(validate(&python, schema, &documents[..1]), ["valid"], "{schema}");
    }
}

#[test]
fn free_cpus_match_their_schema_and_other_documents_do_not() {
    let Some(python) = python() else { return };
    let mut documents: Vec<Value> =
        recordings().iter().map(|(_, root)| printed(&["plan", "--free", "--root", root])).collect();
    // What an active shield and other programs hold, which no recording shows.
    let (_, root) = &recordings()[0];
    let machine = survey(&Host::recorded(Path::new(root)).unwrap(), &[]);
    let mut found = find_free_cpus(&machine, Some(&[("a".to_owned(), CpuSet::single(1))]));
    assert_eq!(found.taken.len(), 1);
    let holders =
        [CpuHolder::Cpuset { path: "/x".to_owned() }, CpuHolder::Isolcpus, CpuHolder::NohzFull];
    let held = holders.map(|holder| CpuHolding { cpus: CpuSet::single(2), holder });
    found.isolated.extend(held);
    found.groups[0].node = None;
    documents.push(serde_json::to_value(found).unwrap());
    let schema = "free-cpus.schema.json";
    assert_eq!(validate(&python, schema, &documents), vec!["valid"; documents.len()]);
    // Control: the validator can reject.
    documents[0]["groups"][0].as_object_mut().unwrap().remove("cpus");
    assert_ne!(validate(&python, schema, &documents[..1]), ["valid"]);
}

#[test]
fn imported_policies_match_their_schema_and_other_documents_do_not() {
    let Some(python) = python() else { return };
    let roots = recordings();
    let (_, root) = roots.iter().find(|(name, _)| name == "6.12-rt-smt").unwrap();
    let imported = printed(&["plan", "--from", "cmdline", "--root", root]);
    assert!(imported["policy"].as_str().is_some_and(|text| text.contains("[shield.cmdline]")));
    // What other tools write, which the recording does not have.
    let values = [
        Ok("1".to_owned()),
        Err(UnknownValue::Function { name: "f".to_owned() }),
        Err(UnknownValue::Variable { name: "v".to_owned() }),
        Err(UnknownValue::NotCpus { text: "t".to_owned() }),
        Err(UnknownValue::TooLong),
    ];
    let host = Host::recorded(Path::new(root)).unwrap();
    let machine = survey(&host, &[]);
    let setup = read_setup(&host, &machine, OtherTool::Cmdline).unwrap();
    let mut whole = make_policy(&machine, &setup).unwrap();
    let place = whole.setup.shields[0].place.clone();
    let targets = [
        SettingTarget::KernelFile { path: "/sys/*".to_owned() },
        SettingTarget::BootParameter,
        SettingTarget::ToolOption,
    ];
    let settings = values.into_iter().zip(targets.iter().cycle()).map(|(value, target)| {
        let (name, target, place) = ("kernel.x".to_owned(), target.clone(), place.clone());
        ToolSetting { name, target, value, place }
    });
    whole.setup.settings.extend(settings);
    whole.shields[0].siblings = Some(Siblings::Share);
    let mut documents = vec![imported, serde_json::to_value(whole).unwrap()];
    let schema = "imported-policy.schema.json";
    assert_eq!(validate(&python, schema, &documents), ["valid", "valid"]);
    // Control: the validator can reject.
    documents[1]["setup"]["settings"][0]["value"] = Value::from("1");
    assert_ne!(validate(&python, schema, &documents[1..]), ["valid"]);
}

/// Checks that every document is of the schema, and not without this field of the first.
fn check_schema(python: &Path, schema: &str, mut documents: Vec<Value>, field: &str) {
    assert_eq!(validate(python, schema, &documents), vec!["valid"; documents.len()], "{schema}");
    // Control: the validator can reject.
    let (parent, name) = field.rsplit_once('/').unwrap();
    let object = documents[0].pointer_mut(parent).unwrap().as_object_mut().unwrap();
    assert!(object.remove(name).is_some(), "{schema}: {field}");
    assert_ne!(validate(python, schema, &documents[..1]), ["valid"], "{schema}");
}

#[test]
fn machines_and_boot_parameters_match_their_schemas_and_other_documents_do_not() {
    let Some(python) = python() else { return };
    let each = |words: &[&str]| -> Vec<Value> {
        let roots = recordings().into_iter().map(|(_, root)| root);
        roots.map(|root| printed(&[words, &["--root", &root]].concat())).collect()
    };
    check_schema(&python, "survey.schema.json", each(&["survey"]), "/kernel/release");
    // Some recordings have no boot loader for a plan, and their document is an error.
    let (plans, errors): (Vec<Value>, Vec<Value>) =
        each(&["boot", "plan"]).into_iter().partition(|document| document["error"].is_null());
    assert!(!plans.is_empty(), "{errors:?}");
    check_schema(&python, "boot-plan.schema.json", plans, "/rule");
    check_schema(&python, "boot-status.schema.json", each(&["boot", "status"]), "/running");
    check_schema(&python, "status.schema.json", each(&["status"]), "/state/sentence");
}

#[test]
fn pages_masks_and_errors_match_their_schemas_and_other_documents_do_not() {
    let Some(python) = python() else { return };
    let pages = ["tick", "thp", "nohz-full", "latency-timer", "load-disk", "policy", "eth0"];
    let pages = pages.map(|name| printed(&["explain", name]));
    let masks = vec![printed(&["mask", "0-3,8", "0x80"]), printed(&["mask", "0x0"])];
    assert_eq!(masks[0]["sets"].as_array().map(Vec::len), Some(2), "{}", masks[0]);
    check_schema(&python, "mask.schema.json", masks, "/sets/0/hex");
    let (errors, pages): (Vec<Value>, Vec<Value>) =
        pages.into_iter().partition(|page| page["name"].is_null());
    check_schema(&python, "explain.schema.json", pages, "/text");
    let errors = errors.into_iter().chain([printed(&["mask", "x"]), printed(&["bogus"])]);
    check_schema(&python, "error.schema.json", errors.collect(), "/error/hints");
}
