//! The [`ApplyJournal`] of all active shields: JSON lines, written before and while a plan is
//! applied and while it is undone.
//!
//! The order makes it safe: a header with the plan, the original of every step, and `begin` are
//! written as one file and synced before the first change. Outcomes follow, then the results of
//! undo. So a file without `begin` never was a valid journal, and nothing is written because of it.
//! A line after `begin` that cannot be read, torn by a crash, is ignored and reported. `parse`
//! reads journals. This module does no file access, and does not make or undo changes.

mod active_shields;
mod parse;

pub use active_shields::{
    JoinKind, JournaledShield, ReplacedChange, ShieldJoin, ShieldLeave, replaced_name,
};
pub use parse::{JournalError, JournalOrigin};

use super::original::OriginalState;
use super::task_masks::TaskMasks;
use crate::change::{Change, Outcome};
use crate::documents::applied::{ChangeFate, DroppedLine, StepDone, StepNote};
use crate::documents::plan::{Plan, Step};
use cpushield_linux::{CpuSet, Error, TaskId};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The journal in the state directory.
pub const JOURNAL: &str = "journal.jsonl";

/// The version of the journal's schema.
pub const SCHEMA: u32 = 1;

/// What to do about a file that is not a valid journal. Nothing was written.
pub(super) const INVALID_JOURNAL: [&str; 2] = [
    "nothing was written; to move the file away unchanged: cpushield undo --forget",
    "then reboot, because a shield's changes remain until the next boot",
];

/// The first line: the writer and the plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JournalHeader {
    /// `cpushield`.
    pub journal: String,
    /// [`SCHEMA`].
    pub schema: u32,
    /// The version of the program that wrote it.
    pub version: String,
    /// The boot it was applied in; `None` on a recorded machine without one.
    pub boot_id: Option<String>,
    /// The applied plan.
    pub plan: Plan,
}

/// The original of one step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepOriginal {
    /// The index of the step in the plan.
    pub step: usize,
    /// The state before it.
    pub original: OriginalState,
}

/// The line that ends the originals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BeginLine {
    /// The number of originals.
    intents: usize,
}

/// The line that ends a complete apply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CompleteLine {
    /// The resulting affinities of all tasks whose original is known.
    masks: TaskMasks,
}

/// A change of an active shield, on the disk before its first write.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Amendment {
    /// The shield that gets the added steps.
    pub shield: String,
    /// Steps that are made again; they keep their first original.
    pub again: Vec<usize>,
    /// Steps to add to the plan.
    pub added: Vec<AddedStep>,
}

/// A step that is added to an active shield.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AddedStep {
    /// The step.
    pub step: Step,
    /// The state before it, or before an earlier step about the same thing.
    pub original: OriginalState,
}

/// What undo will do with the affinities, decided before its first write, because removing cpusets
/// changes them again.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UndoDecision {
    /// The final mask of each task whose mask the shield changed.
    pub masks: TaskMasks,
    /// The masks of those tasks when undo began. A different mask later was set by another process.
    pub was: TaskMasks,
    /// Those of them that only cpusets can have narrowed: they get their CPUs with the cpusets. One
    /// that does not has asked for its mask (6.2 and later).
    pub limited: Vec<TaskId>,
    /// Masks that the shield did not change, of tasks to which the kernel may give more CPUs when
    /// cpusets are removed (before 6.2): the tasks keep these masks.
    pub kept: TaskMasks,
    /// Tasks whose mask another process changed: they keep it.
    pub drifted: Vec<TaskId>,
}

/// Undo has checked every file and every task. Later changes belong to other processes, even when
/// undo is called again because something could not be restored.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AffinitiesDone {
    /// Tasks whose mask could not be restored, with their current mask.
    pub pending: TaskMasks,
}

/// What undo did with one step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepFate {
    /// The index of the step in the plan.
    pub step: usize,
    /// The fate of its change.
    pub fate: ChangeFate,
    /// A note.
    #[serde(with = "crate::with_text::option")]
    pub note: Option<StepNote>,
}

