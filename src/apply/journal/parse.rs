//! Parses an [`ApplyJournal`]: checks what a file must contain before anything may be written
//! because of it, and tolerates what a crash may have torn.

use super::{
    ApplyJournal, JoinKind, JournalHeader, JournalLine, SCHEMA, ShieldJoin, replaced_name,
};
use crate::documents::applied::DroppedLine;
use crate::documents::plan::Plan;
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::fmt;

/// The first line of a journal of another boot, readable for every version and whatever follows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalOrigin {
    /// The boot it was applied in; `None` on a recorded machine without one.
    pub boot_id: Option<String>,
    /// The applied plan, if this version can parse it.
    pub plan: Option<Plan>,
}

impl JournalOrigin {
    /// Parses the first line; `None` when it is of this boot, or not that of a cpushield journal.
    #[must_use]
    pub fn of_other_boot(bytes: &[u8], boot: Option<&str>) -> Option<JournalOrigin> {
        let end = bytes.iter().position(|b| *b == b'\n')?;
        let line: BTreeMap<&str, BTreeMap<&str, &RawValue>> =
            serde_json::from_slice(bytes.get(..end)?).ok()?;
        let header = line.get("header")?;
        let boot_id: Option<String> = serde_json::from_str(header.get("boot_id")?.get()).ok()?;
        if header.get("journal")?.get() != "\"cpushield\"" || boot_id.as_deref() == boot {
            return None;
        }
        let plan = header.get("plan").and_then(|plan| serde_json::from_str(plan.get()).ok());
        Some(JournalOrigin { boot_id, plan })
    }
}

/// Why a file is not a journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalError {
    /// The line, from 1.
    pub line: usize,
    /// What was expected there.
    pub wanted: String,
    /// What was found instead, shortened.
    pub found: String,
}

impl fmt::Display for JournalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: expected {}, found {}", self.line, self.wanted, self.found)
    }
}

impl std::error::Error for JournalError {}

