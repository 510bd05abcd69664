//! The one undo: backwards through the journal, each change put back where it is still ours.
//! Affinities come last of all, for the kernel changes them when cpusets go. It goes on after a
//! failure, and it can be killed and called again at any moment: it decides by what is there.

use super::document::{UndoError, UndoneShield, UndoneStep};
use super::hogs::RtHogs;
use super::journal::{
    self, AffinitiesDone, ApplyJournal, ChangeFate, JournalOrigin, OriginalState, StepDone,
    StepFate, StepOriginal,
};
use super::revert::{self, RevertedChange};
use super::{FoundJournal, JOURNAL, JournalLoadError, load};
use super::{affinities, cycle};
use crate::change::{Change, Outcome};
use crate::plan::Step;
use cpushield_linux::store::{Appender, StoreLock};
use cpushield_linux::{Error, Host, Store, TaskId};
use std::collections::BTreeSet;

/// Takes the active shield down.
///
/// # Errors
/// Nothing was done; a step that could not be put back is told in [`UndoneShield`].
pub fn undo(host: &Host, store: &Store) -> Result<UndoneShield, UndoError> {
    match store.read(JOURNAL) {
        // Nothing to lock for, and the directory may not be there either.
        Ok(None) => return Ok(UndoneShield::nothing()),
        Ok(Some(_)) => {}
        Err(error) => return Err(error.into()),
    }
    let lock = store.lock()?;
    undo_locked(host, store, &lock)
}

/// The same under a lock that is held already.
pub(super) fn undo_locked(
    host: &Host,
    store: &Store,
    _: &StoreLock,
) -> Result<UndoneShield, UndoError> {
    let journal = match load(host, store) {
        Ok(FoundJournal::Here(journal)) => journal,
        Ok(FoundJournal::OtherBoot(origin)) => return Ok(gone(store, *origin)),
        Ok(FoundJournal::Nothing) => return Ok(UndoneShield::nothing()),
        Err(JournalLoadError::Journal { path, error }) => {
            return Err(UndoError::Journal { path, error });
        }
        Err(JournalLoadError::Access(error)) => return Err(error.into()),
    };
    host.pin_current_thread(&journal.header.plan.shield.housekeeping);
    let tasks = host.tasks()?;
    let mut hogs = RtHogs::among(host, &tasks);
    if let Some(hog) = hogs.above_rcu(host)? {
        return Err(UndoError::Hog(hog));
    }
    let mut log = UndoLog::open(store, journal.whole);
    let undoing = affinities::decide(host, &journal, tasks)?;
    log.add(&journal::undoing(&undoing));
    let mut run =
        UndoRun { host, journal: &journal, log, hogs, fated: Vec::new(), fresh: BTreeSet::new() };
    run.cpus_online()?;
    run.backwards()?;
    run.settle()?;
    let tasks =
        affinities::restore(host, &journal.header.plan.shield, &undoing, run.is_complete())?;
    run.tell_affinities(&undoing, &tasks);
    run.end(&tasks);
    let mut undone = UndoneShield::nothing();
    undone.shield = Some(journal.header.plan.shield.clone());
    undone.drifted_tasks = undoing.drifted.iter().chain(&tasks.drifted).copied().collect();
    undone.asked_tasks.clone_from(&tasks.asked);
    undone.restored_tasks = tasks.restored.len();
    undone.steps = run.told();
    undone.notes.extend(journal.dropped.iter().map(ToString::to_string));
    undone.notes.extend(run.log.note());
    if undone.is_complete() {
        put_away(store, journal.header.boot_id.as_deref(), &mut undone);
    } else {
        undone.journal = Some(store.path(JOURNAL));
    }
    Ok(undone)
}

