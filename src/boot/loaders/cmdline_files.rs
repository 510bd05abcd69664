//! Loaders whose files hold each kernel's command line as it is: it is found, and words are put in
//! front of it. Nothing else of a file changes, and a file that is not understood is not written.

use super::{
    BootFilePlan, BootLoader, EntryFiles, FileEdit, FoundLoader, LoaderEntry, ParameterAssignment,
};
use crate::boot::error::BootError;
use crate::boot::line;
use cpushield_linux::Host;
use std::ops::Range;

/// A kernel in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CmdlinePart {
    /// The kernel's version; `None` where nothing says it.
    pub version: Option<String>,
    /// What the menu shows.
    pub title: String,
    /// What it loads; `None` where the file does not say it.
    pub files: Option<EntryFiles>,
    /// Where its command line stands, in bytes.
    pub args: Range<usize>,
    /// The line of the command line, from 1.
    pub line: usize,
}

/// Why a file is not understood.
pub(super) type CmdlineFileFault = (usize, &'static str);

/// A loader of this kind.
pub(super) struct CmdlineFileLoader {
    pub name: &'static str,
    /// Its files, in the order of the menu.
    pub files: fn(&Host) -> Vec<String>,
    /// The kernels of one file.
    pub parse: fn(&str) -> Result<Vec<CmdlinePart>, CmdlineFileFault>,
    /// What the loader calls a kernel of a file.
    pub id: fn(&str, &CmdlinePart) -> Option<String>,
    /// The version of a kernel where the file does not say it.
    pub version: fn(&Host, &str, &CmdlinePart) -> Option<String>,
    /// Whether a line is for whichever kernel there is, later ones too.
    pub any_kernel: bool,
    /// How to reach the menu.
    pub menu: &'static str,
}

impl CmdlineFileLoader {
    pub(super) fn read(
        &self,
        host: &Host,
        path: &str,
    ) -> Result<(String, Vec<CmdlinePart>), BootError> {
        let wrong = |line: usize, what: &str| BootError::Unparsable {
            path: path.to_owned(),
            why: format!("line {line}: {what}"),
        };
        let bytes = host.read_bytes(path)?;
        let text = String::from_utf8(bytes).map_err(|error| {
            let before = error.as_bytes().get(..error.utf8_error().valid_up_to()).unwrap_or(&[]);
            wrong(1 + before.iter().filter(|b| **b == b'\n').count(), "expected UTF-8 text")
        })?;
        let parts = self.parts(host, path, &text).map_err(|(line, what)| wrong(line, what))?;
        Ok((text, parts))
    }

    /// The kernels of a text, with every version that can be known.
    pub(super) fn parts(
        &self,
        host: &Host,
        path: &str,
        text: &str,
    ) -> Result<Vec<CmdlinePart>, CmdlineFileFault> {
        let mut parts = (self.parse)(text)?;
        for part in parts.iter_mut().filter(|it| it.version.is_none()) {
            part.version = (self.version)(host, path, part);
        }
        Ok(parts)
    }
}

/// The version of a kernel that is taken for the running one, because nothing else is said of it.
pub(super) fn running(host: &Host, _path: &str, _part: &CmdlinePart) -> Option<String> {
    Some(host.read_line("/proc/sys/kernel/osrelease").unwrap_or_default())
}

impl CmdlineFileLoader {
    /// Words go into every line of a text and out again.
    pub(super) fn round_trip(&self, bytes: &[u8], words: &[String]) {
        let Ok(text) = std::str::from_utf8(bytes) else { return };
        let Ok(parts) = (self.parse)(text) else { return };
        if parts
            .iter()
            .any(|part| line::without(&text[part.args.clone()], words) != text[part.args.clone()])
        {
            return;
        }
        let mut new = text.to_owned();
        for part in parts.into_iter().rev() {
            let args = line::with(&text[part.args.clone()], words);
            new.replace_range(part.args, &args);
        }
        if new != text {
            let back = self.stripped(new.as_bytes(), words);
            assert_eq!(back.as_deref(), Some(bytes), "{}", self.name);
        }
    }
}

impl BootLoader for CmdlineFileLoader {
    fn name(&self) -> &'static str {
        self.name
    }

    fn find(&self, host: &Host) -> Result<Option<FoundLoader>, BootError> {
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
                    warnings.push(format!(
                        "{place}: the version of {kernel} is not known, so the entry is left as it is"
                    ));
                    continue;
                };
                let args = text.get(part.args).unwrap_or_default().to_owned();
                let (title, files) = (part.title, part.files);
                entries.push(LoaderEntry { version, title, id, args, ours: false, files, place });
            }
        }
        let only = (entries.len() == 1).then_some(0);
        let why = "it is the only one".to_owned();
        let later = "nothing here gives them to a kernel that is installed later: take them back and \
                     apply again";
        if !self.any_kernel {
            warnings.insert(0, later.to_owned());
        }
        Ok(Some(FoundLoader { entries, next: only, why, warnings, menu: self.menu.to_owned() }))
    }

    fn recipe(&self, host: &Host, order: &ParameterAssignment) -> Result<BootFilePlan, BootError> {
        let mut recipe = BootFilePlan::default();
        for path in (self.files)(host) {
            let (text, parts) = self.read(host, &path)?;
            let new = given(&text, parts, order);
            if new != text {
                recipe.edits.push(whole(host, &path, new)?);
            }
        }
        Ok(recipe)
    }

    fn stripped(&self, now: &[u8], words: &[String]) -> Option<Vec<u8>> {
        let text = std::str::from_utf8(now).ok()?;
        let mut new = text.to_owned();
        for part in (self.parse)(text).ok()?.into_iter().rev() {
            let args = text.get(part.args.clone())?;
            new.replace_range(part.args.clone(), &line::without(args, words));
        }
        (new != text).then(|| new.into_bytes())
    }

    fn covers_later(&self, _host: &Host) -> bool {
        self.any_kernel
    }

    fn once(&self, _host: &Host, _entry: &str) -> Result<(), BootError> {
        Err(super::grub::cannot(format!("{} boots no entry once", self.name)))
    }

    fn choice(&self, _host: &Host, entry: &str) -> String {
        format!("choose {entry} in the menu")
    }
}

