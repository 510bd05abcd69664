//! Reads saved documents of every kind.
//!
//! Each kind is identified by its keys (`KINDS`): a document is of a kind if it has all of them. A
//! document that matches no kind, or several, is refused, so none is mistaken for another. The
//! schema version is checked first, because a newer version may use the same keys differently.

use super::given_file::read_file;
use crate::compare;
use crate::documents::comparison::Comparison;
use crate::documents::count_text::joined;
use crate::documents::evidence::{self, UnfinishedWatch, VerifyDocument};
use crate::documents::experiment::Experiment;
use crate::documents::fix_report::{self, FixReport};
use crate::documents::latency::LatencyMeasurement;
use crate::documents::machine::Machine;
use crate::documents::option_search::OptionSearch;
use crate::documents::plan::Plan;
use crate::documents::shield_status::ShieldStatus;
use crate::documents::try_report::{self, TryReport};
use crate::experiment;
use crate::experiment::search;
use crate::failure::Failure;
use crate::latency;
use crate::plan;
use crate::run;
use crate::survey;
use cpushield_linux::UserFiles;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

/// A saved document.
#[derive(Debug, Clone, PartialEq)]
pub enum SavedDocument {
    /// `survey --json`.
    Machine(Box<Machine>),
    /// `plan -o` or `plan --json`.
    Plan(Box<Plan>),
    /// `verify --json`.
    Verdict(Box<VerifyDocument>),
    /// `latency --json`.
    Latency(Box<LatencyMeasurement>),
    /// `try --json`.
    Attempt(Box<TryReport>),
    /// `verify --fix --json`.
    Fixed(Box<FixReport>),
    /// `compare --json`.
    Comparison(Box<Comparison>),
    /// `experiment --json`.
    Experiment(Box<Experiment>),
    /// `experiment FILE --minimize --json`.
    Search(Box<OptionSearch>),
    /// `status --json`.
    Status(Box<ShieldStatus>),
}

/// A saved document with a label.
#[derive(Debug, Clone, PartialEq)]
pub struct NamedDocument {
    /// The label, or the file name without its extension.
    pub label: String,
    /// The file, as given on the command line.
    pub file: String,
    /// The document.
    pub saved: SavedDocument,
}

/// Why a text is not a document of cpushield.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SavedError {
    /// The file.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The column, from 1.
    pub column: usize,
    /// What is wrong, and what was expected.
    pub why: String,
    /// What to do next, if that is known.
    pub hint: Option<String>,
}

/// How a kind of document is identified and read.
struct DocumentKind {
    /// The command that prints it.
    command: &'static str,
    /// Keys that this kind has. No other kind has all of them.
    keys: &'static [&'static str],
    /// Each part with a schema number, by its key, and the supported number. The document itself
    /// has no key.
    schemas: &'static [(&'static str, u32)],
    /// Parses the document.
    read: fn(&str) -> serde_json::Result<SavedDocument>,
}

fn parse_whole<T: DeserializeOwned>(
    text: &str,
    make: impl FnOnce(Box<T>) -> SavedDocument,
) -> serde_json::Result<SavedDocument> {
    serde_json::from_str(text).map(|document| make(Box::new(document)))
}

