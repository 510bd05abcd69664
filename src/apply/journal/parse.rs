//! Reading a [`ApplyJournal`]: what a file must hold before anything may be written because of it,
//! and what a crash may have torn.

use super::{ApplyJournal, JournalHeader, JournalLine, SCHEMA};
use crate::plan::Plan;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// What the first line of a journal says whatever follows it, and whatever version wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalOrigin {
    /// The boot it was applied in; `None` on a recorded machine without one.
    pub boot_id: Option<String>,
    /// What was applied, where this version understands it.
    pub plan: Option<Plan>,
}

impl JournalOrigin {
    /// Reads the first line; `None` when it is not that of a journal of ours.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<JournalOrigin> {
        let end = bytes.iter().position(|b| *b == b'\n')?;
        let line: serde_json::Value = serde_json::from_slice(bytes.get(..end)?).ok()?;
        let header = line.get("header")?;
        if header.get("journal")? != "cpushield" {
            return None;
        }
        let boot_id = serde_json::from_value(header.get("boot_id")?.clone()).ok()?;
        let plan = header.get("plan").and_then(|p| serde_json::from_value(p.clone()).ok());
        Some(JournalOrigin { boot_id, plan })
    }
}

/// A line behind `begin` that cannot be read. Nothing is done because of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DroppedLine {
    /// The line, from 1.
    pub line: usize,
    /// Its length.
    pub bytes: usize,
}

impl fmt::Display for DroppedLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DroppedLine { line, bytes } = self;
        write!(f, "line {line} of the journal ({bytes} bytes) is torn, and nothing was done by it")
    }
}

/// Why a file is not a journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalError {
    /// The line, from 1.
    pub line: usize,
    /// What was expected there.
    pub wanted: String,
    /// What was there instead, shortened.
    pub found: String,
}

impl fmt::Display for JournalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: expected {}, found {}", self.line, self.wanted, self.found)
    }
}

impl std::error::Error for JournalError {}

impl ApplyJournal {
    /// Reads a journal.
    ///
    /// # Errors
    /// It is not one, is of another version, or lacks a part that was on the disk before the first
    /// write: then no write may follow from it.
    pub fn parse(bytes: &[u8]) -> Result<ApplyJournal, JournalError> {
        let mut lines = RemainingLines { rest: bytes, number: 0 };
        let header = header(&mut lines)?;
        let mut journal = ApplyJournal {
            header,
            intents: Vec::new(),
            late: BTreeMap::new(),
            outcomes: BTreeMap::new(),
            applied: None,
            amending: BTreeSet::new(),
            undoing: None,
            fates: BTreeMap::new(),
            settled: BTreeSet::new(),
            affinities: None,
            whole: 0,
            dropped: Vec::new(),
        };
        journal.read_intents(&mut lines)?;
        while let Some(text) = lines.next_whole() {
            if serde_json::from_slice::<serde::de::IgnoredAny>(text).is_ok() {
                journal.take(&lines, text)?;
            } else {
                journal.dropped.push(DroppedLine { line: lines.number, bytes: text.len() });
            }
        }
        journal.whole = (bytes.len() - lines.rest.len()) as u64;
        if !lines.rest.is_empty() {
            journal.dropped.push(DroppedLine { line: lines.number, bytes: lines.rest.len() });
        }
        Ok(journal)
    }

    fn read_intents(&mut self, lines: &mut RemainingLines<'_>) -> Result<(), JournalError> {
        let steps = self.header.plan.steps.iter().enumerate();
        let runtime: Vec<usize> = steps.filter(|(_, s)| s.is_runtime()).map(|(i, _)| i).collect();
        for step in runtime {
            let wanted = format!("the original of step {step}");
            match lines.must(&wanted)? {
                JournalLine::Intent(intent) if intent.step == step => self.intents.push(intent),
                other => return Err(lines.wrong(&wanted, &other)),
            }
        }
        let wanted = format!("`begin` after {} originals", self.intents.len());
        match lines.must(&wanted)? {
            JournalLine::Begin(begin) if begin.intents == self.intents.len() => Ok(()),
            other => Err(lines.wrong(&wanted, &other)),
        }
    }

