//! A shield joins the journal of others. A step about something that they have changed before keeps
//! the first original, so that the last undo restores the state before all shields.

use super::document::ApplyError;
use super::journal::{self, ApplyJournal, JoinKind, ShieldJoin};
use super::kinds::kind_of;
use super::load::{FoundJournal, JOURNAL, JournalLoadError, load};
use super::original::OriginalState;
use crate::change::Change;
use crate::documents::plan::{Plan, Shield};
use cpushield_linux::store::Appender;
use cpushield_linux::{CpuSet, Error, Host, Store};

/// Checks that a plan can be applied together with the active shields, as another shield or as the
/// next version of one. Without a lock, so apply checks it again.
///
/// # Errors
/// The journal cannot be used, another change is unfinished, or the shield overlaps another one.
pub fn check_active(host: &Host, store: &Store, plan: &Plan) -> Result<(), ApplyError> {
    match load(host, store) {
        Ok(FoundJournal::Here(journal)) => check_others(&journal, &plan.shield),
        Ok(FoundJournal::Nothing | FoundJournal::OtherBoot(_)) => Ok(()),
        // A normal user cannot read the journal.
        Err(JournalLoadError::Access(error)) if error.is_denied() => Ok(()),
        Err(JournalLoadError::Access(error)) => Err(error.into()),
        Err(JournalLoadError::Journal { path, error }) => Err(ApplyError::Journal { path, error }),
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
    let live = journal.shields.iter().map(|live| &live.plan.shield);
    let mut live = live.filter(|live| live.name != shield.name);
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

/// Writes the plan and all originals to the journal of the active shields, before the first change.
pub(super) fn join(
    host: &Host,
    store: &Store,
    mut journal: ApplyJournal,
    plan: &Plan,
    kind: JoinKind,
) -> Result<(ApplyJournal, Appender), Error> {
    let mut originals = Vec::new();
    for step in plan.steps.iter().filter(|step| step.is_runtime()) {
        let first = first_mask(&journal, &step.change).cloned();
        let first = first.map(|cpus| OriginalState::Cpus { cpus });
        originals.push(match (journal.last_about(&step.change), first) {
            (Some(known), _) => journal.original(known).clone(),
            (None, Some(first)) => first,
            (None, None) => {
                let original = kind_of(&step.change).read_original(host)?;
                with_first_files(&journal, &step.change, original)
            }
        });
    }
    let join = ShieldJoin { kind, plan: plan.clone(), originals };
    let line = journal::join_line(&join);
    let mut log = store.append(JOURNAL, journal.whole)?;
    log.add(&line)?;
    log.sync()?;
    journal.join(join);
    Ok((journal, log))
}
