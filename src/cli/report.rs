//! `cpushield report`: saved documents, or this machine as it is, as one page, a picture, Markdown,
//! one JSON document, or plots on the terminal.

use super::GlobalArgs;
use super::saved_document::{NamedDocument, SavedDocument, VerifyDocument};
use super::standing::ActiveArgs;
use crate::apply;
use crate::compare::Comparison;
use crate::experiment::Experiment;
use crate::failure::{Failure, FailureKind};
use crate::latency::LatencyMeasurement;
use crate::plan::Plan;
use crate::report::fix_report::FixReport;
use crate::report::page::{
    self, LabelledDocument, PlanWithOutcome, Report, ReportMaterial, TextTone, WatchCommand,
    WatchWithVerdict,
};
use crate::report::try_report::TryReport;
use crate::run::{self, ShieldStatus};
use crate::survey::Machine;
use crate::ui::{self, Ui};
use clap::ValueEnum;
use cpushield_linux::{Host, Store, can_write, process, write_document};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// The version of the form of `report --json`.
pub const SCHEMA: u32 = 1;

/// Make a report: the machine, the changes and the remaining interruptions
///
/// Reads documents that other subcommands saved with --json (survey, verify, latency, try) and
/// plans of `plan -o`. Give the files before the change first. Without a file, the report describes
/// this machine and its active shield.
///
/// The page is self-contained: it needs no network and no script. Without -o, the report is shown
/// on the terminal, with plots.
#[derive(Debug, clap::Args)]
pub struct ReportArgs {
    /// Saved documents, optionally with a label: `before=a.json`
    #[arg(value_name = "[LABEL=]FILE", conflicts_with = "shield")]
    files: Vec<String>,
    /// Write the report to this file: .html, .svg, .md or .json; `-` is standard output
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Output format, if the file name does not determine it
    #[arg(long, value_enum)]
    format: Option<ReportFormat>,
    /// Picture for an .svg file: `map`, `noise`, `histogram` or `timeline`; the second of a kind is
    /// `histogram-2` [default: the first picture]
    #[arg(long, value_name = "NAME")]
    picture: Option<String>,
    /// Title of the report
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
    /// The active shield
    #[command(flatten)]
    active: ActiveArgs,
}

/// What a report is written as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ReportFormat {
    /// One page
    Html,
    /// One picture
    Svg,
    /// Markdown, without pictures
    Md,
    /// All documents in one
    Json,
    /// Lines for a terminal
    Text,
}

/// What `report --json` prints: every document that it was given, as it is.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DocumentBundle<'a> {
    /// The version of this form: [`SCHEMA`].
    schema: u32,
    /// Of the page.
    title: String,
    /// In the order given.
    documents: Vec<BundleEntry<'a>>,
}

/// A document, with its name for the reader and the command that prints such a one.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "from")]
enum BundleEntry<'a> {
    /// The machine; its form is that of `survey::Machine`.
    #[serde(rename = "survey --json")]
    Machine {
        label: &'a str,
        #[cfg_attr(feature = "schema", schemars(with = "Unspecified"))]
        document: &'a Machine,
    },
    /// A plan; its form is that of `plan::Plan`.
    #[serde(rename = "plan -o FILE")]
    Plan {
        label: &'a str,
        #[cfg_attr(feature = "schema", schemars(with = "Unspecified"))]
        document: &'a Plan,
    },
    /// What interrupted CPUs, and a verdict.
    #[serde(rename = "verify --json")]
    Verdict { label: &'a str, document: &'a VerifyDocument },
    /// How late threads were.
    #[serde(rename = "latency --json")]
    Latency { label: &'a str, document: &'a LatencyMeasurement },
    /// A shield that was tried; its form is that of `report::attempt::TryReport`.
    #[serde(rename = "try --json")]
    Attempt {
        label: &'a str,
        #[cfg_attr(feature = "schema", schemars(with = "Unspecified"))]
        document: &'a TryReport,
    },
    /// What was put right.
    #[serde(rename = "verify --fix --json")]
    Fixed { label: &'a str, document: &'a FixReport },
    /// Measurements beside each other.
    #[serde(rename = "compare --json")]
    Comparison { label: &'a str, document: &'a Comparison },
    /// Many configurations.
    #[serde(rename = "experiment --json")]
    Experiment { label: &'a str, document: &'a Experiment },
    /// The shield in force; its form is that of `run::ShieldStatus`.
    #[serde(rename = "status --json")]
    Status {
        label: &'a str,
        #[cfg_attr(feature = "schema", schemars(with = "Unspecified"))]
        document: &'a ShieldStatus,
    },
}

