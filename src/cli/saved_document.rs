//! Saved documents: a file in, the document out, whatever kind of ours it is.
//!
//! Each kind is known by keys of its own (`KINDS`): a text is of a kind when it has all of them.
//! One that fits no kind, or more than one, is refused, so no document is taken for another. The
//! version is looked at before anything else is, because a newer form may mean something else by
//! the same words.

use super::input;
use crate::compare::{self, Comparison};
use crate::experiment::{self, Experiment};
use crate::failure::Failure;
use crate::latency::{self, LatencyMeasurement};
use crate::plan::{self, Plan};
use crate::report::fix_report::{self, FixReport};
use crate::report::try_report::{self, TryReport};
use crate::run::{self, ShieldStatus};
use crate::survey::{self, Machine};
use crate::verify::{self, Evidence, Verdict};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
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
    /// `status --json`.
    Status(Box<ShieldStatus>),
}

/// What `verify --json` prints, read back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct VerifyDocument {
    /// What was observed.
    pub evidence: Evidence,
    /// What that means.
    pub verdict: Verdict,
}

/// A saved document with the name that a person gave it.
#[derive(Debug, Clone, PartialEq)]
pub struct NamedDocument {
    /// The label, or the file's name without its ending.
    pub label: String,
    /// The file, as it was given.
    pub file: String,
    /// The document.
    pub saved: SavedDocument,
}

/// Why a text is none of our documents.
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
    /// What to do about it, where that is known.
    pub hint: Option<String>,
}

/// What a kind of document is known by.
struct DocumentKind {
    /// The command that prints it.
    from: &'static str,
    /// Keys that it has, and that no other kind has all of.
    keys: &'static [&'static str],
    /// Where version numbers stand, as keys from the top, and which are known.
    schemas: &'static [(&'static [&'static str], u32)],
    /// Reads it.
    read: fn(&str) -> serde_json::Result<SavedDocument>,
}

fn whole<T: DeserializeOwned>(
    text: &str,
    make: impl FnOnce(Box<T>) -> SavedDocument,
) -> serde_json::Result<SavedDocument> {
    serde_json::from_str(text).map(|document| make(Box::new(document)))
}

/// Every kind that can be read.
const KINDS: &[DocumentKind] = &[
    DocumentKind {
        from: "survey --json",
        keys: &["kernel", "topology", "irqs"],
        schemas: &[(&[], survey::SCHEMA)],
        read: |text| whole(text, SavedDocument::Machine),
    },
    DocumentKind {
        from: "plan -o FILE",
        keys: &["shield", "steps", "skipped"],
        schemas: &[(&[], plan::SCHEMA)],
        read: |text| whole(text, SavedDocument::Plan),
    },
    DocumentKind {
        from: "verify --json",
        keys: &["evidence", "verdict"],
        schemas: &[(&["evidence"], verify::SCHEMA), (&["verdict"], verify::SCHEMA)],
        read: |text| whole(text, SavedDocument::Verdict),
    },
    DocumentKind {
        from: "latency --json",
        keys: &["instrument", "series", "setting"],
        schemas: &[(&[], latency::SCHEMA)],
        read: |text| whole(text, SavedDocument::Latency),
    },
    DocumentKind {
        from: "try --json",
        keys: &["plan", "before", "shielded"],
        schemas: &[
            (&[], try_report::SCHEMA),
            (&["plan"], plan::SCHEMA),
            (&["before"], verify::SCHEMA),
            (&["shielded"], verify::SCHEMA),
            (&["verdict"], verify::SCHEMA),
        ],
        read: |text| whole(text, SavedDocument::Attempt),
    },
    DocumentKind {
        from: "verify --fix --json",
        keys: &["rounds", "end", "lacks"],
        schemas: &[(&[], fix_report::SCHEMA)],
        read: |text| whole(text, SavedDocument::Fixed),
    },
    DocumentKind {
        from: "compare --json",
        keys: &["alpha", "groups", "pairs"],
        schemas: &[(&[], compare::SCHEMA)],
        read: |text| whole(text, SavedDocument::Comparison),
    },
    DocumentKind {
        from: "experiment --json",
        keys: &["rows", "columns", "cells"],
        schemas: &[(&[], experiment::SCHEMA)],
        read: |text| whole(text, SavedDocument::Experiment),
    },
    DocumentKind {
        from: "status --json",
        keys: &["shield", "isolated", "nohz_full"],
        schemas: &[(&[], run::SCHEMA)],
        read: |text| whole(text, SavedDocument::Status),
    },
];