    /// Whether there is something that an `applied` line ends.
    fn is_unfinished(&self) -> bool {
        self.applied.is_none() || !self.amending.is_empty()
    }

    /// Whether a step may still get an outcome.
    fn is_open(&self, step: usize) -> bool {
        self.applied.is_none() || self.amending.contains(&step)
    }

    fn take(&mut self, lines: &RemainingLines<'_>, text: &[u8]) -> Result<(), JournalError> {
        let wanted = "an outcome or what undo did";
        let known = |step: usize| self.intents.iter().any(|intent| intent.step == step);
        let parsed = lines.parse(text, wanted)?;
        match parsed {
            JournalLine::Late(intent) if known(intent.step) => {
                self.late.insert(intent.step, intent.original);
            }
            JournalLine::Outcome(done) if known(done.step) && self.is_open(done.step) => {
                self.came_of(done);
            }
            JournalLine::Applied(complete) if self.undoing.is_none() && self.is_unfinished() => {
                self.applied = Some(complete.masks);
                self.amending.clear();
            }
            JournalLine::Amend(amendment)
                if self.applied.is_some()
                    && self.undoing.is_none()
                    && amendment.again.iter().all(|step| known(*step))
                    && amendment.added.iter().all(|added| added.step.is_runtime()) =>
            {
                self.amend(amendment);
            }
            JournalLine::Undoing(undoing) => {
                self.undoing = Some(undoing);
                self.affinities = None;
            }
            JournalLine::AffinitiesDone(done) if self.undoing.is_some() => {
                self.settled.extend(self.fates.keys());
                self.affinities = Some(done);
            }
            JournalLine::Undone(fated) if known(fated.step) && self.undoing.is_some() => {
                self.fates.insert(fated.step, fated);
            }
            other => return Err(lines.wrong(wanted, &other)),
        }
        Ok(())
    }
}

fn header(lines: &mut RemainingLines<'_>) -> Result<JournalHeader, JournalError> {
    let wanted = format!("the header of a cpushield journal, schema {SCHEMA}");
    match lines.must(&wanted)? {
        JournalLine::Header(header)
            if header.journal == "cpushield"
                && header.schema == SCHEMA
                && header.plan.schema == crate::plan::SCHEMA =>
        {
            Ok(*header)
        }
        other => Err(lines.wrong(&wanted, &other)),
    }
}

/// The lines of the file that are still to be read.
struct RemainingLines<'a> {
    rest: &'a [u8],
    number: usize,
}

impl<'a> RemainingLines<'a> {
    /// The next line that has its end; `None` at the end or before a torn line.
    fn next_whole(&mut self) -> Option<&'a [u8]> {
        self.number += 1;
        let at = self.rest.iter().position(|b| *b == b'\n')?;
        let (text, rest) = self.rest.split_at(at);
        self.rest = rest.get(1..).unwrap_or_default();
        Some(text)
    }

    fn must(&mut self, wanted: &str) -> Result<JournalLine, JournalError> {
        match self.next_whole() {
            Some(text) => self.parse(text, wanted),
            None if !self.rest.is_empty() && !self.rest.starts_with(b"{") => {
                Err(self.error("a line of JSON", self.rest))
            }
            None => Err(JournalError {
                line: self.number,
                wanted: wanted.to_owned(),
                found: "the end of the file".to_owned(),
            }),
        }
    }

    fn parse(&self, text: &[u8], wanted: &str) -> Result<JournalLine, JournalError> {
        serde_json::from_slice(text).map_err(|why| {
            let mut error = self.error(wanted, text);
            error.found.push_str(&format!(" ({why})"));
            error
        })
    }

    fn wrong(&self, wanted: &str, found: &JournalLine) -> JournalError {
        self.error(wanted, &serde_json::to_vec(found).unwrap_or_default())
    }

    fn error(&self, wanted: &str, found: &[u8]) -> JournalError {
        let text: String = String::from_utf8_lossy(found).chars().take(60).collect();
        JournalError { line: self.number, wanted: wanted.to_owned(), found: format!("{text:?}") }
    }
}