/// One line of the file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum JournalLine {
    Header(Box<JournalHeader>),
    Intent(StepOriginal),
    Begin(BeginLine),
    Late(StepOriginal),
    Outcome(StepDone),
    Applied(CompleteLine),
    Amend(Amendment),
    Join(Box<ShieldJoin>),
    Leave(ShieldLeave),
    Undoing(UndoDecision),
    Undone(StepFate),
    AffinitiesDone(AffinitiesDone),
}

/// A parsed journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApplyJournal {
    /// The first line. Its plan has the steps of all shields.
    pub header: JournalHeader,
    /// The active shields, in the order in which they were applied.
    pub shields: Vec<JournaledShield>,
    /// The shield whose apply has not ended.
    pub joining: Option<String>,
    /// The shield whose undo has not ended, while others stay.
    pub leaving: Option<ShieldLeave>,
    /// The original of every runtime step, in the order of the plan.
    pub intents: Vec<StepOriginal>,
    /// Originals of files that appeared while the plan was applied.
    pub late: BTreeMap<usize, OriginalState>,
    /// Outcomes by step; a step without one may or may not have been made.
    pub outcomes: BTreeMap<usize, StepDone>,
    /// The resulting affinities; `None` when the plan was not fully applied.
    pub applied: Option<TaskMasks>,
    /// The steps of an unfinished amendment.
    pub amending: BTreeSet<usize>,
    /// The decision of the last undo, once it has begun.
    pub undoing: Option<UndoDecision>,
    /// The results of undo, by step.
    pub fates: BTreeMap<usize, StepFate>,
    /// Steps that an undo has finished, including the second check of restored values.
    pub settled: BTreeSet<usize>,
    /// The affinities that the last undo left; `None` when it did not get that far.
    pub affinities: Option<AffinitiesDone>,
    /// The number of bytes in complete lines; a crash tore what follows.
    pub whole: u64,
    /// Lines that cannot be read.
    pub dropped: Vec<DroppedLine>,
}

impl JournalLine {
    /// The line of the affinities that a complete apply or amendment left.
    pub(super) fn applied(masks: &TaskMasks) -> JournalLine {
        JournalLine::Applied(CompleteLine { masks: masks.clone() })
    }

    /// Encodes a line with its line end.
    ///
    /// # Errors
    /// It cannot be encoded, which is a defect of this program. Then nothing may be changed.
    pub(super) fn encode(&self) -> Result<Vec<u8>, Error> {
        let mut bytes = serde_json::to_vec(self).map_err(|error| Error::json(JOURNAL, error))?;
        bytes.push(b'\n');
        Ok(bytes)
    }
}

/// The part of a journal that must be on the disk before the first write.
///
/// # Errors
/// It cannot be encoded.
pub fn opening_lines(header: &JournalHeader, intents: &[StepOriginal]) -> Result<Vec<u8>, Error> {
    let mut bytes = JournalLine::Header(Box::new(header.clone())).encode()?;
    for intent in intents {
        bytes.extend(JournalLine::Intent(intent.clone()).encode()?);
    }
    bytes.extend(JournalLine::Begin(BeginLine { intents: intents.len() }).encode()?);
    Ok(bytes)
}

/// Room in the journal in addition to what follows from the size of its opening.
const SPARE_BYTES: u64 = 64 << 10;

/// The size to reserve for a journal with an opening of this length: for the affinities at the end,
/// once or twice more by undo, and a line or two for each step.
#[must_use]
pub fn room_for(opening: usize) -> u64 {
    4 * opening as u64 + SPARE_BYTES
}

impl ApplyJournal {
    /// A journal before the first change.
    #[must_use]
    pub fn new(header: JournalHeader, intents: Vec<StepOriginal>) -> ApplyJournal {
        ApplyJournal {
            shields: vec![JournaledShield::first(&header)],
            header,
            joining: None,
            leaving: None,
            intents,
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
        }
    }