/// Every kind that can be read.
const KINDS: &[DocumentKind] = &[
    DocumentKind {
        command: "survey --json",
        keys: &["kernel", "topology", "irqs"],
        schemas: &[("", survey::SCHEMA)],
        read: |text| parse_whole(text, SavedDocument::Machine),
    },
    DocumentKind {
        command: "plan -o FILE",
        keys: &["shield", "steps", "skipped"],
        schemas: &[("", plan::SCHEMA)],
        read: |text| parse_whole(text, SavedDocument::Plan),
    },
    DocumentKind {
        command: "verify --json",
        keys: &["evidence", "verdict"],
        schemas: &[
            ("", evidence::SCHEMA),
            ("evidence", evidence::SCHEMA),
            ("verdict", evidence::SCHEMA),
        ],
        read: |text| parse_whole(text, SavedDocument::Verdict),
    },
    DocumentKind {
        command: "latency --json",
        keys: &["instrument", "series", "setting"],
        schemas: &[("", latency::SCHEMA)],
        read: |text| parse_whole(text, SavedDocument::Latency),
    },
    DocumentKind {
        command: "try --json",
        keys: &["plan", "before", "shielded"],
        schemas: &[
            ("", try_report::SCHEMA),
            ("plan", plan::SCHEMA),
            ("before", evidence::SCHEMA),
            ("shielded", evidence::SCHEMA),
            ("verdict", evidence::SCHEMA),
        ],
        read: |text| parse_whole(text, SavedDocument::Attempt),
    },
    DocumentKind {
        command: "verify --fix --json",
        keys: &["rounds", "end", "lacks"],
        schemas: &[("", fix_report::SCHEMA)],
        read: |text| parse_whole(text, SavedDocument::Fixed),
    },
    DocumentKind {
        command: "compare --json",
        keys: &["alpha", "groups", "pairs"],
        schemas: &[("", compare::SCHEMA)],
        read: |text| parse_whole(text, SavedDocument::Comparison),
    },
    DocumentKind {
        command: "experiment --json",
        keys: &["rows", "columns", "cells"],
        schemas: &[("", experiment::SCHEMA)],
        read: |text| parse_whole(text, SavedDocument::Experiment),
    },
    DocumentKind {
        command: "experiment --minimize --json",
        keys: &["goal", "options", "trials"],
        schemas: &[("", search::SCHEMA)],
        read: |text| parse_whole(text, SavedDocument::Search),
    },
    DocumentKind {
        command: "status --json",
        keys: &["shields", "isolated", "nohz_full"],
        schemas: &[("", run::SCHEMA)],
        read: |text| parse_whole(text, SavedDocument::Status),
    },
];

impl SavedDocument {
    /// Parses a document; `file` is its name for errors.
    ///
    /// # Errors
    /// The text is not a document. Names the place and what was expected there.
    pub fn parse(text: &str, file: &str) -> Result<SavedDocument, SavedError> {
        SavedDocument::parse_for(text, file, &[])
    }

    /// Parses a document. Hints name only the `wanted` commands; without any, all commands.
    fn parse_for(text: &str, file: &str, wanted: &[&str]) -> Result<SavedDocument, SavedError> {
        let place = DocumentText { text, file };
        let top: BTreeMap<String, &RawValue> =
            serde_json::from_str(text).map_err(|error| place.not_an_object(&error))?;
        let kind = identify_kind(&top).map_err(|why| place.no_kind(why, wanted))?;
        for (key, newest) in kind.schemas {
            let part = if key.is_empty() { Some(text) } else { top.get(*key).map(|raw| raw.get()) };
            part.map_or(Ok(()), |part| place.check_schema(part, *newest, kind))?;
        }
        (kind.read)(text).map_err(|error| {
            let why = message_without_place(&error);
            place.error(error.line(), error.column(), format!("{}: {why}", expected_output(kind)))
        })
    }

    /// Reads a document.
    ///
    /// # Errors
    /// The file cannot be read, or is not a document of cpushield.
    pub fn read(files: &UserFiles, file: &Path) -> Result<SavedDocument, Failure> {
        SavedDocument::read_for(files, file, &[])
    }

    /// Reads a document for a caller that wants the output of these commands (`latency --json`).
    /// Other kinds are also read; the caller reports why it cannot use them.
    ///
    /// # Errors
    /// As [`SavedDocument::read`]. The hint names only the wanted commands.
    pub fn read_for(
        files: &UserFiles,
        file: &Path,
        wanted: &[&str],
    ) -> Result<SavedDocument, Failure> {
        let name = file.display().to_string();
        Ok(SavedDocument::parse_for(&read_file(files, file)?, &name, wanted)?)
    }

    /// The error for a file that should have held another kind: `a plan`.
    pub(super) fn is_not(&self, file: impl fmt::Display, wanted: &str) -> Failure {
        let command = self.command();
        Failure::usage(format!("{file} is not {wanted}: it is the output of `cpushield {command}`"))
    }

    /// The command that prints this kind: `latency --json`.
    #[must_use]
    pub fn command(&self) -> &'static str {
        match self {
            SavedDocument::Machine(_) => "survey --json",
            SavedDocument::Plan(_) => "plan -o FILE",
            SavedDocument::Verdict(_) => "verify --json",
            SavedDocument::Latency(_) => "latency --json",
            SavedDocument::Attempt(_) => "try --json",
            SavedDocument::Fixed(_) => "verify --fix --json",
            SavedDocument::Comparison(_) => "compare --json",
            SavedDocument::Experiment(_) => "experiment --json",
            SavedDocument::Search(_) => "experiment --minimize --json",
            SavedDocument::Status(_) => "status --json",
        }
    }
}