impl SavedDocument {
    /// The document that a text is; `file` is its name for errors.
    ///
    /// # Errors
    /// Names the place and what was expected there.
    pub fn parse(text: &str, file: &str) -> Result<SavedDocument, SavedError> {
        SavedDocument::parse_for(text, file, &[])
    }

    /// The same for who wants what these commands print, and is told no others; none: any.
    fn parse_for(text: &str, file: &str, wanted: &[&str]) -> Result<SavedDocument, SavedError> {
        let place = DocumentText { text, file };
        let top: BTreeMap<String, &RawValue> =
            serde_json::from_str(text).map_err(|error| place.not_an_object(&error))?;
        let kind = kind_of(&top).map_err(|why| place.wrong(1, 1, why).hint(&known(wanted)))?;
        for (keys, newest) in kind.schemas {
            place.check_schema(&top, keys, *newest, kind)?;
        }
        (kind.read)(text).map_err(|error| {
            let why = without_place(&error);
            place.wrong(error.line(), error.column(), format!("{}: {why}", article(kind)))
        })
    }

    /// Reads a document.
    ///
    /// # Errors
    /// The file cannot be read, or is none of our documents.
    pub fn read(file: &Path) -> Result<SavedDocument, Failure> {
        SavedDocument::read_for(file, &[])
    }

    /// Reads a document for who wants what these commands print (`latency --json`). Another kind is
    /// read too: only the caller knows why it is none for it.
    ///
    /// # Errors
    /// As [`SavedDocument::read`]; the hint names no other commands.
    pub fn read_for(file: &Path, wanted: &[&str]) -> Result<SavedDocument, Failure> {
        let name = file.display().to_string();
        Ok(SavedDocument::parse_for(&input::read_file(file)?, &name, wanted)?)
    }

    /// The command that prints this kind: `latency --json`.
    #[must_use]
    pub fn from(&self) -> &'static str {
        match self {
            SavedDocument::Machine(_) => "survey --json",
            SavedDocument::Plan(_) => "plan -o FILE",
            SavedDocument::Verdict(_) => "verify --json",
            SavedDocument::Latency(_) => "latency --json",
            SavedDocument::Attempt(_) => "try --json",
            SavedDocument::Fixed(_) => "verify --fix --json",
            SavedDocument::Comparison(_) => "compare --json",
            SavedDocument::Experiment(_) => "experiment --json",
            SavedDocument::Status(_) => "status --json",
        }
    }
}

impl NamedDocument {
    /// Reads `FILE` or `LABEL=FILE`. What stands before the first `=` is a label unless it has a
    /// slash in it: `./a=b.json` is a file.
    ///
    /// # Errors
    /// The file cannot be read, or is none of our documents.
    pub fn read(word: &str) -> Result<NamedDocument, Failure> {
        let (label, file) = match word.split_once('=') {
            Some((label, file)) if !label.contains('/') => (label.trim(), file),
            _ => ("", word),
        };
        let stem = || Path::new(file).file_stem().map(|stem| stem.to_string_lossy().into_owned());
        let label = match label {
            "" => stem().unwrap_or_else(|| file.to_owned()),
            label => label.to_owned(),
        };
        Ok(NamedDocument {
            label,
            file: file.to_owned(),
            saved: SavedDocument::read(Path::new(file))?,
        })
    }
}

/// The kind whose keys are all there.
fn kind_of(top: &BTreeMap<String, &RawValue>) -> Result<&'static DocumentKind, String> {
    let fits = |kind: &&DocumentKind| kind.keys.iter().all(|key| top.contains_key(*key));
    let found: Vec<&DocumentKind> = KINDS.iter().filter(fits).collect();
    match found.as_slice() {
        [kind] => Ok(kind),
        [] => Err("expected a document of cpushield, found other keys".to_owned()),
        many => {
            let names: Vec<&str> = many.iter().map(|kind| kind.from).collect();
            Err(format!("expected one document, found keys of several: {}", names.join(", ")))
        }
    }
}

/// What can be read, for a hint.
fn known(wanted: &[&str]) -> String {
    let all = KINDS.iter().map(|kind| kind.from);
    let known = all.filter(|from| wanted.is_empty() || wanted.contains(from));
    let names: Vec<String> = known.map(|from| format!("cpushield {from}")).collect();
    format!("what these print can be read: {}", names.join(", "))
}

/// `what verify --json prints`.
fn article(kind: &DocumentKind) -> String {
    format!("expected what `cpushield {}` writes", kind.from)
}

/// The words of an error without `at line 1 column 2`, which stands before them.
fn without_place(error: &serde_json::Error) -> String {
    let words = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    words.strip_suffix(&place).map_or_else(|| words.clone(), str::to_owned)
}