/// An object whose form is not described here.
#[cfg(feature = "schema")]
type Unspecified = std::collections::BTreeMap<String, serde_json::Value>;

impl<'a> BundleEntry<'a> {
    fn of(named: &'a NamedDocument) -> BundleEntry<'a> {
        let label = named.label.as_str();
        match &named.saved {
            SavedDocument::Machine(document) => BundleEntry::Machine { label, document },
            SavedDocument::Plan(document) => BundleEntry::Plan { label, document },
            SavedDocument::Verdict(document) => BundleEntry::Verdict { label, document },
            SavedDocument::Latency(document) => BundleEntry::Latency { label, document },
            SavedDocument::Attempt(document) => BundleEntry::Attempt { label, document },
            SavedDocument::Fixed(document) => BundleEntry::Fixed { label, document },
            SavedDocument::Comparison(document) => BundleEntry::Comparison { label, document },
            SavedDocument::Experiment(document) => BundleEntry::Experiment { label, document },
            SavedDocument::Status(document) => BundleEntry::Status { label, document },
        }
    }
}

/// Runs it.
///
/// # Errors
/// A file is none of our documents, or the report cannot be written.
pub fn run(ui: &Ui, global: &GlobalArgs, args: &ReportArgs) -> Result<(), Failure> {
    args.active.check(&global.host()?, &global.store())?;
    let form = form(ui, args)?;
    let target = args.output.as_deref().filter(|file| *file != Path::new("-"));
    target.map_or(Ok(()), can_write)?;
    let (documents, doubts) = match args.files.as_slice() {
        [] => here(global)?,
        files => (
            files.iter().map(|file| NamedDocument::read(file)).collect::<Result<_, _>>()?,
            Vec::new(),
        ),
    };
    let mut material = material(&documents, global)?;
    material.doubts.extend(doubts);
    material.title.clone_from(&args.title);
    material.output = args.output.as_ref().map(|file| file.display().to_string());
    material.live = args.files.is_empty();
    let report = page::report(&material);
    let written = match form {
        ReportFormat::Html => page::page(&report),
        ReportFormat::Svg => page::picture(chosen(&report, args.picture.as_deref())?),
        ReportFormat::Md => page::markdown(&report),
        ReportFormat::Json => bundle(&report, &documents)?,
        ReportFormat::Text => {
            page::terminal(&report, ui.width(), process::locale_is_utf8(), &paint)
        }
    };
    match target {
        Some(file) => {
            write_document(file, &written)?;
            ui.status(&format!("wrote {}", file.display()));
        }
        None => ui.text(&written)?,
    }
    Ok(())
}

/// What is to be written, by the name of the file where nothing else says it.
fn form(ui: &Ui, args: &ReportArgs) -> Result<ReportFormat, Failure> {
    let named = args.output.as_deref().and_then(Path::extension);
    let named = named.map(|ending| ending.to_string_lossy().to_lowercase());
    let form = match (args.format, &args.output, named.as_deref()) {
        (Some(form), _, _) => form,
        (None, _, _) if ui.format == ui::OutputFormat::Json => ReportFormat::Json,
        (None, None, _) => ReportFormat::Text,
        (None, Some(file), None) if file == Path::new("-") => ReportFormat::Html,
        (None, _, Some("html" | "htm")) => ReportFormat::Html,
        (None, _, Some("svg")) => ReportFormat::Svg,
        (None, _, Some("md" | "markdown")) => ReportFormat::Md,
        (None, _, Some("json")) => ReportFormat::Json,
        (None, _, Some("txt")) => ReportFormat::Text,
        (None, _, Some("png")) => {
            return Err(Failure::usage("no PNG is drawn: that would need fonts and a renderer")
                .hint("write an .svg and convert it: rsvg-convert -z 2 report.svg -o report.png"));
        }
        (None, Some(file), _) => {
            return Err(Failure::usage(format!(
                "cannot tell the format from the name {}",
                file.display()
            ))
            .hint("let it end in .html, .svg, .md, .json or .txt, or give --format"));
        }
    };
    if args.picture.is_some() && form != ReportFormat::Svg {
        return Err(Failure::usage("--picture chooses the picture of an .svg")
            .hint("the other forms have all pictures: leave --picture out"));
    }
    Ok(form)
}

/// This machine as it is, with the shield in force.
fn here(global: &GlobalArgs) -> Result<(Vec<NamedDocument>, Vec<String>), Failure> {
    let host = global.host()?;
    let store = global.store();
    let named =
        |label: &str, saved| NamedDocument { label: label.to_owned(), file: String::new(), saved };
    let machine = super::surveyed(&host, &store);
    let mut documents = vec![named("now", SavedDocument::Machine(Box::new(machine)))];
    let mut doubts = Vec::new();
    match run::active(&host, &store) {
        Ok(Some(plan)) => documents.push(named("shield", SavedDocument::Plan(Box::new(plan)))),
        Ok(None) => {}
        // Without root the journal cannot be read; what else is known is shown all the same.
        Err(error) => {
            let why = Failure::from(error).message.replace('\n', ";");
            doubts.push(format!("whether a shield is in force is not known: {why}"));
        }
    }
    Ok((documents, doubts))
}

/// The documents by kind.
fn material(documents: &[NamedDocument], global: &GlobalArgs) -> Result<ReportMaterial, Failure> {
    let mut material = ReportMaterial::default();
    for NamedDocument { label, file, saved } in documents {
        match saved.clone() {
            SavedDocument::Machine(it) => material.machines.push(LabelledDocument::new(label, *it)),
            SavedDocument::Plan(plan) if file.is_empty() => {
                let settings = in_force(&global.host()?, &global.store(), *plan)?;
                material.settings.push(LabelledDocument::new(label, settings));
            }
            SavedDocument::Plan(plan) => {
                material
                    .settings
                    .push(LabelledDocument::new(label, PlanWithOutcome::planned(*plan)));
            }
            SavedDocument::Verdict(it) => {
                let (evidence, verdict) = (it.evidence, Some(it.verdict));
                let look = WatchWithVerdict { origin: WatchCommand::Verify, evidence, verdict };
                material.observations.push(LabelledDocument::new(label, look));
            }
            SavedDocument::Latency(it) => {
                material.latencies.push(LabelledDocument::new(label, *it))
            }
            SavedDocument::Attempt(it) => material.add_attempt(label, *it),
            SavedDocument::Fixed(it) => material.add_fixed(label, *it),
            SavedDocument::Comparison(it) => {
                material.comparisons.push(LabelledDocument::new(label, *it))
            }
            SavedDocument::Experiment(it) => {
                material.experiments.push(LabelledDocument::new(label, *it))
            }
            other => {
                return Err(Failure::usage(format!(
                    "{file}: a report cannot show what `cpushield {}` prints",
                    other.from()
                ))
                .hint("without any file it shows the shield in force: cpushield report"));
            }
        }
    }
    Ok(material)
}

/// The shield in force, with what came of its steps and what changed since.
fn in_force(
    host: &Host,
    store: &Store,
    plan: crate::plan::Plan,
) -> Result<PlanWithOutcome, Failure> {
    let outcomes = apply::outcomes(host, store)?;
    let ShieldStatus { shield, .. } = run::status(host, store)?;
    let drift = shield.map(|shield| shield.drift).unwrap_or_default();
    Ok(PlanWithOutcome { plan, outcomes, drift, undone: false })
}

/// The picture that was asked for, or the first one.
fn chosen<'a>(report: &'a Report, name: Option<&str>) -> Result<&'a page::Picture, Failure> {
    let known: Vec<&str> = report.pictures().map(|picture| picture.id.as_str()).collect();
    let found = report.pictures().find(|picture| name.is_none_or(|name| picture.id == name));
    found.ok_or_else(|| match known.as_slice() {
        [] => Failure::usage("these documents have no picture")
            .hint("a survey has a map, verify has noise, latency has a histogram"),
        known => {
            let (name, known) = (name.unwrap_or_default(), known.join(", "));
            Failure::usage(format!("there is no picture {name:?}"))
                .hint(format!("these documents have: {known}"))
        }
    })
}

/// All documents in one.
fn bundle(report: &Report, documents: &[NamedDocument]) -> Result<String, Failure> {
    let bug =
        |e: serde_json::Error| Failure::new(FailureKind::Bug, format!("cannot make JSON: {e}"));
    let documents = documents.iter().map(BundleEntry::of).collect();
    let bundle = DocumentBundle { schema: SCHEMA, title: report.title.clone(), documents };
    Ok(serde_json::to_string_pretty(&bundle).map_err(bug)? + "\n")
}

fn paint(tone: TextTone, words: &str) -> String {
    match tone {
        TextTone::Plain => words.to_owned(),
        TextTone::Good => ui::Emphasis::Good.paint(words),
        TextTone::Bad => ui::Emphasis::Bad.paint(words),
        TextTone::Doubt => ui::Emphasis::Doubt.paint(words),
    }
}
