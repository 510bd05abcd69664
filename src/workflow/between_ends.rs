//! The two ends of `experiment --between`: what saved documents say about a measured
//! configuration. `latency`, `verify` and `experiment` documents are read, and those inside
//! `report --json`.

use super::experiment_machine::thread_specs;
use super::given_file::read_file;
use super::saved_document::SavedDocument;
use crate::change::EffectTime;
use crate::documents::count_text::joined;
use crate::documents::evidence::VerifyDocument;
use crate::documents::experiment::{Experiment, ExperimentColumn};
use crate::documents::latency::LatencyMeasurement;
use crate::documents::load_done::requested_words;
use crate::documents::machine::{Machine, SurveyFinding};
use crate::documents::plan::{Plan, SkipReason};
use crate::failure::Failure;
use crate::latency::ThreadSpec;
use crate::policy::Workload;
use crate::quote::quote_names;
use crate::report::table;
use crate::verify::count_entries;
use cpushield_linux::{CpuSet, SchedPolicy, UserFiles};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Keys of a document's setting that are not properties of the machine: they differ from boot to
/// boot or from run to run, or are compared in another way.
const NOT_COMPARED: [&str; 7] =
    ["boot", "clock_read_ns", "cmdline", "kernel", "processor", "machine", "settings"];

/// What documents say about one measured configuration.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MeasuredEnd {
    /// Its name: the label or the file.
    pub name: String,
    /// The kernel's release.
    pub kernel: Option<String>,
    /// The kernel command line, with the words that an experiment added.
    pub cmdline: Option<String>,
    /// The processor.
    pub processor: Option<String>,
    /// Whether the CPUs were shielded; `None` when the documents do not say.
    pub shielded: Option<bool>,
    /// Tunables that were forced on or off.
    pub tunables: BTreeMap<String, bool>,
    /// Other properties of the machine.
    pub machine: BTreeMap<String, String>,
    /// How it was measured.
    pub method: BTreeMap<String, String>,
    /// What interrupted the CPUs, with its count.
    pub symptoms: BTreeMap<String, u64>,
    /// Whether a watch saw everything that interrupted the CPUs.
    pub watched: bool,
    /// The worst latency in nanoseconds; `None` when it was not measured on every CPU.
    pub worst_ns: Option<u64>,
    /// The entries into the kernel of the CPU that has most; `None` when they were not counted on
    /// every CPU.
    pub entries: Option<u64>,
    /// Tunables that would remove something that interrupted the CPUs.
    pub remedies: BTreeSet<String>,
    /// What was measured; `None` when no document is a measurement.
    pub measurement: Option<EndMeasurement>,
}

/// What was measured, so that it can be repeated.
#[derive(Debug, Clone, PartialEq)]
pub struct EndMeasurement {
    /// The CPUs.
    pub cpus: CpuSet,
    /// The time in nanoseconds.
    pub span_ns: u64,
    /// The warm-up in nanoseconds.
    pub warmup_ns: u64,
    /// The columns.
    pub columns: Vec<ExperimentColumn>,
    /// The workload of the shield.
    pub workload: Workload,
}

/// `report --json`, as read from a file.
#[derive(Deserialize)]
struct ReportBundle<'a> {
    #[serde(borrow)]
    documents: Vec<BundledDocument<'a>>,
}

#[derive(Deserialize)]
struct BundledDocument<'a> {
    label: String,
    #[serde(borrow)]
    document: &'a RawValue,
}

impl MeasuredEnd {
    /// Reads `FILE` or `LABEL=FILE`. The label is the row of an experiment, or the label of
    /// documents in a report.
    ///
    /// # Errors
    /// The file cannot be read, is not such a document, or has several measurements and the label
    /// names none of them.
    pub fn read(files: &UserFiles, arg: &str) -> Result<MeasuredEnd, Failure> {
        let (label, file) = match arg.split_once('=') {
            Some((label, file)) if !label.contains('/') => (Some(label.trim()), file),
            _ => (None, arg),
        };
        let text = read_file(files, Path::new(file))?;
        MeasuredEnd::parse(&text, label, file)
    }

