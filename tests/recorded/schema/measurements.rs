//! What `verify`, `watch`, `latency`, `experiment`, `report` and `compare` print.

use super::{SchemaValidator, printed, printed_on};
use cpushield::documents::evidence::VerifyDocument;
use cpushield::documents::load_price::{LoadPrice, LoadRate, PriceDoubt, PriceOf, PricePart};
use cpushield::documents::machine_difference::MachineDifference;
use cpushield::documents::try_report::{self, TryReport};
use cpushield::experiment::journal::ExperimentJournal;
use cpushield::experiment::search::{
    FixedOption, FixedReason, GoalObservation, OptionSearch, SearchGoal, SearchOption,
    SearchRequest, TrialPlan, collect_search,
};
use cpushield::experiment::{Matrix, RowCpus, Schedule};
use cpushield::policy::TunableSetting;
use cpushield_linux::{CpuSet, sys::sched};
use serde_json::Value;
use std::process::Command;

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

/// The CPUs that the tests may use.
fn allowed_cpus() -> Result<CpuSet, String> {
    let allowed = sched::affinity(0).unwrap();
    if allowed.len() < 2 {
        return Err("one CPU is too few to watch one from another".to_owned());
    }
    Ok(allowed)
}

pub fn check_experiments(validator: &mut SchemaValidator) -> Result<(), String> {
    let allowed = allowed_cpus()?;
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
        return Err(format!("no experiment for this user: {why}"));
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
        validator.validate("experiment.schema.json", std::slice::from_ref(&experiment)),
        ["valid"]
    );
    assert_eq!(validator.validate("report.schema.json", &whole), ["valid"]);
    // Control: the validator also rejects wrong contents of a document.
    experiment["rows"][0]["surprise"] = Value::from(1);
    assert_ne!(validator.validate("experiment.schema.json", &[experiment]), ["valid"]);
    bundle["documents"][2]["document"]["series"][0].as_object_mut().unwrap().remove("missed");
    assert_ne!(validator.validate("report.schema.json", &[bundle]), ["valid"]);
    std::fs::remove_dir_all(dir).unwrap();
    Ok(())
}

/// A tried shield of a recording, with what was measured on this machine.
pub fn check_tried_shields(validator: &mut SchemaValidator) -> Result<(), String> {
    let allowed = allowed_cpus()?;
    let cpu = allowed.last().unwrap().to_string();
    let span = ["verify", "--cpus", &cpu, "--for", "300ms", "--warmup", "100ms"];
    let watched: VerifyDocument = serde_json::from_value(printed(&span)).unwrap();
    let plan = printed_on("6.12-rt-smt", &["plan"]);
    let rate = || LoadRate { per_s: Some(2.0), ..LoadRate::default() };
    let text = |text: &str| text.to_owned();
    let load = PriceOf {
        name: text("fork"),
        what: text("starts processes"),
        unit: text("processes"),
        before: rate(),
        shielded: rate(),
        ratio: Some(1.0),
        ratio_per_cpu: None,
        doubts: vec![PriceDoubt::MaybeChance, PriceDoubt::Varied { window: PricePart::Before }],
    };
    let price = LoadPrice {
        span_ns: 1,
        cpus_before: allowed.clone(),
        cpus_shielded: allowed.clone(),
        loads: vec![load],
        skipped: Vec::new(),
    };
    let difference = MachineDifference { what: text("/x"), before: text("1"), after: text("2") };
    let tried = TryReport {
        schema: try_report::SCHEMA,
        plan: serde_json::from_value(plan).unwrap(),
        changed: vec![(text("thp"), 1)],
        refused: 1,
        before: watched.evidence.clone(),
        shielded: watched.evidence,
        verdict: watched.verdict,
        price: Some(price),
        restored: 1,
        left: vec![text("/x")],
        differences: vec![difference],
    };
    let tried = vec![serde_json::to_value(tried).unwrap()];
    validator.check_schema("try.schema.json", tried, "/shielded");
    Ok(())
}

