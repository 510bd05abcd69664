//! A shield joins the journal of others. A step about something that they have changed before keeps
//! the first original, so that the last undo restores the state before all shields.
//!
//! If another process has changed the value since, that value is the one to keep, as undo would
//! keep it: it becomes the original of all steps about that setting, and a note reports it. So the
//! shield that joins has its own value while it is active, and no undo brings back what the other
//! process has replaced.

use super::affinities;
use super::error::ApplyError;
use super::journal::{ApplyJournal, JoinKind, JournalLine, ShieldJoin, StepOriginal};
use super::journal_opening::append_opening;
use super::kinds::kind_of;
use super::load::load;
use super::original::OriginalState;
use super::task_masks::TaskMasks;
use crate::change::{Change, ValueComparison};
use crate::documents::applied::{DriftedValue, ShieldNote};
use crate::documents::plan::{Plan, Shield};
use cpushield_linux::files::store::Appender;
use cpushield_linux::{CpuSet, Error, Host, Store, Task};

/// Checks that a plan can be applied together with the active shields, as another shield or as the
/// next version of one. Without a lock, so apply checks it again.
///
/// # Errors
/// The journal cannot be used, another change is unfinished, or the shield overlaps another one.
pub fn check_active(host: &Host, store: &Store, plan: &Plan) -> Result<(), ApplyError> {
    match load(host, store) {
        Ok(found) => found.here().map_or(Ok(()), |it| check_others(&it, &plan.shield)),
        // A normal user cannot read the journal.
        Err(error) if error.is_denied() => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Checks that a shield can join the active ones.
///
/// # Errors
/// Another change is unfinished, the shield is active already, or it overlaps another one.
pub(super) fn check(journal: &ApplyJournal, shield: &Shield, path: &str) -> Result<(), ApplyError> {
    let path = path.to_owned();
    if let Some(live) = journal.shield(&shield.name) {
        return Err(ApplyError::Active { shield: Box::new(live), path });
    }
    check_others(journal, shield)
}

/// Checks that a shield, or the successor of one, can be active together with the others.
///
/// # Errors
/// Another change is unfinished, or the shield overlaps another one.
pub(super) fn check_others(journal: &ApplyJournal, shield: &Shield) -> Result<(), ApplyError> {
    if !journal.is_whole() {
        let names = journal.shield_names();
        let unfinished = journal.unfinished_name().or_else(|| names.first().cloned());
        return Err(ApplyError::Unfinished { shield: unfinished.unwrap_or_default() });
    }
    let mut live = journal.planned_shields().filter(|live| live.name != shield.name);
    if let Some(other) = live.clone().find(|live| live.cpus.intersects(&shield.cpus)) {
        return Err(ApplyError::Overlap {
            cpus: other.cpus.intersection(&shield.cpus),
            other: other.name.clone(),
        });
    }
    match live.find(|live| live.cpus.intersects(&shield.housekeeping)) {
        Some(other) => Err(ApplyError::Stale {
            why: format!("the plan was made before shield {} was applied", other.name),
        }),
        None => Ok(()),
    }
}

/// The mask that a task had before all shields: the cpusets of others may have changed it.
fn first_mask<'a>(journal: &'a ApplyJournal, change: &Change) -> Option<&'a CpuSet> {
    let Change::Affinity { task, .. } = change else { return None };
    journal.intents.iter().find_map(|intent| match journal.original(intent) {
        OriginalState::Affinities { masks } => masks.0.get(task),
        _ => None,
    })
}

/// The original of a slice, with the files that an earlier slice has changed as they were before.
fn with_first_files(
    journal: &ApplyJournal,
    change: &Change,
    original: OriginalState,
) -> OriginalState {
    let OriginalState::Files { files } = &original else { return original };
    if !matches!(change, Change::Slice { .. }) {
        return original;
    }
    let mut files = files.clone();
    for intent in &journal.intents {
        if let Some(Change::Slice { .. }) = journal.step(intent).map(|step| &step.change)
            && let OriginalState::Files { files: first } = journal.original(intent)
        {
            files.extend(first.clone());
        }
    }
    OriginalState::Files { files }
}

/// A shield that has joined the journal, before its first change.
pub(super) struct JoinedShield {
    pub(super) journal: ApplyJournal,
    pub(super) log: Appender,
    /// What other processes have changed since the active shields were applied.
    pub(super) notes: Vec<ShieldNote>,
}

