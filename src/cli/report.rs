//! `cpushield report`: shows saved documents, or the current machine, as a page, a picture,
//! Markdown, one JSON document, or plots on the terminal.

use super::GlobalArgs;
use super::active::ActiveArgs;
use super::help::{HelpTail, READING};
use crate::input::is_standard_output;

use crate::failure::Failure;
use crate::report::{blocks, page};
use crate::ui::{OutputFormat, Ui, paint};
use crate::workflow::report_material::{bundle_text, choose_picture, collect_material};
use clap::ValueEnum;
use std::path::{Path, PathBuf};

/// Make a report: the machine, the changes and the remaining interruptions
///
/// Reads documents that survey, verify, latency, try, compare, experiment and status saved with
/// --json, and plans saved by `plan -o`. List the files from before the change first. Without a
/// file, the report describes this machine and its active shield.
///
/// An HTML report is a single file. It loads nothing from the network and is complete without
/// JavaScript. Without -o, the report is shown on the terminal, with plots.
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
    /// Picture for an .svg file: `map`, `noise`, `histogram` or `timeline`; `histogram-2` is the
    /// second histogram [default: the first picture]
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
    /// A self-contained page
    Html,
    /// A single picture
    Svg,
    /// Markdown, without pictures
    Md,
    /// All documents in one JSON document
    Json,
    /// Text, as on a terminal
    Text,
}

/// The end of its help.
pub(super) const HELP: HelpTail = HelpTail {
    examples: &[
        ("cpushield report before.json after.json -o report.html", "a page"),
        ("cpushield report off=a.json on=b.json --format md", "Markdown, with labels"),
        ("cpushield report a.json --picture histogram -o a.svg", "one picture"),
    ],
    exit_codes: READING,
};

/// Runs the subcommand.
///
/// # Errors
/// A file is not a document of cpushield, or the report cannot be written.
pub fn run(ui: &Ui, global: &GlobalArgs, args: &ReportArgs) -> Result<(), Failure> {
    let mut work = global.open(ui)?;
    args.active.select(&mut work)?;
    let format = choose_format(ui, args)?;
    let target = args.output.as_deref().filter(|file| !is_standard_output(file));
    let files = work.host.user_files();
    target.map_or(Ok(()), |file| files.check_writable(file))?;
    let (mut material, documents) = collect_material(&work, &args.files)?;
    material.title.clone_from(&args.title);
    material.output = args.output.as_ref().map(|file| file.display().to_string());
    let report = page::report(&material);
    let text = match format {
        ReportFormat::Html => blocks::page(&report),
        ReportFormat::Svg => blocks::picture(choose_picture(&report, args.picture.as_deref())?),
        ReportFormat::Md => blocks::markdown(&report),
        ReportFormat::Json => bundle_text(&report, &documents)?,
        ReportFormat::Text => {
            let characters = match ui.is_unicode() {
                true => blocks::CharacterSet::Unicode,
                false => blocks::CharacterSet::Ascii,
            };
            blocks::terminal(&report, ui.width(), characters, &paint)
        }
    };
    match target {
        Some(file) => {
            files.write(file, &text)?;
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
        (None, Some(file), None) if is_standard_output(file) => ReportFormat::Html,
        (None, _, Some("html" | "htm")) => ReportFormat::Html,
        (None, _, Some("svg")) => ReportFormat::Svg,
        (None, _, Some("md" | "markdown")) => ReportFormat::Md,
        (None, _, Some("json")) => ReportFormat::Json,
        (None, _, Some("txt")) => ReportFormat::Text,
        (None, _, Some("png")) => {
            return Err(Failure::usage(
                "cannot write a PNG: cpushield has no fonts and no renderer",
            )
            .hint(
                "write an .svg file and convert it: rsvg-convert -z 2 report.svg -o report.png",
            ));
        }
        (None, Some(file), _) => {
            return Err(Failure::usage(format!(
                "cannot determine the format from the name {}",
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
