//! Reads groups of repeated measurements and compares them.

use super::saved_document::SavedDocument;
use crate::compare::{self, GivenGroup, GivenRun, MeasuredDocument};
use crate::documents::comparison::Comparison;
use crate::failure::Failure;
use cpushield_linux::UserFiles;
use std::path::Path;

/// Compares groups, each given as `NAME=FILE,FILE` or a single file.
///
/// # Errors
/// A file is not a measurement, or the groups cannot be compared.
pub fn compare_groups(files: &UserFiles, groups: &[String]) -> Result<Comparison, Failure> {
    let groups = groups.iter().map(|arg| read_group(files, arg)).collect::<Result<Vec<_>, _>>()?;
    Ok(compare::compare(&groups)?)
}

/// Reads a group: `NAME=FILE,FILE`, or a single file.
fn read_group(access: &UserFiles, arg: &str) -> Result<GivenGroup, Failure> {
    let (name, files) = match arg.split_once('=') {
        // A path may contain `=`, so a word with a slash before it is no name.
        Some((name, files)) if !name.is_empty() && !name.contains('/') => {
            (name, files.split(',').collect())
        }
        _ => (arg, vec![arg]),
    };
    let files = files.into_iter().filter(|file| !file.is_empty());
    let runs = files.map(|file| read_run(access, file)).collect::<Result<Vec<GivenRun>, Failure>>();
    let runs = runs.map_err(|failure| match name == arg && arg.contains(',') {
        true => failure.hint(format!("name the group: NAME={arg}")),
        false => failure,
    })?;
    Ok(GivenGroup { name: name.to_owned(), runs })
}

fn read_run(access: &UserFiles, file: &str) -> Result<GivenRun, Failure> {
    let wanted = ["latency --json", "verify --json"];
    let measured = match SavedDocument::read_for(access, Path::new(file), &wanted)? {
        SavedDocument::Latency(latency) => MeasuredDocument::Latency(latency),
        SavedDocument::Verdict(verify) => {
            MeasuredDocument::Verify(Box::new(verify.evidence), Box::new(verify.verdict))
        }
        other => {
            let command = other.command();
            let message =
                format!("{file} is not a measurement: it is the output of `cpushield {command}`");
            return Err(Failure::usage(message)
                .hint("measure latency: cpushield latency timer --json > FILE")
                .hint("or measure interruptions: cpushield verify --json > FILE"));
        }
    };
    Ok(GivenRun { name: file.to_owned(), measured })
}