/// Writes the plan and all originals to the journal of the active shields, before the first change.
/// `tasks` is a fresh list.
pub(super) fn join(
    host: &Host,
    store: &Store,
    mut journal: ApplyJournal,
    plan: &Plan,
    kind: JoinKind,
    tasks: &[Task],
) -> Result<JoinedShield, Error> {
    let foreign = ForeignChanges::find(host, &journal, plan, tasks)?;
    for late in &foreign.originals {
        journal.late.insert(late.step, late.original.clone());
    }
    let mut originals = Vec::new();
    for step in plan.steps.iter().filter(|step| step.is_runtime()) {
        let first = first_mask(&journal, &step.change).cloned();
        let first = first.map(|cpus| OriginalState::Cpus { cpus });
        originals.push(match (journal.last_made_about(&step.change), first) {
            (Some(known), _) => journal.original(known).clone(),
            (None, Some(first)) => first,
            (None, None) => {
                let original = kind_of(&step.change).read_original(host)?;
                with_first_files(&journal, &step.change, original)
            }
        });
    }
    let join = ShieldJoin { kind, plan: plan.clone(), originals };
    let late = foreign.originals.into_iter().map(JournalLine::Late);
    let lines = late.chain([JournalLine::Join(Box::new(join.clone()))]);
    let lines: Result<Vec<Vec<u8>>, Error> = lines.map(|line| line.encode()).collect();
    let log = append_opening(store, journal.whole, &lines?)?;
    journal.join(join);
    Ok(JoinedShield { journal, log, notes: foreign.notes })
}

/// What other processes have changed since the active shields were applied, of what the new one
/// changes too. It overwrites that, so undo would no longer see it.
#[derive(Default)]
struct ForeignChanges {
    /// The originals from now on, of steps of the active shields.
    originals: Vec<StepOriginal>,
    notes: Vec<ShieldNote>,
}

impl ForeignChanges {
    fn find(
        host: &Host,
        journal: &ApplyJournal,
        plan: &Plan,
        tasks: &[Task],
    ) -> Result<ForeignChanges, Error> {
        let mut foreign = ForeignChanges::default();
        for step in plan.steps.iter().filter(|step| step.is_runtime()) {
            let Some(known) = journal.last_made_about(&step.change) else { continue };
            let Some((original, drift)) = foreign_value(host, journal, known)? else { continue };
            let subject = step.change.subject();
            foreign.notes.push(ShieldNote::ForeignValue { subject, drift });
            foreign.originals.extend(
                journal
                    .intents_about(&step.change)
                    .map(|intent| StepOriginal { step: intent.step, original: original.clone() }),
            );
        }
        let masks = affinities::foreign_masks(host, journal, tasks)?;
        if !masks.0.is_empty() {
            foreign.originals.extend(originals_with(journal, &masks));
            let tasks = masks.0.into_keys().collect();
            foreign.notes.push(ShieldNote::ForeignAffinities { tasks });
        }
        Ok(foreign)
    }
}

/// The value that another process has given to a file since an active shield wrote it, and how it
/// differs. Files of the shields' own groups, and lists to which each writer adds words, have none.
fn foreign_value(
    host: &Host,
    journal: &ApplyJournal,
    known: &StepOriginal,
) -> Result<Option<(OriginalState, DriftedValue)>, Error> {
    let (Some(step), Some(done)) = (journal.step(known), journal.outcomes.get(&known.step)) else {
        return Ok(None);
    };
    let Change::Write { value, compare, .. } = &step.change else { return Ok(None) };
    let is_text = matches!(journal.original(known), OriginalState::Text { .. });
    if !is_text || matches!(compare, ValueComparison::Member | ValueComparison::Again) {
        return Ok(None);
    }
    let (kind, left) = (kind_of(&step.change), done.left.as_deref());
    let Some(drift) = kind.find_drift(host, left) else { return Ok(None) };
    let now = kind.read_original(host)?;
    // The kernel narrows some files while a partition exists, and shows what was written elsewhere.
    let is_foreign = |text: &str| {
        !compare.same(text, value) && !left.is_some_and(|left| compare.is_original(text, left))
    };
    let is_foreign = matches!(&now, OriginalState::Text { text } if is_foreign(text));
    Ok(is_foreign.then_some((now, drift)))
}

/// The originals of all steps that have the mask of one of these tasks, with these masks.
fn originals_with<'a>(
    journal: &'a ApplyJournal,
    masks: &'a TaskMasks,
) -> impl Iterator<Item = StepOriginal> + 'a {
    journal.intents.iter().filter_map(|intent| {
        let original = match (journal.original(intent), &journal.step(intent)?.change) {
            (OriginalState::Affinities { masks: known }, _) => {
                let mut known = known.clone();
                for (task, cpus) in &mut known.0 {
                    if let Some(now) = masks.0.get(task) {
                        cpus.clone_from(now);
                    }
                }
                OriginalState::Affinities { masks: known }
            }
            (OriginalState::Cpus { .. }, Change::Affinity { task, .. }) => {
                OriginalState::Cpus { cpus: masks.0.get(task)?.clone() }
            }
            _ => return None,
        };
        Some(StepOriginal { step: intent.step, original })
    })
}