impl NamedDocument {
    /// Reads `FILE` or `LABEL=FILE`. The text before the first `=` is a label unless it contains a
    /// slash: `./a=b.json` is a file.
    ///
    /// # Errors
    /// The file cannot be read, or is not a document of cpushield.
    pub fn read(files: &UserFiles, arg: &str) -> Result<NamedDocument, Failure> {
        let (label, file) = match arg.split_once('=') {
            Some((label, file)) if !label.contains('/') => (label.trim(), file),
            _ => ("", arg),
        };
        let label = match (label, Path::new(file).file_stem()) {
            ("", Some(stem)) => stem.to_string_lossy().into_owned(),
            ("", None) => file.to_owned(),
            (label, _) => label.to_owned(),
        };
        Ok(NamedDocument {
            label,
            file: file.to_owned(),
            saved: SavedDocument::read(files, Path::new(file))?,
        })
    }
}

/// The kind that a document belongs to: the only one whose keys are all present.
fn identify_kind(top: &BTreeMap<String, &RawValue>) -> Result<&'static DocumentKind, String> {
    let found: Vec<&DocumentKind> =
        KINDS.iter().filter(|kind| kind.keys.iter().all(|key| top.contains_key(*key))).collect();
    match found.as_slice() {
        [kind] => Ok(kind),
        [] if top.is_empty() => Err("expected a cpushield document, found no keys".to_owned()),
        [] => Err("expected a cpushield document, found other keys".to_owned()),
        many => {
            let names = many.iter().map(|kind| kind.command);
            Err(format!(
                "expected one document, found the keys of several documents: {}",
                joined(names, ", ")
            ))
        }
    }
}

/// The hint that lists the commands whose output can be read.
fn readable_kinds(wanted: &[&str]) -> String {
    let all = KINDS.iter().map(|kind| kind.command);
    let readable = all.filter(|command| wanted.is_empty() || wanted.contains(command));
    let names = readable.map(|command| format!("cpushield {command}"));
    format!("use the output of one of these: {}", joined(names, ", "))
}

fn expected_output(kind: &DocumentKind) -> String {
    format!("expected the output of `cpushield {}`", kind.command)
}

/// The message of an error without its `at line 1 column 2`, because the place comes first here.
fn message_without_place(error: &serde_json::Error) -> String {
    let message = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    message.strip_suffix(&place).map_or_else(|| message.clone(), str::to_owned)
}

/// The text of a document and its file name, for errors.
struct DocumentText<'a> {
    text: &'a str,
    file: &'a str,
}

