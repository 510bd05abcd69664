//! Reads groups of repeated measurements and compares them.

use super::saved_document::SavedDocument;
use crate::compare::{self, GivenGroup, GivenRun, MeasuredDocument};
use crate::documents::comparison::Comparison;
use crate::failure::Failure;
use cpushield_linux::UserFiles;
use std::path::{Path, PathBuf};

/// Compares groups, each given as `NAME=FILE,FILE` or a single file.
///
/// # Errors
/// A file is not a measurement, or the groups cannot be compared.
pub fn compare_groups(files: &UserFiles, groups: &[String]) -> Result<Comparison, Failure> {
    let groups: Vec<GroupArg<'_>> = groups.iter().map(|arg| GroupArg::parse(arg)).collect();
    let given = groups.iter().map(|group| read_group(files, group, &groups));
    Ok(compare::compare(&given.collect::<Result<Vec<_>, _>>()?)?)
}

/// A group as the user gave it.
#[derive(Debug, Clone, Copy, PartialEq)]
enum GroupArg<'a> {
    /// `NAME=FILE,FILE`.
    Named { name: &'a str, files: &'a str },
    /// A single file.
    File(&'a str),
}

impl<'a> GroupArg<'a> {
    fn parse(arg: &'a str) -> GroupArg<'a> {
        match arg.split_once('=') {
            // A path may contain `=`, so a word with a slash before it is no name.
            Some((name, files)) if !name.is_empty() && !name.contains('/') => {
                GroupArg::Named { name, files }
            }
            _ => GroupArg::File(arg),
        }
    }

    /// The components of its path; 0 with a name of its own.
    fn depth(&self) -> usize {
        match self {
            GroupArg::Named { .. } => 0,
            GroupArg::File(file) => Path::new(file).iter().count(),
        }
    }

    /// Its name: the given one, or the file's name without its extension, after this many of its
    /// directories.
    fn name(self, directories: usize) -> String {
        let path = match self {
            GroupArg::Named { name, .. } => return name.to_owned(),
            GroupArg::File(file) => Path::new(file),
        };
        let stem = path.with_extension("");
        let parts: Vec<_> = stem.iter().collect();
        let shown = parts.get(parts.len().saturating_sub(directories + 1)..).unwrap_or(&parts);
        shown.iter().collect::<PathBuf>().display().to_string()
    }
}

/// The shortest name of a group that no other one has. Files that differ in their extensions only
/// have their whole path.
fn find_short_name(group: GroupArg<'_>, all: &[GroupArg<'_>]) -> String {
    let GroupArg::File(file) = group else { return group.name(0) };
    let is_unique = |directories: &usize| {
        let name = group.name(*directories);
        all.iter().filter(|other| other.name(*directories) == name).count() == 1
    };
    let deepest = all.iter().map(GroupArg::depth).max().unwrap_or_default();
    let directories = (0..deepest).find(is_unique);
    directories.map_or_else(|| file.to_owned(), |directories| group.name(directories))
}

fn read_group(
    access: &UserFiles,
    group: &GroupArg<'_>,
    all: &[GroupArg<'_>],
) -> Result<GivenGroup, Failure> {
    let runs = match group {
        GroupArg::Named { files, .. } => {
            let files = files.split(',').filter(|file| !file.is_empty());
            files.map(|file| read_run(access, file)).collect::<Result<Vec<GivenRun>, Failure>>()?
        }
        GroupArg::File(file) => {
            let run = read_run(access, file).map_err(|failure| match file.contains(',') {
                true => failure.hint(format!("name the group: NAME={file}")),
                false => failure,
            });
            vec![run?]
        }
    };
    Ok(GivenGroup { name: find_short_name(*group, all), runs })
}

fn read_run(access: &UserFiles, file: &str) -> Result<GivenRun, Failure> {
    let wanted = ["latency --json", "verify --json"];
    let measured = match SavedDocument::read_for(access, Path::new(file), &wanted)? {
        SavedDocument::Latency(latency) => MeasuredDocument::Latency(latency),
        SavedDocument::Verdict(verify) => {
            MeasuredDocument::Verify(Box::new(verify.evidence), Box::new(verify.verdict))
        }
        other => {
            return Err(other
                .is_not(file, "a measurement")
                .hint("measure latency: cpushield latency timer --json > FILE")
                .hint("or measure interruptions: cpushield verify --json > FILE"));
        }
    };
    Ok(GivenRun { name: file.to_owned(), measured })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_without_a_name_has_the_shortest_part_of_its_path_that_no_other_group_has() {
        let cases: &[(&[&str], &[&str])] = &[
            (&["/d/before.json", "/d/after.json"], &["before", "after"]),
            (&["off=a.json,b.json", "c.json"], &["off", "c"]),
            (&["/d/x/run.json", "/d/y/run.json", "z.json"], &["x/run", "y/run", "z"]),
            (&["../run.json", "run.json"], &["../run", "run"]),
            (&["run=a.json", "d/run.json"], &["run", "d/run"]),
            (&["d/run.json", "d/run.txt"], &["d/run.json", "d/run.txt"]),
            (&["./v=1.json", "v1.2.json"], &["v=1", "v1.2"]),
        ];
        for (args, wanted) in cases {
            let groups: Vec<GroupArg<'_>> = args.iter().map(|arg| GroupArg::parse(arg)).collect();
            let names = groups.iter().map(|group| find_short_name(*group, &groups));
            assert_eq!(names.collect::<Vec<String>>(), *wanted, "{args:?}");
        }
    }
}
