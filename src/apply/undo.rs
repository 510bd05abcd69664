//! Undo of one version of a shield: walks backwards through its steps and restores each change that
//! is still ours. Settings that other active shields need too get the value that those need
//! (`leave`). Affinities come last, because the kernel changes them when cpusets are removed. Undo
//! continues after a failure. It can be killed and called again at any time: it decides by the
//! current state.

use super::affinities;
use super::error::UndoError;
use super::hogs::RtHogs;
use super::journal::{
    AffinitiesDone, ApplyJournal, JOURNAL, JournalLine, JournalOrigin, ShieldLeave, StepFate,
    StepOriginal, UndoDecision, replaced_name,
};
use super::kind::{RestoringUndo, RevertedChange, ShieldChanges};
use super::kinds::kind_of;
use super::leave::{self, ReplacedResult};
use super::load::{FoundJournal, JournalLoadError, load};
use super::original::OriginalState;
use super::restore_affinities::{self, OtherSettings, RestoredAffinities};
use super::revert;
use super::task_masks::TaskMasks;
use super::unbound;
use super::undo_end::UndoEnd;
use super::undo_log::{UndoLog, archive_or_remove};
use super::undo_scope::UndoScope;
use crate::change::{Change, Outcome};
use crate::documents::applied::{
    ChangeFate, ShieldNote, StepDone, UndoneShield, UndoneStep, UnrestoredChanges,
};
use crate::documents::plan::Step;
use cpushield_linux::files::store::StoreLock;
use cpushield_linux::{AffinityGuard, Host, Store, TaskId};
use std::collections::BTreeSet;

/// Removes one version of a shield, with a lock that is held already.
pub(super) fn undo_locked(
    host: &Host,
    store: &Store,
    name: Option<&str>,
    unrestored: UnrestoredChanges,
    _: &StoreLock,
) -> Result<UndoneShield, UndoError> {
    let mut journal = match load(host, store) {
        Ok(FoundJournal::Here(journal)) => journal,
        Ok(FoundJournal::OtherBoot(origin)) => return Ok(discard_other_boot(store, *origin)),
        Ok(FoundJournal::Nothing) => return Ok(UndoneShield::nothing()),
        Err(JournalLoadError::Journal { path, error }) => {
            return Err(UndoError::Journal { path, error });
        }
        Err(JournalLoadError::Access(error)) => return Err(error.into()),
    };
    let scope = find_scope(host, &journal, name)?;
    // The cpuset of this process may contain none of them; then it stays.
    let _ = host.step_aside(&scope.shield.housekeeping).map(AffinityGuard::stay);
    let tasks = host.tasks()?;
    let mut hogs = RtHogs::find_among(host, &tasks);
    if let Some(hog) = hogs.above_rcu(host)? {
        return Err(UndoError::Hog(hog));
    }
    let mut log = UndoLog::open(store, journal.whole);
    let before = match scope.others.is_empty() {
        true => TaskMasks::default(),
        false => affinities::current_masks(host, &journal)?,
    };
    begin_leave(&mut journal, &scope, &mut log);
    let undoing = affinities::decide(host, &journal, &scope, tasks)?;
    log.add(JournalLine::Undoing(undoing.clone()).encode());
    let mut run = UndoRun {
        host,
        journal: &journal,
        scope: &scope,
        shield: revert::shield_changes(&journal),
        log,
        hogs,
        fated: Vec::new(),
        fresh: BTreeSet::new(),
        replaced: Vec::new(),
    };
    run.prepare()?;
    run.revert_all()?;
    run.check_restored_files()?;
    run.check_unbound_mask()?;
    run.make_replaced()?;
    let tasks = restore_affinities::restore(host, &scope, &undoing, run.other_settings())?;
    run.record_affinity_fates(&undoing, &tasks);
    run.record_end(&tasks);
    let replaced = std::mem::take(&mut run.replaced);
    let mut undone = UndoneShield::nothing();
    undone.shield = Some(scope.shield.clone());
    undone.drifted_tasks = undoing.drifted.iter().chain(&tasks.drifted).copied().collect();
    undone.requested_tasks.clone_from(&tasks.asked);
    undone.restored_tasks = tasks.restored.len();
    undone.steps = run.take_results();
    let dropped = journal.dropped.iter();
    undone.notes.extend(dropped.map(|line| ShieldNote::JournalLineDropped { line: *line }));
    undone.notes.extend(run.log.note());
    let end = UndoEnd { host, store, journal, scope: &scope, undoing: &undoing, before: &before };
    end.settle_journal(unrestored, replaced, &mut undone)?;
    Ok(undone)
}