/// A text with its name, for errors.
struct DocumentText<'a> {
    text: &'a str,
    file: &'a str,
}

impl DocumentText<'_> {
    fn wrong(&self, line: usize, column: usize, why: String) -> SavedError {
        let (line, column) = (line.max(1), column.max(1));
        SavedError { file: self.file.to_owned(), line, column, why, hint: None }
    }

    /// Where a part of the text begins.
    fn at(&self, part: &str, why: String) -> SavedError {
        let offset = (part.as_ptr() as usize).saturating_sub(self.text.as_ptr() as usize);
        let before = self.text.get(..offset).unwrap_or("");
        let line = 1 + before.matches('\n').count();
        let column = 1 + before.rsplit('\n').next().map_or(0, |start| start.chars().count());
        self.wrong(line, column, why)
    }

    fn not_an_object(&self, error: &serde_json::Error) -> SavedError {
        let why = without_place(error);
        let wrong = |why| self.wrong(error.line(), error.column(), why);
        match self.text.trim_start().chars().next() {
            None => wrong("expected a document of cpushield, found an empty file".to_owned())
                .hint("did the command that was to fill it end with an error?"),
            Some('{') if why == "trailing characters" => {
                wrong("expected one document, found more text behind it".to_owned())
                    .hint("put each document into a file of its own")
            }
            Some('{') => wrong(format!("expected JSON: {why}")),
            Some(_) => wrong("expected a JSON document of cpushield, found other text".to_owned())
                .hint("text output cannot be read back; save the document with --json"),
        }
    }

    /// The number behind the keys must be one that is known.
    fn check_schema(
        &self,
        top: &BTreeMap<String, &RawValue>,
        keys: &[&str],
        newest: u32,
        kind: &DocumentKind,
    ) -> Result<(), SavedError> {
        let mut object = top.clone();
        for key in keys {
            let Some(inner) = object.get(*key).map(|raw| raw.get()) else { return Ok(()) };
            // What is no object is told when it is read.
            let Ok(found) = serde_json::from_str(inner) else { return Ok(()) };
            object = found;
        }
        let Some(raw) = object.get("schema").map(|raw| raw.get()) else {
            let here =
                keys.first().and_then(|key| top.get(*key)).map_or(self.text, |raw| raw.get());
            return Err(self.at(here, format!("{} with a `schema` number", article(kind))));
        };
        match raw.parse::<u64>() {
            Ok(found) if found == u64::from(newest) => Ok(()),
            Ok(found) if found > u64::from(newest) => Err(self
                .at(raw, format!("this document is newer: schema {found}, {newest} is known here"))
                .hint("a newer cpushield made it; read it with that one")),
            _ => Err(self.at(raw, format!("expected schema {newest}, found {raw}"))),
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
    use crate::latency::{MeasuredIsolation, MeasuredSetting};
    use crate::policy::ShieldRequest;
    use crate::report::fix_report::{FixEnd, FixRound};
    use crate::survey::{Cpu, Machine};
    use crate::verify::{PositiveControl, WatchedWorkload};
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
            schema: verify::SCHEMA,
            began_s: None,
            began_ns: None,
            span_ns: 1,
            asked_ns: 1,
            ended: None,
            stopped: false,
            workload: WatchedWorkload::Sampler,
            guest: None,
            cpus: Vec::new(),
            witnesses: Vec::new(),
            control: PositiveControl::NotDone { why: "a test".to_owned() },
            interference: Vec::new(),
            traced: None,
            breach: None,
        }
    }

    fn verdict() -> Verdict {
        Verdict { schema: verify::SCHEMA, cpus: Vec::new(), gates: Vec::new() }
    }

    /// As an older version printed it: what came since has a default.
    fn latency() -> Value {
        json!({
            "schema": latency::SCHEMA, "instrument": "timer", "asked_ns": 1, "span_ns": 1,
            "warmup_ns": 0, "stopped": false, "began_s": 0, "began_ns": 0, "series": [],
            "gates": [], "isolation": MeasuredIsolation::default(), "setting": MeasuredSetting::default(),
            "doubts": [], "notes": [],
        })
    }

    fn experiment() -> Value {
        json!({
            "schema": experiment::SCHEMA, "name": "a", "version": "0", "state": "finished", "began_s": 0,
            "ended_s": 1, "cpus": "3", "span_ns": 1, "warmup_ns": 1, "repeats": 1, "boots": 1,
            "scene": experiment::ExperimentSetup::default(), "rows": [], "columns": [], "cells": [], "best": [],
            "effects": [], "notes": [],
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
        let (shield, isolated, nohz_full, swept) = (None, None, None, 0);
        let state = run::ShieldState::NoShield.into();
        let status =
            ShieldStatus { schema: run::SCHEMA, state, shield, isolated, nohz_full, swept };
        vec![
            json!(machine()),
            json!(plan),
            json!({ "evidence": evidence(), "verdict": verdict() }),
            latency(),
            json!(attempt),
            json!(fixed),
            json!({ "schema": compare::SCHEMA, "alpha": 0.05, "groups": [], "pairs": [] }),
            experiment(),
            json!(status),
        ]
    }

    #[test]
    fn every_kind_is_read_as_what_it_is_and_as_nothing_else() {
        let every = every();
        assert_eq!(every.len(), KINDS.len());
        for (document, kind) in every.iter().zip(KINDS) {
            let saved = SavedDocument::parse(&format!("{document:#}"), "f").unwrap();
            assert_eq!(saved.from(), kind.from);
            let keys = document.as_object().unwrap();
            let fits = KINDS.iter().filter(|kind| kind.keys.iter().all(|k| keys.contains_key(*k)));
            assert_eq!(fits.count(), 1, "{}", kind.from);
        }
    }

    #[test]
    fn what_is_newer_older_or_both_is_refused_where_it_stands() {
        for (document, kind) in every().iter().zip(KINDS) {
            for (keys, newest) in kind.schemas {
                let changed = |number: Value| {
                    let mut document = document.clone();
                    let path = keys.iter().map(|key| format!("/{key}")).collect::<String>();
                    document.pointer_mut(&path).unwrap()["schema"] = number;
                    format!("{document:#}")
                };
                let newer = changed(json!(newest + 1));
                let error = SavedDocument::parse(&newer, "f").unwrap_err();
                let there = newer.lines().nth(error.line - 1).unwrap();
                assert!(there.contains(&format!("\"schema\": {}", newest + 1)), "{error}: {there}");
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
        assert!(error.contains("several: survey --json, latency --json"), "{error}");
    }

    #[test]
    fn what_is_none_of_ours_is_one_clear_error() {
        let good = format!("{:#}", every()[3]);
        let lines = good.lines().count();
        let period = good.replace("\"asked_ns\": 1", "\"asked_ns\": \"1s\"");
        let whole = format!("{good}\n{good}");
        let end = lines + 1;
        let hint =
            SavedDocument::parse_for("{}", "f", &["latency --json"]).unwrap_err().hint.unwrap();
        assert_eq!(hint, "what these print can be read: cpushield latency --json");
        for (text, said) in [
            ("", "f:1:1: expected a document of cpushield, found an empty file".to_owned()),
            ("{}", "f:1:1: expected a document of cpushield, found other keys".to_owned()),
            ("Worst 3 us", "f:1:1: expected a JSON document of cpushield, found".to_owned()),
            ("{\n\"a\": x}", "f:2:6: expected JSON: expected value".to_owned()),
            (&whole, format!("f:{end}:1: expected one document, found more text")),
            (&period, "expected what `cpushield latency --json` writes: invalid type".to_owned()),
        ] {
            let error = SavedDocument::parse(text, "f").unwrap_err().to_string();
            assert!(error.contains(&said), "{text}: {error}");
        }
        let error = SavedDocument::parse(&period, "f").unwrap_err();
        assert!(good.lines().nth(error.line - 1).unwrap().contains("asked_ns"), "{error}");
    }

    #[test]
    fn a_label_stands_before_the_file() {
        let dir = std::env::temp_dir().join(format!("cpushield-saved-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let file = dir.join("before=1.json");
        std::fs::write(&file, every()[3].to_string()).unwrap();
        let name = file.display().to_string();
        assert_eq!(NamedDocument::read(&name).unwrap().label, "before=1");
        let named = NamedDocument::read(&format!("with <shield>={name}")).unwrap();
        assert_eq!((named.label.as_str(), named.file), ("with <shield>", name));
        assert!(
            NamedDocument::read("x=/nowhere/at/all")
                .unwrap_err()
                .message
                .contains("/nowhere/at/all")
        );
        std::fs::remove_dir_all(dir).unwrap();
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(cut in 0usize..3000, noise in ".{0,20}", n in 0usize..9) {
            let good = format!("{:#}", every()[n]);
            let cut = (0..=cut.min(good.len())).rev().find(|i| good.is_char_boundary(*i)).unwrap();
            let _ = SavedDocument::parse(&noise, "f");
            let _ = SavedDocument::parse(&good[..cut], "f");
            let _ = SavedDocument::parse(&format!("{}{noise}{}", &good[..cut], &good[cut..]), "f");
        }
    }
}
