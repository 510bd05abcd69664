//! `cpushield compare`: compares repeated measurements and tells differences from chance.

use super::paint::paint;
use super::saved_document::SavedDocument;
use crate::compare::{self, GivenGroup, GivenRun, MeasuredDocument};
use crate::failure::Failure;
use crate::report::compare as report;
use crate::report::page::terminal_blocks;
use crate::ui::Ui;
use std::path::Path;

/// Compare measurements and tell which differences are significant
///
/// A file is the output of `latency --json` or `verify --json`. The first file or group is the
/// baseline. Only repeated runs can tell a difference from chance. 5 interleaved runs of each
/// (before, after, before, after, …) are best.
#[derive(Debug, clap::Args)]
pub struct CompareArgs {
    /// A file, or repeated runs of one configuration: before=a1.json,a2.json
    #[arg(required = true, value_name = "GROUP")]
    groups: Vec<String>,
}

/// Runs the subcommand.
///
/// # Errors
/// A file is not a measurement, or the groups cannot be compared.
pub fn run(ui: &Ui, args: &CompareArgs) -> Result<(), Failure> {
    let groups = args.groups.iter().map(|arg| read_group(arg)).collect::<Result<Vec<_>, _>>()?;
    let comparison = compare::compare(&groups)?;
    ui.show(&comparison, || terminal_blocks(&report::blocks(&comparison), ui.width(), &paint))
}

/// Reads a group: `NAME=FILE,FILE`, or a single file.
fn read_group(arg: &str) -> Result<GivenGroup, Failure> {
    let (name, files) = match arg.split_once('=') {
        // A path may contain `=`, so a word with a slash before it is no name.
        Some((name, files)) if !name.is_empty() && !name.contains('/') => {
            (name, files.split(',').collect())
        }
        _ => (arg, vec![arg]),
    };
    let files = files.into_iter().filter(|file| !file.is_empty());
    let runs = files.map(read_run).collect::<Result<Vec<GivenRun>, Failure>>()?;
    Ok(GivenGroup { name: name.to_owned(), runs })
}

fn read_run(file: &str) -> Result<GivenRun, Failure> {
    let measured =
        match SavedDocument::read_for(Path::new(file), &["latency --json", "verify --json"])? {
            SavedDocument::Latency(latency) => MeasuredDocument::Latency(latency),
            SavedDocument::Verdict(verify) => {
                MeasuredDocument::Verify(Box::new(verify.evidence), Box::new(verify.verdict))
            }
            other => {
                let command = other.command();
                let message =
                    format!("{file} is not a measurement: it is output of `cpushield {command}`");
                return Err(Failure::usage(message)
                    .hint("measure latency: cpushield latency timer --json > FILE")
                    .hint("or measure interruptions: cpushield verify --json > FILE"));
            }
        };
    Ok(GivenRun { name: file.to_owned(), measured })
}