impl DocumentText<'_> {
    fn error(&self, line: usize, column: usize, why: String) -> SavedError {
        let (line, column) = (line.max(1), column.max(1));
        SavedError { file: self.file.to_owned(), line, column, why, hint: None }
    }

    /// An error where a part of the text begins.
    fn error_at(&self, part: &str, why: String) -> SavedError {
        let offset = (part.as_ptr() as usize).saturating_sub(self.text.as_ptr() as usize);
        let before = self.text.get(..offset).unwrap_or("");
        let line = 1 + before.matches('\n').count();
        let column = 1 + before.rsplit('\n').next().map_or(0, |start| start.chars().count());
        self.error(line, column, why)
    }

    /// The error of a text that is of no kind: a watch that did not end, or something else.
    fn no_kind(&self, why: String, wanted: &[&str]) -> SavedError {
        match serde_json::from_str::<UnfinishedWatch>(self.text) {
            Ok(watch) => self
                .error(1, 1, watch.to_string())
                .hint("a watch cannot be resumed; watch again: cpushield verify"),
            Err(_) => self.error(1, 1, why).hint(&readable_kinds(wanted)),
        }
    }

    fn not_an_object(&self, error: &serde_json::Error) -> SavedError {
        let why = message_without_place(error);
        let (why, hint) = match self.text.trim_start().chars().next() {
            None => (
                "expected a cpushield document, found an empty file".to_owned(),
                Some("check whether the command that wrote it failed"),
            ),
            Some('{') if why == "trailing characters" => (
                "expected one document, found more text after it".to_owned(),
                Some("save each document in a separate file"),
            ),
            Some('{') => (format!("expected JSON: {why}"), None),
            Some(_) => (
                "expected a JSON document of cpushield, found other text".to_owned(),
                Some("text output cannot be read; save the document with --json"),
            ),
        };
        let error = self.error(error.line(), error.column(), why);
        SavedError { hint: hint.map(str::to_owned), ..error }
    }

    /// Checks the schema number of a part of the text.
    fn check_schema(&self, part: &str, newest: u32, kind: &DocumentKind) -> Result<(), SavedError> {
        // A value that is not an object is reported when the document is parsed.
        let Ok(object) = serde_json::from_str::<BTreeMap<String, &RawValue>>(part) else {
            return Ok(());
        };
        let Some(raw) = object.get("schema").map(|raw| raw.get()) else {
            let why = format!("{} with a `schema` number", expected_output(kind));
            return Err(self.error_at(part, why));
        };
        match raw.parse::<u64>() {
            Ok(found) if found == u64::from(newest) => Ok(()),
            Ok(found) if found > u64::from(newest) => {
                let why = format!(
                    "this document is newer: it has schema {found}, but {newest} is supported"
                );
                Err(self
                    .error_at(raw, why)
                    .hint("read it with the newer version of cpushield that wrote it"))
            }
            _ => Err(self.error_at(raw, format!("expected schema {newest}, found {raw}"))),
        }
    }
}

impl SavedError {
    fn hint(mut self, hint: &str) -> SavedError {
        self.hint = Some(hint.to_owned());
        self
    }
}

impl fmt::Display for SavedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}: {}", self.file, self.line, self.column, self.why)
    }
}

impl std::error::Error for SavedError {}