/// Records what the other shields need instead of what they share with the one that leaves, unless
/// an earlier undo did.
fn begin_leave(journal: &mut ApplyJournal, scope: &UndoScope, log: &mut UndoLog) {
    if scope.others.is_empty() || journal.leaving.is_some() {
        return;
    }
    let replaced = leave::replaced_changes(journal, scope);
    let leave = ShieldLeave { shield: scope.shield.name.clone(), replaced };
    log.add(JournalLine::Leave(leave.clone()).encode());
    journal.leave(leave);
}

/// Finds the shield to undo: the one with this name, or the only one.
fn find_scope(
    host: &Host,
    journal: &ApplyJournal,
    name: Option<&str>,
) -> Result<UndoScope, UndoError> {
    let names = journal.shield_names();
    let unfinished = journal.unfinished_name();
    let name = match (name, names.as_slice()) {
        (Some(name), _) => name,
        (None, [name]) => name,
        (None, _) => return Err(UndoError::Several { names }),
    };
    let is_other = |other: &String| other != name && replaced_name(other) != name;
    if let Some(other) = unfinished.filter(is_other) {
        return Err(UndoError::OtherUnfinished { other });
    }
    let missing = || UndoError::NoSuchShield { name: name.to_owned(), names: names.clone() };
    UndoScope::new(host, journal, name).ok_or_else(missing)
}

/// Discards the journal of another boot: nothing is written, whatever it contains.
fn discard_other_boot(store: &Store, origin: JournalOrigin) -> UndoneShield {
    let mut undone = UndoneShield::nothing();
    undone.other_boot = true;
    // The steps are only reported, if they can be read.
    if let Some(journal) =
        store.read(JOURNAL).ok().flatten().map(|bytes| ApplyJournal::parse(&bytes))
    {
        match journal {
            Ok(journal) => {
                let changed =
                    journal.intents.iter().filter(|intent| may_have_changed(&journal, intent));
                let fated = changed.map(|intent| StepFate {
                    step: intent.step,
                    fate: ChangeFate::Gone,
                    note: None,
                });
                undone.steps = fated.filter_map(|fated| undone_step(&journal, fated)).collect();
            }
            Err(error) => {
                let error = error.to_string();
                undone.notes.push(ShieldNote::JournalIncomplete { error });
            }
        }
    }
    undone.shield = origin.plan.map(|plan| plan.shield);
    archive_or_remove(store, origin.boot_id.as_deref(), &mut undone);
    undone
}

/// Whether a step may have changed something.
fn may_have_changed(journal: &ApplyJournal, intent: &StepOriginal) -> bool {
    match journal.outcomes.get(&intent.step) {
        Some(StepDone { outcome: Outcome::Refused { .. } | Outcome::Absent, .. }) => false,
        Some(StepDone { outcome: Outcome::AlreadySo, .. }) => false,
        Some(_) | None => !matches!(
            journal.step(intent).map(|step| &step.change),
            Some(Change::KeepAffinities) | None
        ),
    }
}

fn undone_step(journal: &ApplyJournal, fated: StepFate) -> Option<UndoneStep> {
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
    scope: &'a UndoScope,
    shield: ShieldChanges<'a>,
    log: UndoLog,
    hogs: RtHogs,
    fated: Vec<StepFate>,
    /// Steps that this undo handled, not an earlier one.
    fresh: BTreeSet<usize>,
    /// The results of steps that other shields needed to have changed.
    replaced: Vec<StepDone>,
}

impl<'a> UndoRun<'a> {
    /// The steps of the shield that no other shield needs, with their originals.
    fn own_steps(&self) -> Vec<(&'a StepOriginal, &'a Step)> {
        let name = &self.scope.shield.name;
        let own = self.journal.intents_of(name);
        let own = own.filter_map(|intent| Some((intent, self.journal.step(intent)?)));
        own.filter(|(_, step)| self.journal.last_of_others(name, &step.change).is_none()).collect()
    }
}