pub fn check_measurements(validator: &mut SchemaValidator) -> Result<(), String> {
    let allowed = allowed_cpus()?;
    let cpu = allowed.last().unwrap().to_string();
    let span = ["verify", "--cpus", &cpu, "--for", "300ms", "--warmup", "100ms"];
    let limits = [&span[..], &["--max-entries", "0", "--max-gap", "5us", "--syscalls"]].concat();
    let busy = [&span[..], &["--busy"]].concat();
    let mut documents = vec![printed(&limits), printed(&busy)];
    assert_eq!(documents[0]["verdict"]["gates"].as_array().map(Vec::len), Some(2));
    assert_eq!(documents[1]["evidence"]["workload"], "given");
    assert_eq!(validator.validate("verify.schema.json", &documents), ["valid", "valid"]);
    // Control: the validator can reject.
    documents[0]["evidence"]["surprise"] = Value::from(1);
    documents[1]["verdict"]["cpus"][0]["state"] = Value::from("perfect");
    let answers = validator.validate("verify.schema.json", &documents);
    assert!(answers[0].contains("'surprise' was unexpected"), "{answers:?}");
    assert!(answers[1].contains("$.verdict.cpus[0].state"), "{answers:?}");

    let mut frame = printed(&["watch", "--once", "--interval", "100ms", "--cpus", &cpu]);
    assert_eq!(validator.validate("watch.schema.json", std::slice::from_ref(&frame)), ["valid"]);
    frame["cpus"][0].as_object_mut().unwrap().remove("entries_per_s");
    assert_ne!(validator.validate("watch.schema.json", &[frame]), ["valid"]);

    let mut latency = printed(&[
        "latency", "timer", "--cpus", &cpu, "--for", "300ms", "--other", "--over", "20us", "--max",
        "1min",
    ]);
    assert_eq!(
        validator.validate("latency.schema.json", std::slice::from_ref(&latency)),
        ["valid"]
    );
    latency["series"][0].as_object_mut().unwrap().remove("missed");
    assert_ne!(validator.validate("latency.schema.json", &[latency]), ["valid"]);
    Ok(())
}

pub fn check_searches(validator: &mut SchemaValidator) -> Result<(), String> {
    let row = "[[row]]\nname = \"all\"\nshield = true\n";
    let column = "[[column]]\nname = \"timer\"\ninstrument = \"timer\"\n";
    let text = format!("{row}{column}");
    let matrix = Matrix::parse(&text, "m.toml").unwrap();
    let tunable = |name: &str| SearchOption::Tunable { name: name.to_owned() };
    let request = SearchRequest {
        row: "all".to_owned(),
        goal: SearchGoal::MaxLatency { ns: 20_000 },
        base: matrix.rows[0].clone(),
        options: vec![tunable("thp"), tunable("cpuset")],
        forced: [("cpu-idle".to_owned(), TunableSetting::Value("20us".to_owned()))].into(),
        shield_stays: false,
        fixed: vec![FixedOption {
            option: tunable("keep-affinities"),
            why: FixedReason::Bookkeeping,
        }],
    };
    let mut observations = Vec::new();
    let plan = loop {
        let search = request.replay(&observations);
        if search.end.is_some() {
            let rows = search.trials.iter().map(|trial| request.row_with(&trial.options)).collect();
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
    let found = serde_json::to_value(&search).unwrap();
    assert_eq!(found["end"]["end"], "least-set", "{found}");
    let read: OptionSearch = serde_json::from_value(found.clone()).unwrap();
    assert_eq!(read, search);
    validator.check_schema("search.schema.json", vec![found], "/options/0/state");
    Ok(())
}

pub fn check_comparisons(validator: &mut SchemaValidator) -> Result<(), String> {
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/example");
    let groups = ["before", "shielded"].map(|name| format!("{name}={example}/latency-{name}.json"));
    let compared = printed(&["compare", &groups[0], &groups[1]]);
    assert_eq!(compared["groups"].as_array().map(Vec::len), Some(2), "{compared}");
    validator.check_schema("compare.schema.json", vec![compared], "/groups/0/runs");
    Ok(())
}
