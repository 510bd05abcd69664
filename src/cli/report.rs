//! `cpushield report`: shows saved documents, or the current machine, as a page, a picture,
//! Markdown, one JSON document, or plots on the terminal.

use super::GlobalArgs;
use super::paint::paint;
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
    self, LabelledDocument, PlanWithOutcome, Report, ReportMaterial, WatchCommand, WatchWithVerdict,
};
use crate::report::try_report::TryReport;
use crate::run::{self, ShieldStatus};
use crate::survey::Machine;
use crate::ui::{OutputFormat, Ui};
use clap::ValueEnum;
use cpushield_linux::{Host, Store, can_write, process, write_document};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// The schema version of `report --json`.
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

/// The format of a report.
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

/// What `report --json` prints: the given documents, unchanged.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DocumentBundle<'a> {
    /// The schema version: [`SCHEMA`].
    schema: u32,
    /// The title of the report.
    title: String,
    /// The documents, in the given order.
    documents: Vec<BundleEntry<'a>>,
}

/// A document, with its label and the command that prints this kind of document.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "from")]
enum BundleEntry<'a> {
    /// The machine, as `survey::Machine`.
    #[serde(rename = "survey --json")]
    Machine {
        label: &'a str,
        #[cfg_attr(feature = "schema", schemars(with = "Unspecified"))]
        document: &'a Machine,
    },
    /// A plan, as `plan::Plan`.
    #[serde(rename = "plan -o FILE")]
    Plan {
        label: &'a str,
        #[cfg_attr(feature = "schema", schemars(with = "Unspecified"))]
        document: &'a Plan,
    },
    /// What interrupted the CPUs, and the verdict.
    #[serde(rename = "verify --json")]
    Verdict { label: &'a str, document: &'a VerifyDocument },
    /// A latency measurement.
    #[serde(rename = "latency --json")]
    Latency { label: &'a str, document: &'a LatencyMeasurement },
    /// A tried shield, as `report::try_report::TryReport`.
    #[serde(rename = "try --json")]
    Attempt {
        label: &'a str,
        #[cfg_attr(feature = "schema", schemars(with = "Unspecified"))]
        document: &'a TryReport,
    },
    /// What `verify --fix` changed.
    #[serde(rename = "verify --fix --json")]
    Fixed { label: &'a str, document: &'a FixReport },
    /// A comparison of measurements.
    #[serde(rename = "compare --json")]
    Comparison { label: &'a str, document: &'a Comparison },
    /// An experiment with many configurations.
    #[serde(rename = "experiment --json")]
    Experiment { label: &'a str, document: &'a Experiment },
    /// The active shield, as `run::ShieldStatus`.
    #[serde(rename = "status --json")]
    Status {
        label: &'a str,
        #[cfg_attr(feature = "schema", schemars(with = "Unspecified"))]
        document: &'a ShieldStatus,
    },
}

/// An object that the schema does not describe further.
#[cfg(feature = "schema")]
type Unspecified = std::collections::BTreeMap<String, serde_json::Value>;