impl From<SavedError> for Failure {
    fn from(error: SavedError) -> Failure {
        let failure = Failure::usage(error.to_string());
        match error.hint {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::documents::evidence::{Evidence, PositiveControl, Verdict, WatchedWorkload};
    use crate::documents::fix_report::{FixEnd, FixRound};
    use crate::documents::latency::{MeasuredIsolation, MeasuredSetting, TraceUse};
    use crate::documents::machine::{Cpu, Machine};
    use crate::policy::{LatencyLimits, ShieldRequest};
    use crate::report::blocks::{terminal_blocks, unpainted};
    use crate::report::page::{LabelledDocument, ReportMaterial, report};
    use cpushield_linux::CpuSet;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    fn machine() -> Machine {
        let mut machine = Machine { schema: survey::SCHEMA, ..Machine::default() };
        machine.topology.online = (0..4).collect();
        machine.topology.present = (0..4).collect();
        machine.topology.cpus = (0..4)
            .map(|cpu| Cpu { cpu, siblings: [cpu].into_iter().collect(), ..Cpu::default() })
            .collect();
        machine
    }

    fn evidence() -> Evidence {
        Evidence {
            shield: None,
            open_to: None,
            options: None,
            schema: evidence::SCHEMA,
            began_s: None,
            began_ns: 0,
            span_ns: 1,
            asked_ns: 1,
            ended: None,
            stopped: false,
            workload: WatchedWorkload::Sampler,
            guest: None,
            machine: None,
            cpus: Vec::new(),
            witnesses: Vec::new(),
            control: PositiveControl::Seen { provoked: Vec::new() },
            interference: Vec::new(),
            traced: None,
            breach: None,
        }
    }

    fn verdict() -> Verdict {
        Verdict {
            schema: evidence::SCHEMA,
            cpus: Vec::new(),
            gates: Vec::new(),
            tick: Default::default(),
        }
    }

    fn latency() -> Value {
        json!({
            "schema": latency::SCHEMA, "instrument": "timer", "asked_ns": 1, "span_ns": 1,
            "warmup_ns": 0, "stopped": false, "unfinished": false, "began_s": 0, "began_ns": 0,
            "series": [], "loads": [], "limits": LatencyLimits::default(), "gates": [],
            "tracing": TraceUse::default(), "isolation": MeasuredIsolation::default(), "setting": MeasuredSetting::default(),
            "doubts": [], "notes": [],
        })
    }

    fn experiment() -> Value {
        json!({
            "schema": experiment::SCHEMA, "name": "a", "version": "0", "state": "finished", "began_s": 0,
            "ended_s": 1, "cpus": "3", "span_ns": 1, "warmup_ns": 1, "repeats": 1, "boots": 1,
            "setup": experiment::ExperimentSetup::default(), "rows": [], "columns": [], "cells": [], "best": [],
            "effects": [], "notes": [],
        })
    }

    fn search() -> Value {
        json!({
            "schema": search::SCHEMA, "name": "a", "version": "0",
            "row": "all", "state": "finished", "began_s": 0,
            "ended_s": 1, "cpus": "3",
            "goal": { "goal": "max-entries", "count": 0, "text": "at most 0 entries" },
            "test": { "miss_rate_met": 0.1, "miss_rate_missed": 0.5, "error_rate": 0.05,
                      "measurements_max": 9 },
            "span_ns": 1, "warmup_ns": 1, "columns": [],
            "setup": experiment::ExperimentSetup::default(), "options": [], "fixed": [],
            "trials": [], "end": null, "found": null, "notes": [],
        })
    }

    /// One document of each kind, as it is printed.
    fn every() -> Vec<Value> {
        let plan = plan::plan(&machine(), &ShieldRequest::default()).unwrap();
        let attempt = TryReport {
            schema: try_report::SCHEMA,
            plan: plan.clone(),
            changed: Vec::new(),
            refused: 0,
            before: evidence(),
            shielded: evidence(),
            verdict: verdict(),
            price: None,
            restored: 0,
            left: Vec::new(),
            differences: Vec::new(),
        };
        let round = FixRound { evidence: evidence(), verdict: verdict(), done: Vec::new() };
        let (rounds, remains, lacks) = (vec![round], Vec::new(), Vec::new());
        let fixed =
            FixReport { schema: fix_report::SCHEMA, rounds, end: FixEnd::Holds, remains, lacks };
        let (shields, isolated, nohz_full, swept) = (Vec::new(), None, None, 0);
        let state = run::ShieldState::NoShield.into();
        let status = ShieldStatus {
            schema: run::SCHEMA,
            state,
            shields,
            isolated,
            nohz_full,
            swept,
            unchecked: Vec::new(),
        };
        vec![
            json!(machine()),
            json!(plan),
            json!(VerifyDocument::new(evidence(), verdict())),
            latency(),
            json!(attempt),
            json!(fixed),
            json!({ "schema": compare::SCHEMA, "alpha": 0.05, "groups": [], "pairs": [] }),
            experiment(),
            search(),
            json!(status),
        ]
    }

    #[test]
    fn every_kind_is_read_as_itself_and_as_no_other_kind() {
        let every = every();
        assert_eq!(every.len(), KINDS.len());
        for (document, kind) in every.iter().zip(KINDS) {
            let saved = SavedDocument::parse(&format!("{document:#}"), "f").unwrap();
            assert_eq!(saved.command(), kind.command);
            let keys = document.as_object().unwrap();
            let fits = KINDS.iter().filter(|kind| kind.keys.iter().all(|k| keys.contains_key(*k)));
            assert_eq!(fits.count(), 1, "{}", kind.command);
        }
    }

    #[test]
    fn a_saved_search_is_a_section_of_the_report() {
        let saved = SavedDocument::parse(&search().to_string(), "search.json").unwrap();
        let SavedDocument::Search(search) = saved else { panic!("{saved:?}") };
        let searches = vec![LabelledDocument::new("search", *search)];
        let report = report(&ReportMaterial { searches, ..ReportMaterial::default() });
        assert_eq!(report.title, "Which options matter");
        let section = report.sections.iter().find(|section| section.id == "search").unwrap();
        let text = terminal_blocks(&section.blocks, usize::MAX, &unpainted);
        assert!(text.starts_with("Search a: "), "{text}");
    }

    #[test]
    fn a_wrong_schema_number_is_refused_with_its_place() {
        for (document, kind) in every().iter().zip(KINDS) {
            for (key, newest) in kind.schemas {
                let changed = |number: Value| {
                    let mut document = document.clone();
                    let part = if key.is_empty() { &mut document } else { &mut document[*key] };
                    part["schema"] = number;
                    format!("{document:#}")
                };
                let newer = changed(json!(newest + 1));
                let error = SavedDocument::parse(&newer, "f").unwrap_err();
                let line = newer.lines().nth(error.line - 1).unwrap();
                assert!(line.contains(&format!("\"schema\": {}", newest + 1)), "{error}: {line}");
                assert!(error.why.contains("is newer") && error.hint.is_some(), "{error}");
                for odd in [json!(0), json!("1"), json!(-1), json!(1.5), Value::Null] {
                    let error = SavedDocument::parse(&changed(odd), "f").unwrap_err();
                    assert!(error.why.starts_with("expected schema"), "{error}");
                }
            }
        }
        let mut both = every()[0].clone();
        both.as_object_mut().unwrap().extend(every()[3].as_object().unwrap().clone());
        let error = SavedDocument::parse(&both.to_string(), "f").unwrap_err().to_string();
        assert!(error.contains("several documents: survey --json, latency --json"), "{error}");
    }

    #[test]
    fn a_text_that_is_not_a_document_gives_one_error() {
        let good = format!("{:#}", every()[3]);
        let lines = good.lines().count();
        let period = good.replace("\"asked_ns\": 1", "\"asked_ns\": \"1s\"");
        let whole = format!("{good}\n{good}");
        let end = lines + 1;
        let hint =
            SavedDocument::parse_for("{}", "f", &["latency --json"]).unwrap_err().hint.unwrap();
        assert_eq!(hint, "use the output of one of these: cpushield latency --json");
        for (text, expected) in [
            ("", "f:1:1: expected a cpushield document, found an empty file".to_owned()),
            ("{}", "f:1:1: expected a cpushield document, found no keys".to_owned()),
            ("{\"a\": 1}", "f:1:1: expected a cpushield document, found other keys".to_owned()),
            ("Worst 3 us", "f:1:1: expected a JSON document of cpushield, found".to_owned()),
            ("{\n\"a\": x}", "f:2:6: expected JSON: expected value".to_owned()),
            (&whole, format!("f:{end}:1: expected one document, found more text")),
            (&period, "expected the output of `cpushield latency --json`: invalid type".to_owned()),
        ] {
            let error = SavedDocument::parse(text, "f").unwrap_err().to_string();
            assert!(error.contains(&expected), "{text}: {error}");
        }
        let error = SavedDocument::parse(&period, "f").unwrap_err();
        assert!(good.lines().nth(error.line - 1).unwrap().contains("asked_ns"), "{error}");
    }

    #[test]
    fn a_watch_that_did_not_end_is_refused_with_its_length() {
        let watch = UnfinishedWatch {
            schema: evidence::SCHEMA,
            cpus: CpuSet::single(3),
            asked_ns: 3_600_000_000_000,
            watched_ns: 120_000_000_000,
            entries: Some(0),
            gap_ns: None,
        };
        let text = serde_json::to_string_pretty(&watch).unwrap();
        let error = SavedDocument::parse(&text, "hour.json").unwrap_err();
        assert_eq!(error.to_string(), format!("hour.json:1:1: {watch}"));
        assert!(error.hint.is_some());
    }

    #[test]
    fn a_label_precedes_the_file() {
        let dir = std::env::temp_dir().join(format!("cpushield-saved-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let file = dir.join("before=1.json");
        std::fs::write(&file, every()[3].to_string()).unwrap();
        let name = file.display().to_string();
        let read = |arg: &str| NamedDocument::read(&UserFiles::default(), arg);
        assert_eq!(read(&name).unwrap().label, "before=1");
        let named = read(&format!("with <shield>={name}")).unwrap();
        assert_eq!((named.label.as_str(), named.file), ("with <shield>", name));
        let absent = read("x=/nowhere/at/all").unwrap_err();
        assert!(absent.message.contains("/nowhere/at/all"), "{absent}");
        std::fs::remove_dir_all(dir).unwrap();
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(cut in 0usize..3000, noise in ".{0,20}", n in 0..KINDS.len()) {
            let good = format!("{:#}", every()[n]);
            let cut = (0..=cut.min(good.len())).rev().find(|i| good.is_char_boundary(*i)).unwrap();
            let _ = SavedDocument::parse(&noise, "f");
            let _ = SavedDocument::parse(&good[..cut], "f");
            let _ = SavedDocument::parse(&format!("{}{noise}{}", &good[..cut], &good[cut..]), "f");
        }
    }
}
