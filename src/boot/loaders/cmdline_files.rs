//! Loaders whose files have each kernel's command line as plain text. Words are put in front of it,
//! and nothing else in the file changes. A file that cannot be parsed is not written.

use super::boot_loader::{
    BootFilePlan, EntryFiles, FileEdit, FoundLoader, LoaderEntry, ParameterAssignment,
};
use super::entry_purpose::find_purpose;
use crate::boot::error::BootError;
use crate::boot::line;
use crate::documents::boot::{
    BootJournal, BootWarning, EntryPurpose, KernelWords, NextReason, SavedFile,
};
use cpushield_linux::Host;
use std::ops::Range;

/// A kernel in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CmdlinePart {
    /// The kernel's version; `None` when the file does not name it.
    pub version: Option<String>,
    /// What the menu shows.
    pub title: String,
    /// The files that it loads; `None` when the file does not name them.
    pub files: Option<EntryFiles>,
    /// The byte range of its command line.
    pub args: Range<usize>,
    /// The line of the command line, from 1.
    pub line: usize,
    /// The rest of the command line, from other lines, with a space in front.
    pub more: String,
    /// What it is for; `None`: it starts the system for its normal work.
    pub purpose: Option<EntryPurpose>,
}

impl CmdlinePart {
    /// The words that its command line gets; `None`: it stays as it is.
    pub(super) fn words<'a>(&self, assignment: &ParameterAssignment<'a>) -> Option<&'a [String]> {
        assignment.words_of(self.version.as_ref()).filter(|_| self.purpose.is_none())
    }
}