/// The journal of a shield that is no more must not stand in the way of the next one.
fn put_away(store: &Store, boot: Option<&str>, undone: &mut UndoneShield) {
    let failed = match archive(store, boot) {
        Ok(kept) => return undone.journal = Some(kept),
        Err(error) => error.reason(),
    };
    undone.notes.push(match store.remove(JOURNAL) {
        Ok(()) => format!("the journal could not be kept ({failed}) and was removed"),
        Err(_) => {
            undone.journal = Some(store.path(JOURNAL));
            format!(
                "the journal could not be put away ({failed}): call `cpushield undo` once more \
                 when its directory can be written"
            )
        }
    });
}

/// The journal while undo is at work. Undo is for machines that are in trouble, a full disk among
/// them: what cannot be noted is done all the same, for the next undo decides by what is there.
///
/// Nothing waits for the disk: a line outlives this process as soon as it is written, and what only
/// the death of the machine takes away nobody needs, for a machine that boots has nothing to undo.
struct UndoLog {
    file: Option<Appender>,
    failure: Option<Error>,
}

impl UndoLog {
    fn open(store: &Store, len: u64) -> UndoLog {
        match store.append(JOURNAL, len) {
            Ok(file) => UndoLog { file: Some(file), failure: None },
            Err(error) => UndoLog { file: None, failure: Some(error) },
        }
    }

    /// After a failure nothing is added any more: a part of a line may be at the end.
    fn add(&mut self, bytes: &[u8]) {
        if let Some(Err(error)) = self.file.as_mut().map(|file| file.add(bytes)) {
            *self = UndoLog { file: None, failure: Some(error) };
        }
    }

    fn note(&self) -> Option<String> {
        let reason = self.failure.as_ref()?.reason();
        Some(format!("the journal could not be written ({reason}), so undo went on without it"))
    }
}

/// How many old journals are kept.
const ARCHIVES_MAX: usize = 10;

/// Puts the journal away.
pub(super) fn archive(store: &Store, boot: Option<&str>) -> Result<String, Error> {
    let short: String =
        boot.unwrap_or("unknown").chars().filter(char::is_ascii_alphanumeric).take(8).collect();
    let kept = store.archive(JOURNAL, &format!("journal-{short}"), "jsonl")?;
    // Too many old ones are no reason to fail.
    let _ = store.prune("journal-", ARCHIVES_MAX);
    Ok(kept)
}

/// The machine was booted since: nothing is written, whatever the journal says.
fn gone(store: &Store, origin: JournalOrigin) -> UndoneShield {
    let mut undone = UndoneShield::nothing();
    undone.other_boot = true;
    // Told where it can be read; nothing depends on it.
    if let Some(journal) =
        store.read(JOURNAL).ok().flatten().map(|bytes| ApplyJournal::parse(&bytes))
    {
        match journal {
            Ok(journal) => {
                let touched = journal.intents.iter().filter(|intent| touched(&journal, intent));
                let fated = touched.map(|it| StepFate {
                    step: it.step,
                    fate: ChangeFate::Gone,
                    note: None,
                });
                undone.steps = fated.filter_map(|fated| told(&journal, fated)).collect();
            }
            Err(error) => undone.notes.push(format!("the journal is not whole: {error}")),
        }
    }
    undone.shield = origin.plan.map(|plan| plan.shield);
    put_away(store, origin.boot_id.as_deref(), &mut undone);
    undone
}

/// Whether a step may have changed something.
fn touched(journal: &ApplyJournal, intent: &StepOriginal) -> bool {
    match journal.outcomes.get(&intent.step) {
        Some(StepDone { outcome: Outcome::Refused { .. } | Outcome::Absent, .. }) => false,
        Some(StepDone { outcome: Outcome::AlreadySo, .. }) => false,
        Some(_) | None => !matches!(
            journal.step(intent).map(|step| &step.change),
            Some(Change::KeepAffinities) | None
        ),
    }
}

fn told(journal: &ApplyJournal, fated: StepFate) -> Option<UndoneStep> {
    let step = journal.header.plan.steps.get(fated.step)?;
    Some(UndoneStep {
        step: fated.step,
        tunable: step.tunable.clone(),
        subject: step.change.subject(),
        fate: fated.fate,
        note: fated.note,
    })
}

