//! Reading with notes: what a machine does not have is `None`, what it has but does not give is
//! `None` and a note with the reason.

use super::SurveyNote;
use cpushield_linux::{CpuSet, Error, Host};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;

/// A host, and what could not be read from it so far.
pub(super) struct SurveyReader<'a> {
    pub(super) host: &'a Host,
    notes: RefCell<BTreeSet<SurveyNote>>,
    /// Lines that are asked for more than once.
    kept: RefCell<BTreeMap<String, String>>,
}

impl<'a> SurveyReader<'a> {
    pub(super) fn new(host: &'a Host) -> SurveyReader<'a> {
        SurveyReader { host, notes: RefCell::default(), kept: RefCell::default() }
    }

    /// The notes in order.
    pub(super) fn into_notes(self) -> Vec<SurveyNote> {
        self.notes.into_inner().into_iter().collect()
    }

    pub(super) fn note(&self, what: &str, why: impl Into<String>) {
        self.notes.borrow_mut().insert(SurveyNote { what: what.to_owned(), why: why.into() });
    }

    /// The value; an absent file is nothing, another failure a note.
    pub(super) fn given<T>(&self, answer: cpushield_linux::Result<T>) -> Option<T> {
        answer
            .inspect_err(|error| {
                if !error.is_absent() {
                    self.note_error(error);
                }
            })
            .ok()
    }

    /// The value; any failure is a note.
    pub(super) fn wanted<T>(&self, answer: cpushield_linux::Result<T>) -> Option<T> {
        answer.inspect_err(|error| self.note_error(error)).ok()
    }

    fn note_error(&self, error: &Error) {
        self.note(&error.path, error.reason());
    }

    /// A one-line file; one that is kept is not read again.
    pub(super) fn line(&self, path: &str) -> Option<String> {
        self.kept(path).or_else(|| self.given(self.host.read_line(path)))
    }

    /// A one-line file that will be asked for again; see [`SurveyReader::kept`].
    pub(super) fn kept_line(&self, path: &str) -> Option<String> {
        let line = self.line(path)?;
        self.keep(path, &line);
        Some(line)
    }

    /// What a file said, where it will be asked for again.
    pub(super) fn keep(&self, path: &str, line: &str) {
        self.kept.borrow_mut().insert(path.to_owned(), line.to_owned());
    }

    /// What [`SurveyReader::kept_line`] read from this file.
    pub(super) fn kept(&self, path: &str) -> Option<String> {
        self.kept.borrow().get(path).cloned()
    }

    /// A one-line file that is part of every kernel: its absence is a note too.
    pub(super) fn wanted_line(&self, path: &str) -> Option<String> {
        self.wanted(self.host.read_line(path))
    }

    /// A number.
    pub(super) fn number<T: FromStr>(&self, path: &str) -> Option<T> {
        let text = self.line(path)?;
        let number = text.trim().parse().ok();
        if number.is_none() {
            self.note_error(&Error::malformed(path, 1, "a number", &text));
        }
        number
    }

    /// A switch: 0 or 1 (`active` of SMT and some others may hold a larger count).
    pub(super) fn flag(&self, path: &str) -> Option<bool> {
        self.number(path).map(|number: u64| number != 0)
    }

    /// A number of an id file, where -1 says that there is none.
    pub(super) fn id(&self, path: &str) -> Option<i64> {
        self.number(path).filter(|id: &i64| *id >= 0)
    }

    /// A file with a CPU list.
    pub(super) fn list(&self, path: &str) -> Option<CpuSet> {
        let text = self.line(path)?;
        self.parsed(path, &text, CpuSet::parse_list(&text, None).ok(), "a CPU list")
    }

    /// A set of CPUs from the first of these files that is there: `(path, is a list)`. Kernels
    /// before 2.6.26 have masks only.
    pub(super) fn set(&self, candidates: &[(&str, CpuSetSpelling)]) -> Option<CpuSet> {
        for (path, spelling) in candidates {
            let Some(text) = self.line(path) else { continue };
            return match spelling {
                CpuSetSpelling::List => {
                    let set = CpuSet::parse_list(&text, None).ok();
                    self.parsed(path, &text, set, "a CPU list")
                }
                CpuSetSpelling::Mask => {
                    self.parsed(path, &text, CpuSet::parse_mask(&text).ok(), "a CPU mask")
                }
            };
        }
        None
    }

    fn parsed<T>(
        &self,
        path: &str,
        text: &str,
        value: Option<T>,
        wanted: &'static str,
    ) -> Option<T> {
        if value.is_none() {
            self.note_error(&Error::malformed(path, 1, wanted, text));
        }
        value
    }

    /// The names in a directory; none when it is not there.
    pub(super) fn names(&self, dir: &str) -> Vec<String> {
        self.given(self.host.list(dir)).unwrap_or_default()
    }

    /// The numbers behind a prefix of the names in a directory (`cpu12` → 12), ascending.
    pub(super) fn numbered(&self, dir: &str, prefix: &str) -> Vec<usize> {
        let number = |name: &String| {
            let digits = name.strip_prefix(prefix)?;
            digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse().ok())?
        };
        let mut numbers: Vec<usize> = self.names(dir).iter().filter_map(number).collect();
        numbers.sort_unstable();
        numbers
    }
}

/// How a file spells a set of CPUs.
#[derive(Clone, Copy)]
pub(super) enum CpuSetSpelling {
    /// `0-3,8`.
    List,
    /// `f`, `1,00000000`.
    Mask,
}
