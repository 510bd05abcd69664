//! Reads files and takes notes: an absent file is `None`; a file that cannot be read is `None` and
//! a note with the reason.

use super::{SurveyNote, TunableReading};
use cpushield_linux::{CpuSet, Error, Host};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;

/// A host, and the notes about what could not be read.
pub(super) struct SurveyReader<'a> {
    pub(super) host: &'a Host,
    notes: RefCell<BTreeSet<SurveyNote>>,
    /// Files that are needed more than once, by path: none that is unreadable.
    cache: RefCell<BTreeMap<String, TunableReading>>,
}

impl<'a> SurveyReader<'a> {
    pub(super) fn new(host: &'a Host) -> SurveyReader<'a> {
        SurveyReader { host, notes: RefCell::default(), cache: RefCell::default() }
    }

    /// The notes, sorted.
    pub(super) fn into_notes(self) -> Vec<SurveyNote> {
        self.notes.into_inner().into_iter().collect()
    }

    pub(super) fn note(&self, what: &str, why: impl Into<String>) {
        self.notes.borrow_mut().insert(SurveyNote { what: what.to_owned(), why: why.into() });
    }

    /// The value; `None` for an absent file, `None` and a note for any other error.
    pub(super) fn optional<T>(&self, result: cpushield_linux::Result<T>) -> Option<T> {
        result
            .inspect_err(|error| {
                if !error.is_absent() {
                    self.note_error(error);
                }
            })
            .ok()
    }

    /// The value; `None` and a note for any error.
    pub(super) fn required<T>(&self, result: cpushield_linux::Result<T>) -> Option<T> {
        result.inspect_err(|error| self.note_error(error)).ok()
    }

    fn note_error(&self, error: &Error) {
        self.note(&error.path, error.reason());
    }

    /// A one-line file; a cached one is not read again.
    pub(super) fn line(&self, path: &str) -> Option<String> {
        match self.cached(path) {
            Some(TunableReading::Value(line)) => Some(line),
            Some(_) => None,
            None => self.optional(self.host.read_line(path)),
        }
    }

    /// A one-line file that will be needed again; see [`SurveyReader::cached`]. Its absence is
    /// cached too.
    pub(super) fn line_and_cache(&self, path: &str) -> Option<String> {
        if self.cached(path).is_none() {
            match self.host.read_line(path) {
                Ok(line) => self.cache_line(path, &line),
                Err(error) if error.is_absent() => self.cache_absence(path),
                Err(error) => {
                    self.note_error(&error);
                    return None;
                }
            }
        }
        self.line(path)
    }

    /// Caches the line of a file that will be needed again.
    pub(super) fn cache_line(&self, path: &str, line: &str) {
        self.cache.borrow_mut().insert(path.to_owned(), TunableReading::Value(line.to_owned()));
    }

    /// Caches that a file does not exist.
    pub(super) fn cache_absence(&self, path: &str) {
        self.cache.borrow_mut().insert(path.to_owned(), TunableReading::Absent);
    }

    /// What is known about a file without reading it.
    pub(super) fn cached(&self, path: &str) -> Option<TunableReading> {
        self.cache.borrow().get(path).cloned()
    }

    /// A one-line file that every kernel has: its absence is a note too.
    pub(super) fn required_line(&self, path: &str) -> Option<String> {
        self.required(self.host.read_line(path))
    }

    /// A number.
    pub(super) fn number<T: FromStr>(&self, path: &str) -> Option<T> {
        let text = self.line(path)?;
        self.note_malformed(path, &text, text.trim().parse().ok(), "a number")
    }

    /// A switch: 0 or 1 (`active` of SMT and some others may hold a larger count).
    pub(super) fn flag(&self, path: &str) -> Option<bool> {
        self.number(path).map(|number: u64| number != 0)
    }

    /// A number of an id file, where -1 means that there is none.
    pub(super) fn id(&self, path: &str) -> Option<i64> {
        self.number(path).filter(|id: &i64| *id >= 0)
    }

    /// A file with a CPU list.
    pub(super) fn list(&self, path: &str) -> Option<CpuSet> {
        self.set(&[(path, CpuSetSpelling::List)])
    }

    /// A set of CPUs from the first of these files that exists, each with its spelling. Kernels
    /// before 2.6.26 have masks only.
    pub(super) fn set(&self, candidates: &[(&str, CpuSetSpelling)]) -> Option<CpuSet> {
        for (path, spelling) in candidates {
            let Some(text) = self.line(path) else { continue };
            return match spelling {
                CpuSetSpelling::List => {
                    let set = CpuSet::parse_list(&text, None).ok();
                    self.note_malformed(path, &text, set, "a CPU list")
                }
                CpuSetSpelling::Mask => {
                    self.note_malformed(path, &text, CpuSet::parse_mask(&text).ok(), "a CPU mask")
                }
            };
        }
        None
    }

    /// Returns the parsed value, with a note when the text could not be parsed.
    fn note_malformed<T>(
        &self,
        path: &str,
        text: &str,
        value: Option<T>,
        expected: &'static str,
    ) -> Option<T> {
        if value.is_none() {
            self.note_error(&Error::malformed(path, 1, expected, text));
        }
        value
    }

    /// The names in a directory; empty when it does not exist.
    pub(super) fn names(&self, dir: &str) -> Vec<String> {
        self.optional(self.host.list(dir)).unwrap_or_default()
    }

    /// The numbers after a prefix of the names in a directory (`cpu12` → 12), ascending.
    pub(super) fn numbered(&self, dir: &str, prefix: &str) -> Vec<usize> {
        let names = self.names(dir);
        let mut numbers: Vec<usize> =
            names.iter().filter_map(|name| parse_number(name, prefix)).collect();
        numbers.sort_unstable();
        numbers
    }
}

fn parse_number(name: &str, prefix: &str) -> Option<usize> {
    let digits = name.strip_prefix(prefix)?;
    digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse().ok())?
}

/// How a file spells a set of CPUs.
#[derive(Clone, Copy)]
pub(super) enum CpuSetSpelling {
    /// `0-3,8`.
    List,
    /// `f`, `1,00000000`.
    Mask,
}