    /// Whether all plans and their amendments are fully applied, and no undo has begun.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.applied.is_some()
            && self.amending.is_empty()
            && self.undoing.is_none()
            && self.unfinished_name().is_none()
    }

    /// Adds an amendment. The outcome of a step that is made again becomes unknown, unless it had
    /// changed something: undo must restore that in any case.
    pub fn amend(&mut self, amendment: Amendment) {
        for step in amendment.again {
            if self.outcomes.get(&step).is_some_and(|done| done.outcome != Outcome::Changed) {
                self.outcomes.remove(&step);
            }
            self.amending.insert(step);
        }
        for AddedStep { step, original } in amendment.added {
            let tunable = step.tunable.clone();
            let n = self.add_step(step, Some(original));
            let mut owners = self.shields.iter_mut();
            if let Some(owner) = owners.find(|it| it.plan.shield.name == amendment.shield) {
                owner.steps.insert(n);
                owner.plan.request_tunable(&tunable);
            }
        }
    }

    /// Adds a step that is to be made. A step for the next boot has no original. Returns its index.
    fn add_step(&mut self, step: Step, original: Option<OriginalState>) -> usize {
        let n = self.header.plan.steps.len();
        self.header.plan.steps.push(step);
        if let Some(original) = original {
            self.intents.push(StepOriginal { step: n, original });
            self.amending.insert(n);
        }
        n
    }

    /// Records the outcome of a step. `Changed` stays, whatever a second try gives: undo must
    /// restore that change.
    fn record_outcome(&mut self, done: StepDone) {
        let known = self.outcomes.get(&done.step);
        let has_changed = known.is_some_and(|known| known.outcome == Outcome::Changed);
        if !has_changed || done.outcome == Outcome::Changed {
            self.outcomes.insert(done.step, done);
        }
    }

    /// Finds the last step about the same thing as a change.
    #[must_use]
    pub fn last_about(&self, change: &Change) -> Option<&StepOriginal> {
        self.intents_about(change).next_back()
    }

    /// The step of an original.
    #[must_use]
    pub fn step(&self, intent: &StepOriginal) -> Option<&Step> {
        self.header.plan.steps.get(intent.step)
    }

    /// The changes of all runtime steps.
    pub(super) fn changes(&self) -> impl Iterator<Item = &Change> {
        self.intents.iter().filter_map(|intent| Some(&self.step(intent)?.change))
    }

    /// The affinities that steps set.
    pub(super) fn wanted_masks(&self) -> impl Iterator<Item = (TaskId, &CpuSet)> {
        self.changes().filter_map(|change| match change {
            Change::Affinity { task, cpus, .. } => Some((*task, cpus)),
            _ => None,
        })
    }

    /// The state before a step, read late when the file appeared late.
    #[must_use]
    pub fn original<'a>(&'a self, intent: &'a StepOriginal) -> &'a OriginalState {
        self.late.get(&intent.step).unwrap_or(&intent.original)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::change::{EffectTime, Risk, ValueComparison, WrittenFile};
    use crate::documents::plan::Shield;
    use crate::policy::TunableSettings;
    use cpushield_linux::CpuSet;
    use proptest::prelude::*;

    pub(in crate::apply) fn written(path: &str) -> Step {
        let change = Change::Write {
            path: path.to_owned(),
            value: "7".to_owned(),
            compare: ValueComparison::Mask,
            what: WrittenFile::Setting,
        };
        Step {
            tunable: "irq-affinity".to_owned(),
            change,
            now: Some("f".to_owned()),
            reason: "a reason".into(),
            risk: Risk::None,
            when: EffectTime::Runtime,
            removes: Vec::new(),
            required: false,
        }
    }

    fn shield() -> Shield {
        Shield {
            name: "cpushield".to_owned(),
            cpus: CpuSet::single(3),
            idle_siblings: CpuSet::new(),
            offline_siblings: CpuSet::new(),
            housekeeping: "0-2".parse().unwrap(),
            mems: CpuSet::single(0),
            workload: crate::policy::Workload::Polling,
            balanced: false,
            shares_core: false,
            takes_whole_node: false,
            max_latency_ns: None,
            tickless: CpuSet::new(),
            evict: false,
            closed: CpuSet::new(),
            tunables: TunableSettings::default(),
        }
    }

    pub(in crate::apply) fn sample() -> Vec<u8> {
        let boot = Step { when: EffectTime::Boot, ..written("/proc/irq/9/smp_affinity") };
        let plan = Plan {
            schema: crate::documents::plan::SCHEMA,
            boot_id: Some("one".to_owned()),
            kernel: None,
            shield: shield(),
            why: Vec::new(),
            steps: vec![
                written("/proc/irq/1/smp_affinity"),
                boot,
                written("/proc/irq/2/smp_affinity"),
            ],
            already: BTreeMap::new(),
            skipped: Vec::new(),
            immovable: Vec::new(),
            unproven: Vec::new(),
            boot: Vec::new(),
            warnings: Vec::new(),
            operators: None,
        };
        let header = JournalHeader {
            journal: "cpushield".to_owned(),
            schema: SCHEMA,
            version: "0".to_owned(),
            boot_id: Some("one".to_owned()),
            plan,
        };
        let text = OriginalState::Text { text: "f".to_owned() };
        let intents = [0, 2].map(|step| StepOriginal { step, original: text.clone() });
        let mut bytes = opening_lines(&header, &intents).unwrap();
        let id = TaskId { tid: 40, started: 4 };
        let masks = TaskMasks(BTreeMap::from([(id, CpuSet::single(1))]));
        let done = |step| StepDone {
            step,
            outcome: Outcome::Changed,
            left: Some("7".to_owned()),
            note: None,
            moved: None,
            unrestored: vec!["/proc/irq/5/smp_affinity_list".to_owned()],
        };
        bytes.extend(
            JournalLine::Late(StepOriginal { step: 2, original: OriginalState::Missing })
                .encode()
                .unwrap(),
        );
        bytes.extend(JournalLine::Outcome(done(0)).encode().unwrap());
        bytes.extend(JournalLine::Outcome(done(2)).encode().unwrap());
        bytes.extend(JournalLine::applied(&masks).encode().unwrap());
        let added = vec![AddedStep { step: written("/proc/irq/3/smp_affinity"), original: text }];
        let shield = "cpushield".to_owned();
        bytes.extend(
            JournalLine::Amend(Amendment { shield, again: vec![2], added }).encode().unwrap(),
        );
        bytes.extend(JournalLine::Outcome(done(3)).encode().unwrap());
        bytes.extend(JournalLine::applied(&masks).encode().unwrap());
        let kept = masks.clone();
        bytes.extend(
            JournalLine::Undoing(UndoDecision {
                masks,
                was: kept.clone(),
                limited: vec![id],
                kept,
                drifted: vec![id],
            })
            .encode()
            .unwrap(),
        );
        let fate = ChangeFate::Failed { reason: "EIO".to_owned() };
        bytes.extend(JournalLine::Undone(StepFate { step: 2, fate, note: None }).encode().unwrap());
        bytes
    }

    #[test]
    fn every_line_is_read_as_it_was_written() {
        let bytes = sample();
        let journal = ApplyJournal::parse(&bytes).unwrap();
        assert_eq!(journal.whole, bytes.len() as u64);
        assert_eq!(journal.intents.iter().map(|i| i.step).collect::<Vec<_>>(), [0, 2, 3]);
        assert_eq!(journal.header.plan.steps[3], written("/proc/irq/3/smp_affinity"));
        assert!(journal.amending.is_empty());
        assert_eq!(journal.original(&journal.intents[1]), &OriginalState::Missing);
        assert_eq!(journal.outcomes.len(), 3);
        assert_eq!(journal.applied.as_ref(), journal.undoing.as_ref().map(|u| &u.masks));
        assert_eq!(journal.fates[&2].fate, ChangeFate::Failed { reason: "EIO".to_owned() });
    }

    #[test]
    fn errors_name_the_line_and_what_was_expected() {
        let text = String::from_utf8(sample()).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        let with = |n: usize, line: &str| {
            let mut lines = lines.clone();
            lines[n] = line;
            ApplyJournal::parse((lines.join("\n") + "\n").as_bytes()).unwrap_err().to_string()
        };
        let again = lines[8].replace("[2]", "[4]");
        let newer = lines[0].replace("\"schema\":1,\"version\"", "\"schema\":2,\"version\"");
        for (n, line, message) in [
            (0, "", "line 1: expected the header of a cpushield journal, schema 1, found \"\""),
            (0, newer.as_str(), "line 1: expected the header of a cpushield journal, schema 1"),
            (1, lines[2], "line 2: expected the original of step 0, found"),
            (2, lines[1], "line 3: expected the original of step 2, found"),
            (3, "{\"begin\":{\"intents\":3}}", "line 4: expected `begin` after 2 originals, found"),
            (5, "{\"outcome\":{}}", "line 6: expected an outcome or a record of undo, found"),
            (8, lines[12], "line 9: expected an outcome or a record of undo, found"),
            (8, lines[9], "line 9: expected an outcome or a record of undo, found"),
            (9, &again, "line 10: expected an outcome or a record of undo, found"),
        ] {
            let error = with(n, line);
            assert!(error.starts_with(message), "{error}");
        }
        let error = ApplyJournal::parse(lines[0].as_bytes()).unwrap_err();
        assert_eq!(error.found, "the end of the file");
        let error = ApplyJournal::parse(b"rm -rf").unwrap_err();
        assert_eq!((error.line, error.found.as_str()), (1, "\"rm -rf\""));
    }

    #[test]
    fn unreadable_lines_after_begin_are_dropped_and_reported() {
        let whole = ApplyJournal::parse(&sample()).unwrap();
        assert_eq!(whole.dropped, []);
        let text = String::from_utf8(sample()).unwrap();
        let at = text.find("{\"outcome\"").unwrap();
        let torn = [&text[..at], "{\"outco\n", &text[at..], "\0\0\0\n{\"und"].concat();
        let journal = ApplyJournal::parse(torn.as_bytes()).unwrap();
        let dropped = [(6, 7), (15, 3), (16, 5)].map(|(line, bytes)| DroppedLine { line, bytes });
        assert_eq!(journal.dropped, dropped);
        assert_eq!(journal.whole, torn.len() as u64 - 5);
        let same = ApplyJournal { dropped: Vec::new(), whole: whole.whole, ..journal };
        assert_eq!(same, whole);
    }

    #[test]
    fn a_torn_last_line_is_dropped_only_after_begin() {
        let bytes = sample();
        let text = String::from_utf8(bytes.clone()).unwrap();
        let begin = text.find("{\"late\"").unwrap();
        for len in 0..bytes.len() {
            let cut = ApplyJournal::parse(&bytes[..len]);
            assert_eq!(cut.is_ok(), len >= begin, "{len} bytes");
            if let Ok(journal) = cut {
                let whole = usize::try_from(journal.whole).unwrap();
                assert!(whole <= len && bytes[whole - 1] == b'\n', "{len} bytes");
            }
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_parser_panic(
            at in 0usize..3000,
            cut in 0usize..40,
            put in prop::collection::vec(any::<u8>(), 0..12),
        ) {
            let mut bytes = sample();
            let at = at.min(bytes.len());
            let end = (at + cut).min(bytes.len());
            bytes.splice(at..end, put.iter().copied());
            if let Err(error) = ApplyJournal::parse(&bytes) {
                prop_assert!(error.line >= 1 && error.line <= 2 + bytes.len());
            }
            let _ = ApplyJournal::parse(&put);
        }
    }
}