impl UndoRun<'_> {
    /// Does what must be done before any change is reverted.
    fn prepare(&mut self) -> Result<(), UndoError> {
        for (intent, step) in self.own_steps() {
            let done = self.journal.outcomes.get(&intent.step);
            if self.earlier_fate(intent.step).is_none() {
                let prepared = kind_of(&step.change).prepare_revert(self.host, &self.shield, done);
                // The step reports any other error when it is reverted.
                prepared.or_else(|error| if error.is_stop() { Err(error) } else { Ok(()) })?;
            }
        }
        Ok(())
    }

    /// Reverts every change except affinities, last one first. A step that would wait for a CPU
    /// that a real-time task keeps busy comes at the end: by then the first steps of the plan are
    /// reverted, which include those that leave other threads no time.
    fn revert_all(&mut self) -> Result<(), UndoError> {
        let mut later = Vec::new();
        for (intent, step) in self.own_steps().into_iter().rev() {
            if matches!(step.change, Change::Affinity { .. } | Change::KeepAffinities) {
                continue;
            }
            if let Some(fated) = self.earlier_fate(intent.step) {
                self.fated.push(fated.clone());
                continue;
            }
            let was = self.journal.original(intent);
            if self.hogs.delay(self.host, &step.change, was)?.is_some() {
                later.push((intent, step));
                continue;
            }
            self.revert_step(intent, step)?;
        }
        self.hogs.forget();
        for (intent, step) in later {
            let was = self.journal.original(intent);
            match self.hogs.delay(self.host, &step.change, was)? {
                None => self.revert_step(intent, step)?,
                Some(reason) => {
                    let fate = ChangeFate::Failed { reason };
                    self.record(StepFate { step: intent.step, fate, note: None });
                }
            }
        }
        Ok(())
    }

    fn revert_step(&mut self, intent: &StepOriginal, step: &Step) -> Result<(), UndoError> {
        let was = self.journal.original(intent);
        let done = self.journal.outcomes.get(&intent.step);
        let RevertedChange { fate, note } =
            revert::revert(self.host, &self.shield, step, was, done)?;
        if let Some(fate) = fate {
            self.record(StepFate { step: intent.step, fate, note });
        }
        Ok(())
    }

    /// What an earlier undo did with a step, unless it failed.
    fn earlier_fate(&self, step: usize) -> Option<&'_ StepFate> {
        let fated = self.journal.fates.get(&step);
        fated.filter(|fated| !matches!(fated.fate, ChangeFate::Failed { .. }))
    }

    fn record(&mut self, fated: StepFate) {
        self.log.add(JournalLine::Undone(fated.clone()).encode());
        self.fresh.insert(fated.step);
        self.fated.push(fated);
    }

    /// Checks every restored file again: the kernel changes some when others change (the mask of
    /// unbound workqueues while a partition exists, 6.7 and later). Files that an earlier undo has
    /// checked are skipped. Where that undo was killed, only a file with the value that apply left
    /// is ours.
    fn check_restored_files(&mut self) -> Result<(), UndoError> {
        let restored = self.fated.iter().filter(|fated| fated.fate == ChangeFate::Restored);
        let restored = restored.filter(|fated| {
            self.fresh.contains(&fated.step) || !self.journal.settled.contains(&fated.step)
        });
        let restored: BTreeSet<usize> = restored.map(|fated| fated.step).collect();
        for intent in self.journal.intents.iter().filter(|i| restored.contains(&i.step)) {
            let Some(step) = self.journal.step(intent) else { continue };
            let was = self.journal.original(intent);
            let done = self.journal.outcomes.get(&intent.step);
            let by = match self.fresh.contains(&intent.step) {
                true => RestoringUndo::This,
                false => RestoringUndo::Earlier,
            };
            let wrong = match self.hogs.delay(self.host, &step.change, was)? {
                None => revert::check_again(self.host, &step.change, was, done, by)?,
                waits => waits,
            };
            if let Some(reason) = wrong {
                self.replace_fate(intent.step, ChangeFate::Failed { reason });
            }
        }
        Ok(())
    }

    /// Checks that the kernel gave the CPUs of the dissolved partition back to unbound workqueues.
    /// An earlier undo, or the change itself, may have been killed before that, and no step of the
    /// plan needs to have written the mask.
    fn check_unbound_mask(&mut self) -> Result<(), UndoError> {
        let mut own = self.own_steps().into_iter();
        let partition = own.find(|(_, step)| kind_of(&step.change).sets_partition());
        let Some((partition, _)) = partition else { return Ok(()) };
        let reason = match unbound::write_stale_mask(self.host) {
            Err(error) if error.is_stop() => return Err(error.into()),
            Err(error) => error.reason(),
            Ok(Some(mask)) => format!("the kernel keeps unbound workqueues on {mask}"),
            Ok(None) => return Ok(()),
        };
        self.replace_fate(partition.step, ChangeFate::Failed { reason });
        Ok(())
    }

    /// Makes the changes that the other shields need without this one. The affinities of tasks come
    /// later, with all others.
    fn make_replaced(&mut self) -> Result<(), UndoError> {
        let Some(leave) = &self.journal.leaving else { return Ok(()) };
        for replaced in &leave.replaced {
            let known = self.journal.intents.iter().find(|it| it.step == replaced.step);
            let Some(was) = known.map(|intent| self.journal.original(intent)) else { continue };
            if let Change::Affinity { cpus, .. } = &replaced.change {
                let done = self.journal.outcomes.get(&replaced.step).cloned();
                let left = Some(cpus.to_string());
                self.replaced.extend(done.map(|done| StepDone { left, ..done }));
                continue;
            }
            match leave::make_replaced(self.host, &mut self.hogs, self.scope, replaced, was)? {
                ReplacedResult::Made(done) => self.replaced.push(done),
                ReplacedResult::NotMade(fate) => {
                    self.record(StepFate { step: replaced.step, fate, note: None });
                }
                ReplacedResult::Gone => {}
            }
        }
        Ok(())
    }

    fn replace_fate(&mut self, step: usize, fate: ChangeFate) {
        self.fated.retain(|known| known.step != step);
        self.record(StepFate { step, fate, note: None });
    }

    fn other_settings(&self) -> OtherSettings {
        match self.fated.iter().any(|fated| matches!(fated.fate, ChangeFate::Failed { .. })) {
            true => OtherSettings::Pending,
            false => OtherSettings::Restored,
        }
    }

    /// Records that everything was checked, and what is left to the next undo.
    fn record_end(&mut self, tasks: &RestoredAffinities) {
        let pending = restore_affinities::pending(self.host, tasks);
        self.log.add(JournalLine::AffinitiesDone(AffinitiesDone { pending }).encode());
    }

    /// Records the fates of the steps that set affinities.
    fn record_affinity_fates(&mut self, undoing: &UndoDecision, tasks: &RestoredAffinities) {
        let name = &self.scope.shield.name;
        for intent in self.journal.intents_of(name) {
            let Some(step) = self.journal.step(intent) else { continue };
            if step.change == Change::KeepAffinities
                && let Some(fate) = self.fate_of_other_affinities(tasks)
            {
                self.record(StepFate { step: intent.step, fate, note: None });
            }
            let OriginalState::Cpus { cpus: original } = self.journal.original(intent) else {
                continue;
            };
            let Change::Affinity { task, cpus, .. } = &step.change else { continue };
            if !may_have_changed(self.journal, intent) && !tasks.failed.contains_key(task) {
                continue;
            }
            if let Some(fated) = self.earlier_fate(intent.step) {
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
            self.record(StepFate { step: intent.step, fate, note: None });
        }
    }

    /// The fate of the affinities without a step of their own.
    fn fate_of_other_affinities(&self, tasks: &RestoredAffinities) -> Option<ChangeFate> {
        let own: BTreeSet<TaskId> = self.journal.wanted_masks().map(|(task, _)| task).collect();
        let failed: Vec<_> = tasks.failed.iter().filter(|(id, _)| !own.contains(id)).collect();
        match failed.first() {
            Some((id, reason)) => {
                let others = match failed.len() - 1 {
                    0 => String::new(),
                    others => format!(", and {others} more"),
                };
                let reason = format!("task {}: {reason}{others}", id.tid);
                Some(ChangeFate::Failed { reason })
            }
            None => {
                tasks.restored.iter().any(|id| !own.contains(id)).then_some(ChangeFate::Restored)
            }
        }
    }

    /// Returns the results in the order of the plan.
    fn take_results(&mut self) -> Vec<UndoneStep> {
        let mut fated = std::mem::take(&mut self.fated);
        fated.sort_by_key(|fated| fated.step);
        fated.into_iter().filter_map(|fated| undone_step(self.journal, fated)).collect()
    }
}