    fn parse(text: &str, label: Option<&str>, file: &str) -> Result<MeasuredEnd, Failure> {
        let name = label.map_or_else(|| file.to_owned(), |label| format!("{label} of {file}"));
        let mut end = MeasuredEnd { name, ..MeasuredEnd::default() };
        let Ok(bundle) = serde_json::from_str::<ReportBundle<'_>>(text) else {
            end.add(SavedDocument::parse(text, file)?, label, file)?;
            return Ok(end);
        };
        let labels: BTreeSet<&str> = bundle.documents.iter().map(|it| it.label.as_str()).collect();
        let hint = || {
            let labels = quote_names(&labels.iter().copied().collect::<Vec<_>>());
            format!("name one: LABEL={file}; labels: {labels}")
        };
        if let Some(label) = label.filter(|label| !labels.contains(label)) {
            return Err(Failure::usage(format!("{file} has no document {label:?}")).hint(hint()));
        }
        for BundledDocument { label: of, document } in &bundle.documents {
            if label.is_none_or(|label| label == of) {
                let saved = SavedDocument::parse(document.get(), file)?;
                if is_measurement(&saved) && end.measurement.is_some() {
                    let message = format!("{file} has several measurements");
                    return Err(Failure::usage(message).hint(hint()));
                }
                end.add(saved, None, file)?;
            }
        }
        Ok(end)
    }

    fn add(&mut self, saved: SavedDocument, row: Option<&str>, file: &str) -> Result<(), Failure> {
        match saved {
            SavedDocument::Latency(latency) => self.add_latency(&latency),
            SavedDocument::Verdict(verify) => self.add_verify(&verify),
            SavedDocument::Experiment(experiment) => self.add_experiment(&experiment, row, file)?,
            SavedDocument::Plan(plan) => self.add_plan(&plan),
            SavedDocument::Machine(machine) => self.add_machine(&machine),
            SavedDocument::Comparison(_)
            | SavedDocument::Attempt(_)
            | SavedDocument::Fixed(_)
            | SavedDocument::Search(_)
            | SavedDocument::Status(_) => {}
        }
        Ok(())
    }

    fn add_latency(&mut self, latency: &LatencyMeasurement) {
        let setting = &latency.setting;
        self.kernel.clone_from(&setting.kernel);
        self.cmdline.clone_from(&setting.cmdline);
        self.processor.clone_from(&setting.processor);
        self.shielded = Some(latency.isolation.shield.is_some());
        self.machine.extend(list_facts(setting));
        let loads = requested_words(&latency.loads);
        self.method.insert("instrument".to_owned(), latency.instrument.clone());
        self.method.insert("loads".to_owned(), loads.join(", "));
        let mut periods_ns: Vec<u64> = latency.series.iter().map(|one| one.period_ns).collect();
        periods_ns.sort_unstable();
        periods_ns.dedup();
        let policies = latency.series.iter().map(|one| one.policy.to_string()).collect();
        self.add_threads(periods_ns.iter().copied().collect(), policies);
        self.worst_ns = find_most(latency.series.iter().map(|one| one.max_ns));
        let is_other = |policy: SchedPolicy| matches!(policy, SchedPolicy::Other { .. });
        let other = latency.series.iter().any(|one| is_other(one.policy));
        self.add_measurement(EndMeasurement {
            cpus: latency.series.iter().map(|one| one.cpu).collect(),
            span_ns: latency.asked_ns,
            warmup_ns: latency.warmup_ns,
            columns: vec![ExperimentColumn {
                name: latency.instrument.clone(),
                instrument: latency.instrument.clone(),
                periods_ns,
                other,
                over_ns: Vec::new(),
                load: loads,
            }],
            workload: Workload::default(),
        });
    }

    fn add_verify(&mut self, verify: &VerifyDocument) {
        let VerifyDocument { evidence, verdict, .. } = verify;
        let guest = evidence.guest.map_or("unknown", |guest| if guest { "yes" } else { "no" });
        self.machine.insert("guest".to_owned(), guest.to_owned());
        if let Some(machine) = &evidence.machine {
            self.kernel.clone_from(&machine.kernel);
            self.cmdline.clone_from(&machine.cmdline);
            self.processor.clone_from(&machine.processor);
            self.machine.insert("online".to_owned(), machine.online.to_string());
            self.shielded = Some(evidence.shield.is_some());
        }
        for leak in verdict.cpus.iter().flat_map(|cpu| &cpu.leaks) {
            let seen = &leak.interruptions;
            // A row without a count ran only inside interruptions by others.
            if seen.count > 0 {
                let name = format!("{} {}", seen.cause, seen.culprit.text_without_pid());
                *self.symptoms.entry(name.trim_end().to_owned()).or_default() += seen.count;
            }
            let remedy = leak.remedy.iter().filter(|remedy| remedy.when == EffectTime::Runtime);
            self.remedies.extend(remedy.map(|remedy| remedy.tunable.clone()));
        }
        self.watched = evidence.cpus.iter().all(|cpu| cpu.lost == Some(0));
        self.entries = find_most(evidence.cpus.iter().map(count_entries));
        self.add_measurement(EndMeasurement {
            cpus: evidence.cpus.iter().map(|cpu| cpu.cpu).collect(),
            span_ns: if evidence.asked_ns == 0 { evidence.span_ns } else { evidence.asked_ns },
            warmup_ns: 1_000_000_000,
            columns: vec![ExperimentColumn {
                name: "spin".to_owned(),
                instrument: "spin".to_owned(),
                periods_ns: vec![0],
                other: true,
                over_ns: Vec::new(),
                load: Vec::new(),
            }],
            workload: Workload::default(),
        });
    }

    fn add_experiment(
        &mut self,
        experiment: &Experiment,
        row: Option<&str>,
        file: &str,
    ) -> Result<(), Failure> {
        let rows: Vec<&str> = experiment.rows.iter().map(|row| row.name.as_str()).collect();
        let mut all = experiment.rows.iter().enumerate();
        let found = match row {
            None => all.next().filter(|_| rows.len() == 1),
            Some(name) => all.find(|(_, row)| row.name == name),
        };
        let Some((index, row)) = found else {
            let message = match row {
                Some(name) => format!("{file} has no row {name:?}"),
                None => format!("{file} has several rows"),
            };
            let hint = format!("name one: ROW={file}; rows: {}", quote_names(&rows));
            return Err(Failure::usage(message).hint(hint));
        };
        let cells = experiment.cells.iter().filter(|cell| cell.row == index);
        let tracks = cells.flat_map(|cell| &cell.runs).flat_map(|run| &run.tracks);
        self.worst_ns = find_most(tracks.map(|track| track.max_ns));
        let setup = &experiment.setup;
        self.kernel = row.kernel.clone().or_else(|| setup.kernel.clone());
        self.processor.clone_from(&setup.processor);
        let words = setup.cmdline.iter().chain(&row.boot).map(String::as_str);
        self.cmdline = Some(joined(words, " "));
        self.shielded = Some(row.shield);
        self.tunables.clone_from(&row.tunables);
        self.machine.extend(list_facts(setup));
        self.machine.insert("settings".to_owned(), setup.settings.join("; "));
        let cpus = if row.cpus.is_empty() { &experiment.cpus } else { &row.cpus };
        let columns = &experiment.columns;
        let threads: Vec<ThreadSpec> = columns.iter().flat_map(thread_specs).collect();
        let policies = threads.iter().map(|thread| thread.policy.to_string()).collect();
        self.add_threads(threads.iter().map(|thread| thread.period_ns).collect(), policies);
        self.add_measurement(EndMeasurement {
            cpus: cpus.clone(),
            span_ns: experiment.span_ns,
            warmup_ns: experiment.warmup_ns,
            columns: columns.clone(),
            workload: Workload::default(),
        });
        Ok(())
    }

    /// Adds the threads that measured on each CPU to the method.
    fn add_threads(&mut self, periods_ns: BTreeSet<u64>, policies: BTreeSet<String>) {
        let periods = periods_ns.into_iter().map(|ns| match ns {
            0 => "none".to_owned(),
            ns => table::span(ns),
        });
        self.method.insert("periods".to_owned(), joined(periods, ", "));
        let policies: Vec<String> = policies.into_iter().collect();
        self.method.insert("policies".to_owned(), policies.join(", "));
    }

    /// Sets what was measured, and adds it to the method.
    fn add_measurement(&mut self, measurement: EndMeasurement) {
        self.method.insert("measured CPUs".to_owned(), measurement.cpus.to_string());
        self.method.insert("measured time".to_owned(), table::span(measurement.span_ns));
        self.measurement = Some(measurement);
    }

    fn add_plan(&mut self, plan: &Plan) {
        self.shielded = Some(true);
        let on = plan.steps.iter().map(|step| &step.tunable).chain(plan.already.keys());
        self.tunables.extend(on.map(|name| (name.clone(), true)));
        let off = plan.skipped.iter().filter(|it| it.reason == SkipReason::SwitchedOff);
        self.tunables.extend(off.map(|it| (it.tunable.clone(), false)));
    }

    fn add_machine(&mut self, machine: &Machine) {
        self.kernel.clone_from(&machine.kernel.release);
        self.cmdline.clone_from(&machine.kernel.cmdline);
        self.processor.clone_from(&machine.topology.model);
        let firmware = machine.firmware.iter().map(SurveyFinding::describe);
        self.machine.insert("settings".to_owned(), joined(firmware, "; "));
        self.machine.insert("online".to_owned(), machine.topology.online.to_string());
    }
}