/// A text with the words of an order for the kernels that are to have them.
pub(super) fn given(text: &str, parts: Vec<CmdlinePart>, order: &ParameterAssignment) -> String {
    let mut new = text.to_owned();
    for part in parts.into_iter().rev() {
        if part.version.is_some_and(|version| order.kernels.contains(&version)) {
            let args = text.get(part.args.clone()).unwrap_or_default();
            new.replace_range(part.args, &line::with_missing(args, order.words));
        }
    }
    new
}

/// A file of a new text that keeps its permissions.
pub(super) fn whole(host: &Host, path: &str, text: String) -> Result<FileEdit, BootError> {
    let path = host.resolve_links(path);
    let mode = host.access(&path)?.mode;
    Ok(FileEdit { path, bytes: text.into_bytes(), mode })
}

/// The lines of a text with the byte each begins at and its number, line ends taken off.
pub(super) fn lines(text: &str) -> impl Iterator<Item = (usize, usize, &str)> {
    let mut at = 0;
    text.split_inclusive('\n').enumerate().map(move |(index, whole)| {
        let begin = at;
        at += whole.len();
        (begin, index + 1, whole.trim_end_matches(['\n', '\r']))
    })
}

/// The bytes of a value behind the first word of a line.
pub(super) fn value(begin: usize, line: &str) -> (&str, Range<usize>) {
    let key_at = line.len() - line.trim_start().len();
    let key_end = line[key_at..].find([' ', '\t']).map_or(line.len(), |n| key_at + n);
    let rest = &line[key_end..];
    let from = key_end + (rest.len() - rest.trim_start().len());
    let to = from + line[from..].trim_end().len();
    (&line[key_at..key_end], begin + from..begin + to)
}