impl ApplyJournal {
    /// Parses a journal.
    ///
    /// # Errors
    /// It is not a journal, has another version, or lacks a part that was on the disk before the
    /// first write. Then nothing may be written because of it.
    pub fn parse(bytes: &[u8]) -> Result<ApplyJournal, JournalError> {
        let mut lines = RemainingLines { rest: bytes, number: 0 };
        let header = parse_header(&mut lines)?;
        let mut journal = ApplyJournal::new(header, Vec::new());
        journal.read_intents(&mut lines)?;
        while let Some(text) = lines.next_whole() {
            if serde_json::from_slice::<serde::de::IgnoredAny>(text).is_ok() {
                journal.add_line(&lines, text)?;
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
            match lines.parse_next(&wanted)? {
                JournalLine::Intent(intent) if intent.step == step => self.intents.push(intent),
                other => return Err(lines.unexpected(&wanted, &other)),
            }
        }
        let wanted = format!("`begin` after {} originals", self.intents.len());
        match lines.parse_next(&wanted)? {
            JournalLine::Begin(begin) if begin.intents == self.intents.len() => Ok(()),
            other => Err(lines.unexpected(&wanted, &other)),
        }
    }

    /// Whether an `applied` line is still to come.
    fn is_unfinished(&self) -> bool {
        self.applied.is_none() || !self.amending.is_empty() || self.joining.is_some()
    }

    /// Whether a step may still get an outcome.
    pub(in crate::apply) fn is_open(&self, step: usize) -> bool {
        self.applied.is_none() || self.amending.contains(&step)
    }

    /// Whether the shields may be changed: the first one is applied, and no undo has begun.
    pub(in crate::apply) fn is_ready(&self) -> bool {
        self.applied.is_some() && self.undoing.is_none() && self.leaving.is_none()
    }

    /// Whether a shield has one original for each runtime step, and a name of its own or that of
    /// the shield that it replaces.
    fn can_join(&self, join: &ShieldJoin) -> bool {
        let name = &join.plan.shield.name;
        let runtime = join.plan.steps.iter().filter(|step| step.is_runtime()).count();
        let known = self.find_shield(name).is_some();
        runtime == join.originals.len()
            && self.find_shield(&replaced_name(name)).is_none()
            && known == (join.kind == JoinKind::Successor)
    }

    fn is_known(&self, step: usize) -> bool {
        self.intents.iter().any(|intent| intent.step == step)
    }

    fn add_line(&mut self, lines: &RemainingLines<'_>, text: &[u8]) -> Result<(), JournalError> {
        let wanted = "an outcome or a record of undo";
        let parsed = lines.parse(text, wanted)?;
        match parsed {
            JournalLine::Late(intent) if self.is_known(intent.step) => {
                self.late.insert(intent.step, intent.original);
            }
            JournalLine::Outcome(done) if self.is_known(done.step) && self.is_open(done.step) => {
                self.record_outcome(done);
            }
            JournalLine::Applied(complete) if self.undoing.is_none() && self.is_unfinished() => {
                self.applied = Some(complete.masks);
                self.amending.clear();
                self.joining = None;
            }
            JournalLine::Amend(amendment)
                if self.is_ready()
                    && amendment.again.iter().all(|step| self.is_known(*step))
                    && amendment.added.iter().all(|added| added.step.is_runtime())
                    && self.find_shield(&amendment.shield).is_some() =>
            {
                self.amend(amendment);
            }
            JournalLine::Join(join) if self.is_ready() && self.can_join(&join) => self.join(*join),
            JournalLine::Leave(leave)
                if self.is_ready()
                    && self.shields.len() > 1
                    && self.find_shield(&leave.shield).is_some()
                    && leave.replaced.iter().all(|it| self.is_known(it.step)) =>
            {
                self.leave(leave);
            }
            JournalLine::Undoing(undoing) => {
                self.undoing = Some(undoing);
                self.affinities = None;
            }
            JournalLine::AffinitiesDone(done) if self.undoing.is_some() => {
                self.settled.extend(self.fates.keys());
                self.affinities = Some(done);
            }
            JournalLine::Undone(fated) if self.is_known(fated.step) && self.undoing.is_some() => {
                self.fates.insert(fated.step, fated);
            }
            other => return Err(lines.unexpected(wanted, &other)),
        }
        Ok(())
    }
}

fn parse_header(lines: &mut RemainingLines<'_>) -> Result<JournalHeader, JournalError> {
    let wanted = format!("the header of a cpushield journal, schema {SCHEMA}");
    match lines.parse_next(&wanted)? {
        JournalLine::Header(header)
            if header.journal == "cpushield"
                && header.schema == SCHEMA
                && header.plan.schema == crate::documents::plan::SCHEMA =>
        {
            Ok(*header)
        }
        other => Err(lines.unexpected(&wanted, &other)),
    }
}

/// The unread rest of the file.
struct RemainingLines<'a> {
    rest: &'a [u8],
    number: usize,
}

impl<'a> RemainingLines<'a> {
    /// The next complete line; `None` at the end or before a torn line.
    fn next_whole(&mut self) -> Option<&'a [u8]> {
        self.number += 1;
        let at = self.rest.iter().position(|b| *b == b'\n')?;
        let (text, rest) = self.rest.split_at(at);
        self.rest = rest.get(1..).unwrap_or_default();
        Some(text)
    }

    fn parse_next(&mut self, wanted: &str) -> Result<JournalLine, JournalError> {
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

    fn unexpected(&self, wanted: &str, found: &JournalLine) -> JournalError {
        self.error(wanted, &serde_json::to_vec(found).unwrap_or_default())
    }

    fn error(&self, wanted: &str, found: &[u8]) -> JournalError {
        let text: String = String::from_utf8_lossy(found).chars().take(60).collect();
        JournalError { line: self.number, wanted: wanted.to_owned(), found: format!("{text:?}") }
    }
}
