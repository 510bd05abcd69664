//! The executor: reads all originals, writes the journal to the disk, then makes one change after
//! the other and reads each back. When a required change fails, or a signal asks to stop,
//! everything is undone at once.

use super::affinities;
use super::error::{ApplyError, ApplyProgress};
use super::hogs::RtHogs;
use super::join;
use super::journal::{
    self, ApplyJournal, JOURNAL, JoinKind, JournalHeader, JournalLine, StepOriginal,
};
use super::kind::{self, PerformedChange};
use super::kinds::kind_of;
use super::load::{FoundJournal, boot_id, load};
use super::original::OriginalState;
use super::perform::perform;
use super::read_originals::read_originals;
use super::task_masks::TaskMasks;
use super::{summary, undo, undo_log};
use crate::change::{Change, Outcome, Refusal, RefusalKind};
use crate::documents::applied::{AppliedPlan, AppliedStep, ShieldNote, UnrestoredChanges};
use crate::documents::plan::{Plan, Step};
use cpushield_linux::files::store::{Appender, StoreLock};
use cpushield_linux::sys::signal::StopSignal;
use cpushield_linux::{AffinityGuard, Host, Store, Task, processes::namespaces, sys::signal};
use std::borrow::Cow;

/// Applies a plan.
///
/// # Errors
/// Nothing was written, or everything was undone; see [`ApplyError`].
pub fn apply(
    host: &Host,
    store: &Store,
    plan: &Plan,
    progress: &mut dyn FnMut(ApplyProgress<'_>),
) -> Result<AppliedPlan, ApplyError> {
    let boot = check(host, plan)?;
    let lock = store.lock()?;
    let work = || apply_locked(host, store, plan, boot, &lock, progress);
    summary::publish_after(host, store, work, |applied| &mut applied.notes)
}

fn apply_locked(
    host: &Host,
    store: &Store,
    plan: &Plan,
    boot: Option<String>,
    lock: &StoreLock,
    progress: &mut dyn FnMut(ApplyProgress<'_>),
) -> Result<AppliedPlan, ApplyError> {
    let (live, mut notes) = find_active(host, store)?;
    if let Some(journal) = &live {
        join::check(journal, &plan.shield, &store.path(JOURNAL))?;
    }
    // The cpuset of this process may contain none of them; then it stays.
    let _ = host.step_aside(&plan.shield.housekeeping).map(AffinityGuard::stay);
    let tasks = host.tasks()?;
    let hogs = find_hogs(host, plan, &tasks)?;
    summary::announce_change(host, store);
    let (journal, log) = match live {
        None => begin_journal(host, store, plan, boot, &tasks)?,
        Some(journal) => {
            let joined = join::join(host, store, *journal, plan, JoinKind::Additional, &tasks)?;
            notes.extend(joined.notes);
            (joined.journal, joined.log)
        }
    };
    let run = PlanExecution::new(host, &journal, log, hogs);
    let applied = run_plan(run, store, plan, lock, progress)?;
    Ok(AppliedPlan { notes, ..applied })
}

/// Finds the real-time tasks that would block writes of a plan.
///
/// # Errors
/// One would block the kernel forever.
pub(super) fn find_hogs(host: &Host, plan: &Plan, tasks: &[Task]) -> Result<RtHogs, ApplyError> {
    let mut hogs = RtHogs::find_among(host, tasks);
    let mut blocker = hogs.above_rcu(host)?;
    if blocker.is_none() {
        blocker = hogs.above_rcu_after_move(host, plan)?;
    }
    blocker.map_or(Ok(hogs), |hog| Err(ApplyError::Hog(hog)))
}

/// Makes the steps of the plan that was journaled last, or undoes them.
///
/// # Errors
/// A required step failed, or a signal asked to stop; the error has the result of the undo.
pub(super) fn run_plan(
    mut run: PlanExecution<'_>,
    store: &Store,
    plan: &Plan,
    lock: &StoreLock,
    progress: &mut dyn FnMut(ApplyProgress<'_>),
) -> Result<AppliedPlan, ApplyError> {
    let host = run.host;
    let halt = run.make_all(progress).err();
    let steps = std::mem::take(&mut run.steps);
    drop(run);
    match halt {
        None => {
            let applied = AppliedPlan::new(plan.shield.clone(), store.path(JOURNAL));
            Ok(AppliedPlan { steps, ..applied })
        }
        Some(ExecutionStop::Access(error)) if error.is_stop() => Err(error.into()),
        Some(halt) => {
            let name = Some(plan.shield.name.as_str());
            let undone =
                Box::new(undo::undo_locked(host, store, name, UnrestoredChanges::Keep, lock));
            Err(match halt {
                ExecutionStop::Signal(signal) => ApplyError::Stopped { signal, undone },
                ExecutionStop::Failed { subject, refusal, hint } => {
                    ApplyError::Failed { subject, refusal, hint, undone }
                }
                ExecutionStop::Access(error) => ApplyError::Failed {
                    subject: error.path.clone(),
                    refusal: Refusal::from(&error),
                    hint: None,
                    undone,
                },
            })
        }
    }
}

/// Writes the opening of the journal to the disk, with room for what follows: the affinities at the
/// end and once or twice by undo, and a line or two for each step.
fn start_journal(store: &Store, opening: &[u8]) -> Result<Appender, cpushield_linux::Error> {
    let len = opening.len() as u64;
    let begun = store.replace_and_reserve(JOURNAL, opening, journal::room_for(opening.len()));
    begun.and_then(|()| store.append(JOURNAL, len)).inspect_err(|_| {
        // Nothing was changed, so no journal of an active shield may remain. If it cannot be
        // removed either, undo finds nothing to do and archives it.
        let _ = store.remove(JOURNAL);
    })
}

/// Begins the journal of the first shield: all originals are on the disk before the first change.
fn begin_journal(
    host: &Host,
    store: &Store,
    plan: &Plan,
    boot_id: Option<String>,
    tasks: &[Task],
) -> Result<(ApplyJournal, Appender), cpushield_linux::Error> {
    let header = JournalHeader {
        journal: "cpushield".to_owned(),
        schema: journal::SCHEMA,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        boot_id,
        plan: plan.clone(),
    };
    let intents = read_originals(host, plan, tasks)?;
    let log = start_journal(store, &journal::opening_lines(&header, &intents)?)?;
    Ok((ApplyJournal::new(header, intents), log))
}

/// Finds the shields that are active already. Archives a journal of another boot, whose changes the
/// kernel forgot, and returns a note about it.
fn find_active(
    host: &Host,
    store: &Store,
) -> Result<(Option<Box<ApplyJournal>>, Vec<ShieldNote>), ApplyError> {
    match load(host, store)? {
        FoundJournal::Nothing => Ok((None, Vec::new())),
        FoundJournal::Here(journal) => Ok((Some(journal), Vec::new())),
        FoundJournal::OtherBoot(origin) => {
            let journal = undo_log::archive(store, origin.boot_id.as_deref())?;
            let shield = origin.plan.map(|plan| plan.shield.name);
            Ok((None, vec![ShieldNote::Rebooted { shield, journal }]))
        }
    }
}

/// Checks that a plan, from any source, has only allowed steps, and that it is for this machine and
/// boot. Returns the boot ID.
///
/// # Errors
/// A step is not allowed, the plan is stale, or the machine cannot be identified.
pub fn check(host: &Host, plan: &Plan) -> Result<Option<String>, ApplyError> {
    if plan.schema != crate::documents::plan::SCHEMA {
        let why =
            format!("the plan has schema {}, not {}", plan.schema, crate::documents::plan::SCHEMA);
        return Err(ApplyError::Stale { why });
    }
    if let Some((step, why)) = plan.unfit() {
        return Err(ApplyError::Plan { step: step + 1, why });
    }
    namespaces::check_sees_all_tasks(host)?;
    let boot = boot_id(host)?;
    if boot != plan.boot_id && plan.boot_id.is_some() {
        let why = "the plan was made before a reboot, or on another machine".to_owned();
        return Err(ApplyError::Stale { why });
    }
    let online = host.online_cpus()?;
    // A version of the shield that is being replaced may have taken siblings offline.
    let missing = plan.shield.cpus.difference(&plan.shield.idle_siblings).difference(&online);
    if !missing.is_empty() {
        let why = format!("the plan shields CPU {missing}, which is not online (online: {online})");
        return Err(ApplyError::Stale { why });
    }
    Ok(boot)
}

/// Why the executor stopped early.
enum ExecutionStop {
    Failed { subject: String, refusal: Refusal, hint: Option<String> },
    Signal(StopSignal),
    Access(cpushield_linux::Error),
}

impl From<cpushield_linux::Error> for ExecutionStop {
    fn from(error: cpushield_linux::Error) -> ExecutionStop {
        ExecutionStop::Access(error)
    }
}

/// What is wrong after a step, apart from its outcome.
pub(super) struct MadeStep {
    /// Why everything must be undone.
    pub(super) broken: Option<String>,
    /// Why a required step has failed.
    failure: Option<Refusal>,
}

/// A running execution of a plan's steps.
pub(super) struct PlanExecution<'a> {
    pub(super) host: &'a Host,
    pub(super) journal: &'a ApplyJournal,
    pub(super) log: Appender,
    pub(super) hogs: RtHogs,
    /// The results of the steps made so far.
    pub(super) steps: Vec<AppliedStep>,
}

impl<'a> PlanExecution<'a> {
    /// An execution of steps of a journal.
    pub(super) fn new(
        host: &'a Host,
        journal: &'a ApplyJournal,
        log: Appender,
        hogs: RtHogs,
    ) -> PlanExecution<'a> {
        PlanExecution { host, journal, log, hogs, steps: Vec::new() }
    }
}

impl PlanExecution<'_> {
    /// Makes the steps of the shield that is being applied.
    fn make_all(
        &mut self,
        progress: &mut dyn FnMut(ApplyProgress<'_>),
    ) -> Result<(), ExecutionStop> {
        let journal = self.journal;
        let before = match journal.joining {
            Some(_) => affinities::current_masks(self.host, journal)?,
            None => TaskMasks::default(),
        };
        let todo = journal.intents.iter().filter(|it| journal.is_open(it.step));
        let total = todo.clone().count();
        for (done, intent) in todo.enumerate() {
            if let Some(signal) = signal::stopped_by() {
                return Err(ExecutionStop::Signal(signal));
            }
            let Some(step) = journal.step(intent) else { continue };
            progress(ApplyProgress { done, total, what: &step.tunable });
            self.make_or_stop(intent, step)?;
        }
        if let Some(signal) = signal::stopped_by() {
            return Err(ExecutionStop::Signal(signal));
        }
        progress(ApplyProgress { done: total, total, what: "" });
        let mut masks = affinities::current_masks(self.host, journal)?;
        if journal.joining.is_some() {
            masks = affinities::masks_after_amendment(journal, &before, masks);
        }
        self.log.add(&JournalLine::applied(&masks).encode()?)?;
        self.log.sync()?;
        Ok(())
    }

    fn make_or_stop(&mut self, intent: &StepOriginal, step: &Step) -> Result<(), ExecutionStop> {
        let MadeStep { broken, failure } = self.make(intent, step)?;
        let Some(AppliedStep { subject, done, .. }) = self.steps.last() else { return Ok(()) };
        let failure = match &done.outcome {
            Outcome::Refused { kind, reason } if step.required => {
                Some(Refusal { kind: *kind, reason: reason.clone() })
            }
            Outcome::Absent if step.required => {
                let reason = "it does not exist".to_owned();
                Some(Refusal { kind: RefusalKind::Other, reason })
            }
            _ => {
                let broken = broken.map(|reason| Refusal { kind: RefusalKind::Other, reason });
                broken.or(failure.filter(|_| step.required))
            }
        };
        match failure {
            Some(refusal) => {
                let hint = kind_of(&step.change).hint(refusal.kind).map(Cow::into_owned);
                Err(ExecutionStop::Failed { subject: subject.clone(), refusal, hint })
            }
            None => Ok(()),
        }
    }

    /// Makes one change and records its outcome.
    pub(super) fn make(
        &mut self,
        intent: &StepOriginal,
        step: &Step,
    ) -> Result<MadeStep, cpushield_linux::Error> {
        let original = self.read_late_original(intent, step)?;
        let mut made = match self.hogs.refuse(self.host, &step.change)? {
            Some(reason) => PerformedChange::refused(reason),
            None => perform(self.host, &step.change, &original, &self.journal.shielded_cpus())?,
        };
        if kind_of(&step.change).moves_tasks() {
            self.hogs.forget();
        }
        let (broken, failure) = (made.broken.take(), made.failure.take());
        let done = made.of_step(intent.step);
        self.log.add(&JournalLine::Outcome(done.clone()).encode()?)?;
        let (tunable, subject) = (step.tunable.clone(), step.change.subject());
        self.steps.push(AppliedStep { tunable, subject, done });
        Ok(MadeStep { broken, failure })
    }

    /// Returns the original of a step. A file that was missing at first and exists now is read and
    /// journaled before it is written, unless undo removes it with a directory that we made. The
    /// same happens to an original that other steps have altered.
    fn read_late_original(
        &mut self,
        intent: &StepOriginal,
        step: &Step,
    ) -> Result<OriginalState, cpushield_linux::Error> {
        let known = self.journal.original(intent);
        let Change::Write { path, .. } = &step.change else {
            let again = kind_of(&step.change).read_original_again(self.host, known);
            return match again {
                Err(error) if error.is_stop() => Err(error),
                // The change itself reports what is wrong.
                Err(_) | Ok(None) => Ok(known.clone()),
                Ok(Some(original)) => self.journal_original(intent.step, original),
            };
        };
        if *known != OriginalState::Missing || self.is_in_new_dir(path) || !self.host.exists(path) {
            return Ok(known.clone());
        }
        let original = kind_of(&step.change).read_original(self.host)?;
        self.journal_original(intent.step, original)
    }

    /// Writes a late original to the disk.
    fn journal_original(
        &mut self,
        step: usize,
        original: OriginalState,
    ) -> Result<OriginalState, cpushield_linux::Error> {
        let late = StepOriginal { step, original: original.clone() };
        self.log.add(&JournalLine::Late(late).encode()?)?;
        self.log.sync()?;
        Ok(original)
    }

    /// Whether a path is in a directory that the plan makes.
    fn is_in_new_dir(&self, path: &str) -> bool {
        let journal = self.journal;
        journal.intents.iter().any(|intent| {
            let step = journal.step(intent);
            let dir = step.and_then(|it| kind_of(&it.change).made_dir(journal.original(intent)));
            dir.is_some_and(|dir| kind::is_below(path, &dir))
        })
    }
}