/// Why a file cannot be parsed: the line, from 1, and what is wrong there.
pub type CmdlineFileFault = (usize, &'static str);

/// A loader of this kind.
#[derive(Debug)]
pub struct CmdlineFileLoader {
    pub name: &'static str,
    /// Its files, in the order of the menu.
    pub files: fn(&Host) -> Vec<String>,
    /// Parses the kernels of one file.
    pub parse: fn(&str) -> Result<Vec<CmdlinePart>, CmdlineFileFault>,
    /// The loader's name for a kernel of a file.
    pub id: fn(&str, &CmdlinePart) -> Option<String>,
    /// Finds the version of a kernel when the file does not name it.
    pub version: fn(&Host, &str, &CmdlinePart) -> Option<String>,
    /// Whether a line is for every kernel, including those installed later.
    pub any_kernel: bool,
    /// A text without our entries.
    pub without_copies: fn(&str) -> String,
    /// How to reach the menu.
    pub menu: &'static str,
}

impl CmdlineFileLoader {
    pub(super) fn read(
        &self,
        host: &Host,
        path: &str,
    ) -> Result<(String, Vec<CmdlinePart>), BootError> {
        self.parse_bytes(host, path, host.read_bytes(path)?)
    }

    /// Reads a file as it was before an earlier apply.
    pub(super) fn read_before(
        &self,
        host: &Host,
        path: &str,
        earlier: &[SavedFile],
    ) -> Result<(String, Vec<CmdlinePart>), BootError> {
        let resolved = host.resolve_links(path);
        let saved = earlier.iter().find(|saved| saved.path == resolved);
        match saved.and_then(SavedFile::before) {
            Some(bytes) => self.parse_bytes(host, path, bytes),
            None => self.read(host, path),
        }
    }

    fn parse_bytes(
        &self,
        host: &Host,
        path: &str,
        bytes: Vec<u8>,
    ) -> Result<(String, Vec<CmdlinePart>), BootError> {
        let text = String::from_utf8(bytes).map_err(|error| {
            let before = error.as_bytes().get(..error.utf8_error().valid_up_to()).unwrap_or(&[]);
            let line = 1 + before.iter().filter(|b| **b == b'\n').count();
            unparsable(path, (line, "expected UTF-8 text"))
        })?;
        let parts = self.parse_parts(host, path, &text).map_err(|fault| unparsable(path, fault))?;
        Ok((text, parts))
    }

    /// The kernels of a text, each with its version if that can be found.
    pub(super) fn parse_parts(
        &self,
        host: &Host,
        path: &str,
        text: &str,
    ) -> Result<Vec<CmdlinePart>, CmdlineFileFault> {
        let mut parts = (self.parse)(text)?;
        for part in parts.iter_mut().filter(|it| it.version.is_none()) {
            part.version = (self.version)(host, path, part);
        }
        // A line for every kernel is for normal work too.
        for part in parts.iter_mut().filter(|_| !self.any_kernel) {
            let kernel = part.files.as_ref().map(|files| files.kernel.clone());
            let names = [Some(part.title.clone()), (self.id)(path, part), kernel];
            let names: Vec<&str> = names.iter().flatten().map(String::as_str).collect();
            let args = text.get(part.args.clone()).unwrap_or_default().to_owned() + &part.more;
            part.purpose = find_purpose(&names, &args);
        }
        Ok(parts)
    }
}

pub(super) fn unparsable(path: &str, (line, what): CmdlineFileFault) -> BootError {
    BootError::Unparsable { path: path.to_owned(), why: format!("line {line}: {what}") }
}

impl CmdlineFileLoader {
    pub(super) fn find(&self, host: &Host) -> Result<Option<FoundLoader>, BootError> {
        let files = (self.files)(host);
        if files.is_empty() {
            return Ok(None);
        }
        let (mut entries, mut warnings) = (Vec::new(), Vec::new());
        for path in files {
            let (text, parts) = self.read(host, &path)?;
            for part in parts {
                let (id, place) = ((self.id)(&path, &part), format!("{path}:{}", part.line));
                let Some(version) = part.version else {
                    let kernel = part.files.map(|it| it.kernel).unwrap_or_default();
                    warnings.push(BootWarning::VersionUnknown { place, kernel });
                    continue;
                };
                let args = text.get(part.args).unwrap_or_default().to_owned() + &part.more;
                entries.push(LoaderEntry {
                    version,
                    title: part.title,
                    id,
                    args,
                    files: part.files,
                    place,
                    purpose: part.purpose,
                    ..LoaderEntry::default()
                });
            }
        }
        let only = (entries.len() == 1).then_some(0);
        let why = NextReason::OnlyEntry;
        if !self.any_kernel {
            warnings.insert(0, BootWarning::LaterKernelsLeftOut);
        }
        let (menu, covers_later, other_next) = (self.menu.to_owned(), self.any_kernel, None);
        let next = only;
        Ok(Some(FoundLoader { entries, next, other_next, why, warnings, menu, covers_later }))
    }

    pub(super) fn plan_files(
        &self,
        host: &Host,
        assignment: &ParameterAssignment,
    ) -> Result<BootFilePlan, BootError> {
        let mut plan = BootFilePlan::default();
        for path in (self.files)(host) {
            let (now, _) = self.read(host, &path)?;
            let (text, parts) = self.read_before(host, &path, assignment.earlier)?;
            let new = add_words(&text, parts, assignment);
            if new != now {
                plan.edits.push(edit_file(host, &path, new)?);
            }
        }
        Ok(plan)
    }

    /// A file that another program changed since, without the words of an apply: each line loses
    /// those of its kernel that it did not have before. `None`: it has none of them.
    pub fn strip_words(
        &self,
        host: &Host,
        (journal, saved): (&BootJournal, &SavedFile),
        now: &[u8],
    ) -> Option<Vec<u8>> {
        let (path, now) = (&saved.path, std::str::from_utf8(now).ok()?);
        let text = &(self.without_copies)(now);
        let before = saved.before().unwrap_or_default();
        let (before, old_parts) = self.parse_bytes(host, path, before).unwrap_or_default();
        let words = |part: &CmdlinePart| {
            let version = part.version.as_deref().unwrap_or_default();
            let mut old = old_parts.iter();
            let old = old.find(|it| it.title == part.title && it.version == part.version);
            let old = old.and_then(|it| before.get(it.args.clone())).unwrap_or_default();
            // A kernel that was not chosen has none; one line for all kernels has them all.
            let own = KernelWords::of(&journal.groups, version).filter(|_| part.purpose.is_none());
            let own = own.unwrap_or(if self.any_kernel { &journal.words } else { &[] });
            own.iter().filter(|word| !line::has(old, word)).cloned().collect::<Vec<_>>()
        };
        let parts = self.parse_parts(host, path, text).ok()?;
        let new = edit_lines(text, parts, |part, args| Some(line::without(args, &words(part))));
        (new != now).then(|| new.into_bytes())
    }
}

/// A text with other command lines; `None`: that one stays as it is.
fn edit_lines(
    text: &str,
    parts: Vec<CmdlinePart>,
    edit: impl Fn(&CmdlinePart, &str) -> Option<String>,
) -> String {
    let mut new = text.to_owned();
    for part in parts.into_iter().rev() {
        let args = text.get(part.args.clone()).unwrap_or_default();
        if let Some(args) = edit(&part, args) {
            new.replace_range(part.args, &args);
        }
    }
    new
}

/// A text with the words added for the chosen kernels.
pub(super) fn add_words(
    text: &str,
    parts: Vec<CmdlinePart>,
    assignment: &ParameterAssignment,
) -> String {
    edit_lines(text, parts, |part, args| Some(line::with_missing(args, part.words(assignment)?)))
}

/// Plans new text for an existing file, which keeps its permissions.
pub(super) fn edit_file(host: &Host, path: &str, text: String) -> Result<FileEdit, BootError> {
    let path = host.resolve_links(path);
    let mode = host.access(&path)?.mode;
    Ok(FileEdit { path, bytes: text.into_bytes(), mode })
}

/// The lines of a text without line ends, each with the byte where it begins and its number.
pub(super) fn numbered_lines(text: &str) -> impl Iterator<Item = (usize, usize, &str)> {
    let mut at = 0;
    text.split_inclusive('\n').enumerate().map(move |(index, whole)| {
        let begin = at;
        at += whole.len();
        (begin, index + 1, whole.trim_end_matches(['\n', '\r']))
    })
}

/// The first word of a line, and the byte range of the value after it.
pub(super) fn split_key(begin: usize, line: &str) -> (&str, Range<usize>) {
    let key_at = line.len() - line.trim_start().len();
    let key_end = line[key_at..].find([' ', '\t']).map_or(line.len(), |n| key_at + n);
    let rest = &line[key_end..];
    let from = key_end + (rest.len() - rest.trim_start().len());
    let to = from + line[from..].trim_end().len();
    (&line[key_at..key_end], begin + from..begin + to)
}

#[cfg(test)]
mod tests {
    use super::super::{bls, extlinux, raspberry};
    use super::*;
    use proptest::prelude::*;

    /// Lines as in these files: keys of each loader, with words, comments and odd ends.
    fn lines() -> impl Strategy<Value = String> {
        let line = "[ \t]{0,2}(options|title|linux|append|APPEND|label|kernel|#)?[ =\t]{0,2}\
                    [a-z0-9=,\" .\\-/]{0,40}\r?\n?";
        proptest::collection::vec(line, 0..8).prop_map(|lines| lines.concat())
    }

    proptest! {
        #[test]
        fn words_that_are_added_and_stripped_leave_the_text(text in lines()) {
            let words = ["nohz_full=2-3".to_owned()];
            for files in [&bls::LINES, &extlinux::LINES, &raspberry::LINES] {
                let Ok(parts) = (files.parse)(&text) else { continue };
                let new = edit_lines(&text, parts, |_, args| Some(line::with_words(args, &words)));
                let parts = (files.parse)(&new).unwrap();
                let back = edit_lines(&new, parts, |_, args| Some(line::without(args, &words)));
                prop_assert_eq!(back, text.clone(), "{}", files.name);
            }
        }
    }
}