impl<'a> BundleEntry<'a> {
    fn new(named: &'a NamedDocument) -> BundleEntry<'a> {
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

/// Runs the subcommand.
///
/// # Errors
/// A file is not a document of cpushield, or the report cannot be written.
pub fn run(ui: &Ui, global: &GlobalArgs, args: &ReportArgs) -> Result<(), Failure> {
    args.active.check(&global.host()?, &global.store())?;
    let format = choose_format(ui, args)?;
    let target = args.output.as_deref().filter(|file| *file != Path::new("-"));
    target.map_or(Ok(()), can_write)?;
    let (documents, doubts) = match args.files.as_slice() {
        [] => current_documents(global)?,
        files => (
            files.iter().map(|file| NamedDocument::read(file)).collect::<Result<_, _>>()?,
            Vec::new(),
        ),
    };
    let mut material = collect_material(&documents, global)?;
    material.doubts.extend(doubts);
    material.title.clone_from(&args.title);
    material.output = args.output.as_ref().map(|file| file.display().to_string());
    material.live = args.files.is_empty();
    let report = page::report(&material);
    let text = match format {
        ReportFormat::Html => page::page(&report),
        ReportFormat::Svg => page::picture(choose_picture(&report, args.picture.as_deref())?),
        ReportFormat::Md => page::markdown(&report),
        ReportFormat::Json => bundle(&report, &documents)?,
        ReportFormat::Text => {
            let characters = match process::locale_is_utf8() {
                true => page::CharacterSet::Unicode,
                false => page::CharacterSet::Ascii,
            };
            page::terminal(&report, ui.width(), characters, &paint)
        }
    };
    match target {
        Some(file) => {
            write_document(file, &text)?;
            ui.status(&format!("wrote {}", file.display()));
        }
        None => ui.text(&text)?,
    }
    Ok(())
}

/// The format: `--format`, `--json`, or the extension of the file name.
///
/// # Errors
/// The format is unknown, or has no pictures to choose from.
fn choose_format(ui: &Ui, args: &ReportArgs) -> Result<ReportFormat, Failure> {
    let extension = args.output.as_deref().and_then(Path::extension);
    let extension = extension.map(|extension| extension.to_string_lossy().to_lowercase());
    let format = match (args.format, &args.output, extension.as_deref()) {
        (Some(format), _, _) => format,
        (None, _, _) if ui.format == OutputFormat::Json => ReportFormat::Json,
        (None, None, _) => ReportFormat::Text,
        (None, Some(file), None) if file == Path::new("-") => ReportFormat::Html,
        (None, _, Some("html" | "htm")) => ReportFormat::Html,
        (None, _, Some("svg")) => ReportFormat::Svg,
        (None, _, Some("md" | "markdown")) => ReportFormat::Md,
        (None, _, Some("json")) => ReportFormat::Json,
        (None, _, Some("txt")) => ReportFormat::Text,
        (None, _, Some("png")) => {
            return Err(Failure::usage("cannot draw a PNG: that needs fonts and a renderer")
                .hint("write an .svg and convert it: rsvg-convert -z 2 report.svg -o report.png"));
        }
        (None, Some(file), _) => {
            return Err(Failure::usage(format!(
                "cannot tell the format from the name {}",
                file.display()
            ))
            .hint("use a name that ends in .html, .svg, .md, .json or .txt")
            .hint("or give --format"));
        }
    };
    if args.picture.is_some() && format != ReportFormat::Svg {
        return Err(Failure::usage("--picture is only for the svg format")
            .hint("omit --picture; the other formats contain all pictures"));
    }
    Ok(format)
}

/// The documents of this machine and its active shield, with doubts about them.
fn current_documents(global: &GlobalArgs) -> Result<(Vec<NamedDocument>, Vec<String>), Failure> {
    let host = global.host()?;
    let store = global.store();
    let machine = super::survey_machine(&host, &store);
    let mut found = vec![("now", SavedDocument::Machine(Box::new(machine)))];
    let mut doubts = Vec::new();
    match run::active(&host, &store) {
        Ok(Some(plan)) => found.push(("shield", SavedDocument::Plan(Box::new(plan)))),
        Ok(None) => {}
        // Without root the journal cannot be read. The report shows everything else.
        Err(error) => {
            let why = Failure::from(error).message.replace('\n', ";");
            doubts.push(format!("it is unknown whether a shield is in force: {why}"));
        }
    }
    let documents = found
        .into_iter()
        .map(|(label, saved)| NamedDocument { label: label.to_owned(), file: String::new(), saved })
        .collect();
    Ok((documents, doubts))
}

/// Sorts the documents by kind.
fn collect_material(
    documents: &[NamedDocument],
    global: &GlobalArgs,
) -> Result<ReportMaterial, Failure> {
    let mut material = ReportMaterial::default();
    for NamedDocument { label, file, saved } in documents {
        match saved.clone() {
            SavedDocument::Machine(machine) => {
                material.machines.push(LabelledDocument::new(label, *machine));
            }
            SavedDocument::Plan(plan) if file.is_empty() => {
                let settings = read_outcomes(&global.host()?, &global.store(), *plan)?;
                material.settings.push(LabelledDocument::new(label, settings));
            }
            SavedDocument::Plan(plan) => {
                material
                    .settings
                    .push(LabelledDocument::new(label, PlanWithOutcome::planned(*plan)));
            }
            SavedDocument::Verdict(verify) => {
                let (evidence, verdict) = (verify.evidence, Some(verify.verdict));
                let watch = WatchWithVerdict { origin: WatchCommand::Verify, evidence, verdict };
                material.observations.push(LabelledDocument::new(label, watch));
            }
            SavedDocument::Latency(latency) => {
                material.latencies.push(LabelledDocument::new(label, *latency));
            }
            SavedDocument::Attempt(report) => material.add_attempt(label, *report),
            SavedDocument::Fixed(report) => material.add_fixed(label, *report),
            SavedDocument::Comparison(comparison) => {
                material.comparisons.push(LabelledDocument::new(label, *comparison));
            }
            SavedDocument::Experiment(experiment) => {
                material.experiments.push(LabelledDocument::new(label, *experiment));
            }
            other => {
                return Err(Failure::usage(format!(
                    "{file}: a report cannot show output of `cpushield {}`",
                    other.command()
                ))
                .hint("show the active shield without any file: cpushield report"));
            }
        }
    }
    Ok(material)
}

/// Reads the outcome of each step of the active shield, and what has changed since.
fn read_outcomes(
    host: &Host,
    store: &Store,
    plan: crate::plan::Plan,
) -> Result<PlanWithOutcome, Failure> {
    let outcomes = apply::outcomes(host, store)?;
    let ShieldStatus { shield, .. } = run::status(host, store)?;
    let drift = shield.map(|shield| shield.drift).unwrap_or_default();
    Ok(PlanWithOutcome { plan, outcomes, drift, undone: false })
}

/// The picture of this name, or the first one.
///
/// # Errors
/// There is no such picture.
fn choose_picture<'a>(
    report: &'a Report,
    name: Option<&str>,
) -> Result<&'a page::Picture, Failure> {
    let known: Vec<&str> = report.pictures().map(|picture| picture.id.as_str()).collect();
    let found = report.pictures().find(|picture| name.is_none_or(|name| picture.id == name));
    found.ok_or_else(|| match known.as_slice() {
        [] => Failure::usage("these documents have no picture")
            .hint("add a document: a survey has a map, verify has noise, latency has a histogram"),
        known => {
            let (name, known) = (name.unwrap_or_default(), known.join(", "));
            Failure::usage(format!("there is no picture {name:?}"))
                .hint(format!("choose one of these: {known}"))
        }
    })
}

/// Writes all documents as one JSON document.
fn bundle(report: &Report, documents: &[NamedDocument]) -> Result<String, Failure> {
    let documents = documents.iter().map(BundleEntry::new).collect();
    let bundle = DocumentBundle { schema: SCHEMA, title: report.title.clone(), documents };
    let json = serde_json::to_string_pretty(&bundle)
        .map_err(|e| Failure::new(FailureKind::Bug, format!("cannot make JSON: {e}")))?;
    Ok(json + "\n")
}