fn is_measurement(saved: &SavedDocument) -> bool {
    matches!(
        saved,
        SavedDocument::Latency(_) | SavedDocument::Verdict(_) | SavedDocument::Experiment(_)
    )
}

/// The greatest figure; `None` when there is none, or when one of them is unknown.
fn find_most(figures: impl Iterator<Item = Option<u64>>) -> Option<u64> {
    figures.collect::<Option<Vec<u64>>>()?.into_iter().max()
}

/// The properties of a machine in a document, by the names of their keys. New keys of a document
/// are compared without a change here.
fn list_facts<T: Serialize>(facts: &T) -> BTreeMap<String, String> {
    let Ok(serde_json::Value::Object(facts)) = serde_json::to_value(facts) else {
        return BTreeMap::new();
    };
    let facts = facts.into_iter().filter(|(key, _)| !NOT_COMPARED.contains(&key.as_str()));
    let shown = facts.map(|(key, value)| {
        let value = match value {
            serde_json::Value::Null => "unknown".to_owned(),
            serde_json::Value::String(text) => text,
            other => other.to_string(),
        };
        (key.replace('_', " "), value)
    });
    shown.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::documents::evidence::{Evidence, WatchedMachine};
    use crate::documents::experiment::{ExperimentRow, ExperimentSetup, RowIsolation};
    use crate::experiment;
    use crate::latency::latency_of;
    use crate::policy::VerifyLimits;
    use crate::tunables::RemedyAnswer;
    use crate::verify::judge;
    use crate::verify::judge::examples;
    use serde_json::{Value, json};

    fn experiment() -> Value {
        let row = |name: &str, shield, boot: &[&str]| ExperimentRow {
            kernel: None,
            name: name.to_owned(),
            cpus: CpuSet::single(3),
            isolation: RowIsolation::default(),
            shield,
            tunables: BTreeMap::new(),
            boot: boot.iter().map(|word| (*word).to_owned()).collect(),
            missing: None,
        };
        let setup = ExperimentSetup {
            kernel: Some("6.12".to_owned()),
            cmdline: Some("quiet".to_owned()),
            firmware: Some("F1".to_owned()),
            settings: vec!["turbo is on".to_owned()],
            ..ExperimentSetup::default()
        };
        json!({
            "schema": experiment::SCHEMA, "name": "a", "version": "0", "state": "finished",
            "began_s": 0, "ended_s": 1, "cpus": "3", "span_ns": 7, "warmup_ns": 1, "repeats": 1,
            "boots": 1, "setup": setup,
            "rows": [row("base", false, &[]), row("nohz", true, &["nohz_full=3"])],
            "columns": [], "cells": [], "best": [], "effects": [], "notes": [],
        })
    }

    #[test]
    fn a_label_names_the_row_of_an_experiment() {
        let text = experiment().to_string();
        let end = MeasuredEnd::parse(&text, Some("nohz"), "a.json").unwrap();
        assert_eq!(end.cmdline.as_deref(), Some("quiet nohz_full=3"));
        assert_eq!((end.shielded, end.name.as_str()), (Some(true), "nohz of a.json"));
        assert_eq!(end.machine.get("firmware").map(String::as_str), Some("F1"));
        assert_eq!(end.machine.get("settings").map(String::as_str), Some("turbo is on"));
        assert_eq!(end.measurement.unwrap().span_ns, 7);
        let error = MeasuredEnd::parse(&text, None, "a.json").unwrap_err();
        assert_eq!(error.message, "a.json has several rows");
        assert_eq!(error.hints, ["name one: ROW=a.json; rows: \"base\", \"nohz\""]);
        let error = MeasuredEnd::parse(&text, Some("nohlt"), "a.json").unwrap_err();
        assert_eq!(error.message, "a.json has no row \"nohlt\"");
    }

    #[test]
    fn a_row_is_measured_again_on_its_own_cpus() {
        let mut all = experiment();
        all["cpus"] = json!("1-3");
        all["rows"][0]["cpus"] = json!("");
        let text = all.to_string();
        for (row, cpus) in [("nohz", "3"), ("base", "1-3")] {
            let end = MeasuredEnd::parse(&text, Some(row), "a.json").unwrap();
            assert_eq!(end.measurement.unwrap().cpus.to_string(), cpus, "{row}");
        }
    }

    #[test]
    fn the_method_includes_the_time_the_cpus_the_periods_and_the_policies() {
        let mut row = experiment();
        row["rows"].as_array_mut().unwrap().truncate(1);
        row["span_ns"] = json!(30_000_000_000_u64);
        row["columns"] = json!([{
            "name": "c", "instrument": "timer", "periods_ns": [25_000, 1_000_000],
            "other": false, "over_ns": [], "load": [],
        }]);
        let mut latency = latency_of(&[(2_000, 3)]);
        latency.asked_ns = 5_000_000_000;
        latency.series[0].cpu = 2;
        latency.series[0].period_ns = 0;
        latency.series[0].policy = SchedPolicy::Other { nice: 0 };
        let latency = serde_json::to_string(&latency).unwrap();
        let names = ["measured time", "measured CPUs", "periods", "policies"];
        for (text, wanted) in [
            (row.to_string(), ["30.00 s", "3", "25.0 µs, 1.00 ms", "SCHED_FIFO 79, SCHED_FIFO 80"]),
            (latency, ["5.00 s", "2", "none", "SCHED_OTHER"]),
        ] {
            let end = MeasuredEnd::parse(&text, None, "a.json").unwrap();
            assert_eq!(names.map(|name| end.method[name].as_str()), wanted);
        }
    }

    #[test]
    fn a_verdict_names_the_machine_that_was_watched() {
        let mut evidence = examples::clean();
        evidence.machine = Some(WatchedMachine {
            kernel: Some("6.12".to_owned()),
            cmdline: Some("quiet nohz_full=3".to_owned()),
            processor: Some("Model A".to_owned()),
            online: (0..4).collect(),
        });
        let verdict = judge(&evidence, &VerifyLimits::default(), &|_, _| RemedyAnswer::Unknown);
        let parse = |evidence: &Evidence| {
            let document = VerifyDocument::new(evidence.clone(), verdict.clone());
            let text = json!(document).to_string();
            MeasuredEnd::parse(&text, None, "v.json").unwrap()
        };
        let end = parse(&evidence);
        assert_eq!(end.kernel.as_deref(), Some("6.12"));
        assert_eq!(end.cmdline.as_deref(), Some("quiet nohz_full=3"));
        assert_eq!((end.processor.as_deref(), end.shielded), (Some("Model A"), Some(false)));
        assert_eq!(end.machine.get("online").map(String::as_str), Some("0-3"));
        evidence.shield = Some("lathe".to_owned());
        assert_eq!(parse(&evidence).shielded, Some(true));
        // An older document says nothing about its machine.
        evidence.machine = None;
        let end = parse(&evidence);
        assert_eq!((end.kernel, end.cmdline, end.shielded), (None, None, None));
    }

    #[test]
    fn a_label_names_a_document_of_a_report() {
        let mut one = experiment();
        one["rows"].as_array_mut().unwrap().truncate(1);
        let entry = |label: &str| json!({ "label": label, "from": "x", "document": one });
        let bundle = json!({ "schema": 1, "title": "", "documents": [entry("a"), entry("b")] });
        let bundle = bundle.to_string();
        assert_eq!(MeasuredEnd::parse(&bundle, Some("b"), "r").unwrap().shielded, Some(false));
        let error = MeasuredEnd::parse(&bundle, None, "r").unwrap_err();
        assert_eq!(error.message, "r has several measurements");
        assert_eq!(error.hints, ["name one: LABEL=r; labels: \"a\", \"b\""]);
        let error = MeasuredEnd::parse(&bundle, Some("c"), "r").unwrap_err();
        assert_eq!(error.message, "r has no document \"c\"");
        assert_eq!(error.hints, ["name one: LABEL=r; labels: \"a\", \"b\""]);
        assert!(MeasuredEnd::parse("{}", None, "r").is_err());
    }
}
