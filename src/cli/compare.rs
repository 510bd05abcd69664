//! `cpushield compare`: repeated measurements side by side, and what of the difference is chance.

use super::latency::paint;
use super::saved_document::SavedDocument;
use crate::compare::{self, GivenGroup, GivenRun, MeasuredDocument};
use crate::failure::Failure;
use crate::report::compare as report;
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

/// Runs it.
///
/// # Errors
/// A file is not what it should be, or the groups cannot be compared.
pub fn run(ui: &Ui, args: &CompareArgs) -> Result<(), Failure> {
    let groups = args.groups.iter().map(|word| group(word)).collect::<Result<Vec<_>, _>>()?;
    let comparison = compare::compare(&groups)?;
    ui.show(&comparison, || report::text(&comparison, ui.width(), &paint))
}

/// A group as it was named: `NAME=FILE,FILE`, or a file alone.
fn group(word: &str) -> Result<GivenGroup, Failure> {
    let (name, files) = match word.split_once('=') {
        // A path may have anything in it.
        Some((name, files)) if !name.is_empty() && !name.contains('/') => {
            (name, files.split(',').collect())
        }
        _ => (word, vec![word]),
    };
    let files = files.into_iter().filter(|file| !file.is_empty());
    let runs = files.map(read).collect::<Result<Vec<GivenRun>, Failure>>()?;
    Ok(GivenGroup { name: name.to_owned(), runs })
}

fn read(file: &str) -> Result<GivenRun, Failure> {
    let measured =
        match SavedDocument::read_for(Path::new(file), &["latency --json", "verify --json"])? {
            SavedDocument::Latency(latency) => MeasuredDocument::Latency(latency),
            SavedDocument::Verdict(one) => {
                MeasuredDocument::Verify(Box::new(one.evidence), Box::new(one.verdict))
            }
            other => {
                let from = other.from();
                let why = format!("{file} is no measurement: it is what `cpushield {from}` writes");
                return Err(Failure::usage(why)
                    .hint("measure: cpushield latency timer --json > FILE")
                    .hint("or watch: cpushield verify --json > FILE"));
            }
        };
    Ok(GivenRun { name: file.to_owned(), measured })
}