struct UndoRun<'a> {
    host: &'a Host,
    journal: &'a ApplyJournal,
    log: UndoLog,
    hogs: RtHogs,
    fated: Vec<StepFate>,
    /// Steps that this undo dealt with, not an earlier one.
    fresh: BTreeSet<usize>,
}

impl UndoRun<'_> {
    /// A CPU that was left offline comes back first: masks that name it alone are refused before.
    fn cpus_online(&mut self) -> Result<(), UndoError> {
        for intent in &self.journal.intents {
            let done = self.journal.outcomes.get(&intent.step);
            if let Some(Change::CycleCpu { cpu }) = self.journal.step(intent).map(|s| &s.change)
                && !cycle::is_finished(done)
                && self.fated_before(intent.step).is_none()
            {
                cycle::bring_online(self.host, *cpu)?;
            }
        }
        Ok(())
    }

    /// Every change but those of affinities, the last one first. What would wait for a CPU that a
    /// real-time task keeps comes at the end: until then the first steps of the plan are put back,
    /// those that leave other threads no time among them.
    fn backwards(&mut self) -> Result<(), UndoError> {
        let mut later = Vec::new();
        for intent in self.journal.intents.iter().rev() {
            let Some(step) = self.journal.step(intent) else { continue };
            if matches!(step.change, Change::Affinity { .. } | Change::KeepAffinities) {
                continue;
            }
            if let Some(fated) = self.fated_before(intent.step) {
                self.fated.push(fated.clone());
                continue;
            }
            let was = self.journal.original(intent);
            if self.hogs.delay(self.host, &step.change, was)?.is_some() {
                later.push((intent, step));
                continue;
            }
            self.one(intent, step)?;
        }
        self.hogs.forget();
        for (intent, step) in later {
            let was = self.journal.original(intent);
            match self.hogs.delay(self.host, &step.change, was)? {
                None => self.one(intent, step)?,
                Some(reason) => {
                    let fate = ChangeFate::Failed { reason };
                    self.tell(StepFate { step: intent.step, fate, note: None });
                }
            }
        }
        Ok(())
    }

    fn one(&mut self, intent: &StepOriginal, step: &Step) -> Result<(), UndoError> {
        let was = self.journal.original(intent);
        let done = self.journal.outcomes.get(&intent.step);
        let RevertedChange { fate, note } =
            revert::restore(self.host, self.journal, step, was, done)?;
        if let Some(fate) = fate {
            self.tell(StepFate { step: intent.step, fate, note });
        }
        Ok(())
    }

    /// What an earlier undo did about a step, unless it failed.
    fn fated_before(&self, step: usize) -> Option<&'_ StepFate> {
        let fated = self.journal.fates.get(&step);
        fated.filter(|fated| !matches!(fated.fate, ChangeFate::Failed { .. }))
    }

    fn tell(&mut self, fated: StepFate) {
        self.log.add(&journal::undone(&fated));
        self.fresh.insert(fated.step);
        self.fated.push(fated);
    }

    /// Looks once more at every file that was put back: the kernel changes some when others change
    /// (the mask of unbound workqueues while a partition is up, 6.7 and later). What an earlier
    /// undo looked at is not looked at again; where it was killed before, only what says again what
    /// we had left is ours.
    fn settle(&mut self) -> Result<(), UndoError> {
        let restored = self.fated.iter().filter(|fated| fated.fate == ChangeFate::Restored);
        let restored = restored.filter(|fated| {
            self.fresh.contains(&fated.step) || !self.journal.settled.contains(&fated.step)
        });
        let restored: BTreeSet<usize> = restored.map(|fated| fated.step).collect();
        for intent in self.journal.intents.iter().filter(|i| restored.contains(&i.step)) {
            let Some(step) = self.journal.step(intent) else { continue };
            let was = self.journal.original(intent);
            let done = self.journal.outcomes.get(&intent.step);
            let only_ours = !self.fresh.contains(&intent.step);
            let settled = match self.hogs.delay(self.host, &step.change, was)? {
                Some(reason) => Err(reason),
                None => revert::settle(self.host, &step.change, was, done, only_ours)?,
            };
            if let Err(reason) = settled {
                let fated =
                    StepFate { step: intent.step, fate: ChangeFate::Failed { reason }, note: None };
                self.fated.retain(|known| known.step != intent.step);
                self.tell(fated);
            }
        }
        Ok(())
    }

    fn is_complete(&self) -> bool {
        !self.fated.iter().any(|fated| matches!(fated.fate, ChangeFate::Failed { .. }))
    }

    /// Notes that all was looked at, and what is left to the next undo.
    fn end(&mut self, tasks: &affinities::RestoredAffinities) {
        let pending = affinities::pending(self.host, tasks);
        self.log.add(&journal::affinities_done(&AffinitiesDone { pending }));
    }

    /// The fates of the steps that gave tasks an affinity.
    fn tell_affinities(
        &mut self,
        undoing: &journal::UndoDecision,
        tasks: &affinities::RestoredAffinities,
    ) {
        for intent in &self.journal.intents {
            let Some(step) = self.journal.step(intent) else { continue };
            if step.change == Change::KeepAffinities
                && let Some(fate) = self.fate_of_all(tasks)
            {
                self.tell(StepFate { step: intent.step, fate, note: None });
            }
            let OriginalState::Cpus { cpus: original } = self.journal.original(intent) else {
                continue;
            };
            let Change::Affinity { task, cpus, .. } = &step.change else { continue };
            if !touched(self.journal, intent) {
                continue;
            }
            if let Some(fated) = self.fated_before(intent.step) {
                self.fated.push(fated.clone());
                continue;
            }
            let drifted = undoing.drifted.contains(task) || tasks.drifted.contains(task);
            let changed = self.journal.outcomes.contains_key(&intent.step);
            let fate = match (tasks.failed.get(task), self.host.affinity(task.tid)) {
                _ if !self.host.is_same_task(*task) => ChangeFate::Gone,
                (Some(reason), _) => ChangeFate::Failed { reason: reason.clone() },
                (None, Ok(now)) if drifted => ChangeFate::Drifted {
                    now: now.to_string(),
                    ours: cpus.to_string(),
                    original: original.to_string(),
                },
                (None, Err(_)) => ChangeFate::Gone,
                _ if !changed && !tasks.restored.contains(task) => continue,
                _ => ChangeFate::Restored,
            };
            self.tell(StepFate { step: intent.step, fate, note: None });
        }
    }

    /// The fate of the affinities that no step of their own gave.
    fn fate_of_all(&self, tasks: &affinities::RestoredAffinities) -> Option<ChangeFate> {
        let steps = self.journal.intents.iter().filter_map(|intent| self.journal.step(intent));
        let own: BTreeSet<TaskId> = steps
            .filter_map(|step| match &step.change {
                Change::Affinity { task, .. } => Some(*task),
                _ => None,
            })
            .collect();
        let failed: Vec<_> = tasks.failed.iter().filter(|(id, _)| !own.contains(id)).collect();
        match failed.first() {
            Some((id, reason)) => {
                let others = failed.len() - 1;
                let reason = format!("task {}: {reason}, and {others} others", id.tid);
                Some(ChangeFate::Failed { reason })
            }
            None => {
                tasks.restored.iter().any(|id| !own.contains(id)).then_some(ChangeFate::Restored)
            }
        }
    }

    /// The fates in the order of the plan.
    fn told(&mut self) -> Vec<UndoneStep> {
        let mut fated = std::mem::take(&mut self.fated);
        fated.sort_by_key(|fated| fated.step);
        fated.into_iter().filter_map(|fated| told(self.journal, fated)).collect()
    }
}
