//! The one executor: originals of everything, then the journal on the disk, then one change after
//! the other, each read back. When a change fails that the shield is worthless without, or a signal
//! asks to stop, what was done is undone at once.

use super::affinities;
use super::document::{AppliedPlan, AppliedStep, ApplyError, ApplyProgress};
use super::hogs::{self, RtHogs};
use super::journal::{self, JournalHeader, OriginalState, StepOriginal};
use super::perform::{self, PerformedChange};
use super::{FoundJournal, JOURNAL, boot_id, load, original, undo};
use crate::change::{Change, Outcome, Refusal, RefusalKind};
use crate::plan::{Plan, Step};
use cpushield_linux::store::Appender;
use cpushield_linux::{Host, Store, signal};

/// Room in the journal beside what follows from the plan's own size.
const SPARE_BYTES: u64 = 64 << 10;

/// Puts a plan in force.
///
/// # Errors
/// Nothing was written, or what was written was undone; see [`ApplyError`].
pub fn apply(
    host: &Host,
    store: &Store,
    plan: &Plan,
    progress: &mut dyn FnMut(ApplyProgress<'_>),
) -> Result<AppliedPlan, ApplyError> {
    let boot = check(host, plan)?;
    let lock = store.lock()?;
    let notes = clear_the_way(host, store)?;
    host.pin_current_thread(&plan.shield.housekeeping);
    let tasks = host.tasks()?;
    let mut hogs = RtHogs::among(host, &tasks);
    let mut in_the_way = hogs.above_rcu(host)?;
    if in_the_way.is_none() {
        in_the_way = hogs.above_rcu_elsewhere(host, plan)?;
    }
    if let Some(hog) = in_the_way {
        return Err(ApplyError::Hog(hog));
    }
    let header = JournalHeader {
        journal: "cpushield".to_owned(),
        schema: journal::SCHEMA,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        boot_id: boot,
        plan: plan.clone(),
    };
    let intents = original::of_plan(host, plan, &tasks)?;
    let opening = journal::opening(&header, &intents);
    let log = begin(store, &opening)?;
    let mut run = PlanExecution { host, plan, intents: &intents, log, hogs, steps: Vec::new() };
    let halt = run.all(progress).err();
    let steps = std::mem::take(&mut run.steps);
    drop(run);
    match halt {
        None => {
            let shield = plan.shield.clone();
            Ok(AppliedPlan { shield, steps, journal: store.path(JOURNAL), notes })
        }
        Some(ExecutionStop::Access(error)) if error.is_stop() => Err(ApplyError::Killed),
        Some(halt) => {
            let undone = Box::new(undo::undo_locked(host, store, &lock));
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

/// Puts the opening of the journal on the disk, with room for all that is still to be written: the
/// affinities again at the end and once or twice by undo, and a line or two for each step.
fn begin(store: &Store, opening: &[u8]) -> Result<Appender, cpushield_linux::Error> {
    let len = opening.len() as u64;
    let begun = store.replace_and_reserve(JOURNAL, opening, 4 * len + SPARE_BYTES);
    begun.and_then(|()| store.append(JOURNAL, len)).inspect_err(|_| {
        // Nothing was changed, so no journal may say that a shield is up. When it cannot be removed
        // either, undo has nothing to do and puts it away.
        let _ = store.remove(JOURNAL);
    })
}

/// Makes sure that no shield is up. A journal of another boot is put away: the kernel forgot all.
fn clear_the_way(host: &Host, store: &Store) -> Result<Vec<String>, ApplyError> {
    let path = store.path(JOURNAL);
    match load(host, store) {
        Ok(FoundJournal::Nothing) => Ok(Vec::new()),
        Ok(FoundJournal::Here(journal)) => {
            let shield = Box::new(journal.header.plan.shield);
            Err(ApplyError::Active { shield, path })
        }
        Ok(FoundJournal::OtherBoot(origin)) => {
            let kept = undo::archive(store, origin.boot_id.as_deref())?;
            let shield = origin.plan.map(|plan| format!("shield {}", plan.shield.name));
            let shield = shield.as_deref().unwrap_or("a shield");
            Ok(vec![format!(
                "the machine was booted since {shield} was up, so nothing of it is left; \
                 its journal is now {kept}"
            )])
        }
        Err(super::JournalLoadError::Access(error)) => Err(error.into()),
        Err(super::JournalLoadError::Journal { path, error }) => {
            Err(ApplyError::Journal { path, error })
        }
    }
}

/// Whether a plan, whoever wrote it, asks for what none may ask for, and whether it is about this
/// machine as it was booted. Returns the boot.
///
/// # Errors
/// It is not fit, or stale, or the machine does not say what it is.
pub fn check(host: &Host, plan: &Plan) -> Result<Option<String>, ApplyError> {
    let stale = |why: String| Err(ApplyError::Stale { why });
    if plan.schema != crate::plan::SCHEMA {
        return stale(format!("the plan has schema {}, not {}", plan.schema, crate::plan::SCHEMA));
    }
    if let Some((step, why)) = plan.unfit() {
        return Err(ApplyError::Plan { step: step + 1, why });
    }
    let boot = boot_id(host)?;
    if boot != plan.boot_id && plan.boot_id.is_some() {
        return stale("the plan was made in another boot, or on another machine".to_owned());
    }
    let online = host.online_cpus()?;
    let missing = plan.shield.cpus.minus(&online);
    if !missing.is_empty() {
        return stale(format!("the plan shields CPU {missing}; in use here are {online}"));
    }
    Ok(boot)
}

/// What to do about a change that failed.
fn hint(change: &Change, kind: RefusalKind) -> Option<&'static str> {
    match change {
        Change::Write { path, .. } if path.ends_with("/cpuset.cpus.partition") => {
            Some(match kind {
                RefusalKind::IsolatedAtBoot => {
                    "these CPUs are isolated by isolcpus= at boot; boot without it, or shield others; \
                 `cpushield apply` without a saved plan does without the partition"
                }
                RefusalKind::NotExclusive => {
                    "another control group has these CPUs; `cpushield survey` names it"
                }
                _ => "`cpushield plan --off cpuset` does without, and nothing keeps programs out",
            })
        }
        Change::Write { path, .. } if kind == RefusalKind::Busy && path.contains("cpuset") => {
            Some("another control group has these CPUs; `cpushield survey` names it")
        }
        Change::Slice { .. } => Some("`systemctl status cpushield.slice` may tell more"),
        Change::MoveTasks { .. } if kind == RefusalKind::NoSpace => {
            Some("that cpuset has no CPUs or no memory nodes")
        }
        Change::CycleCpu { .. } => Some("`dmesg` tells why; `cpushield undo` tries again"),
        _ => None,
    }
}

/// Why the executor stopped before the end.
enum ExecutionStop {
    Failed { subject: String, refusal: Refusal, hint: Option<String> },
    Signal(i32),
    Access(cpushield_linux::Error),
}

impl From<cpushield_linux::Error> for ExecutionStop {
    fn from(error: cpushield_linux::Error) -> ExecutionStop {
        ExecutionStop::Access(error)
    }
}

/// Steps being made.
pub(super) struct PlanExecution<'a> {
    pub(super) host: &'a Host,
    pub(super) plan: &'a Plan,
    /// The originals of all steps.
    pub(super) intents: &'a [StepOriginal],
    pub(super) log: Appender,
    pub(super) hogs: RtHogs,
    /// What came of those that were made.
    pub(super) steps: Vec<AppliedStep>,
}

impl PlanExecution<'_> {
    fn all(&mut self, progress: &mut dyn FnMut(ApplyProgress<'_>)) -> Result<(), ExecutionStop> {
        let total = self.intents.len();
        for (done, intent) in self.intents.iter().enumerate() {
            if let Some(signal) = signal::stopped_by() {
                return Err(ExecutionStop::Signal(signal));
            }
            let Some(step) = self.plan.steps.get(intent.step) else { continue };
            progress(ApplyProgress { done, total, what: &step.tunable });
            self.one(intent, step)?;
        }
        if let Some(signal) = signal::stopped_by() {
            return Err(ExecutionStop::Signal(signal));
        }
        progress(ApplyProgress { done: total, total, what: "" });
        let masks = affinities::left(self.host, self.plan, self.intents)?;
        self.log.add(&journal::applied(&masks))?;
        self.log.sync()?;
        Ok(())
    }

    fn one(&mut self, intent: &StepOriginal, step: &Step) -> Result<(), ExecutionStop> {
        let broken = self.make(intent, step)?;
        let Some(AppliedStep { subject, done, .. }) = self.steps.last() else { return Ok(()) };
        let failure = match &done.outcome {
            Outcome::Refused { kind, reason } if step.required => {
                Some(Refusal { kind: *kind, reason: reason.clone() })
            }
            Outcome::Absent if step.required => {
                let reason = "it is not there".to_owned();
                Some(Refusal { kind: RefusalKind::Other, reason })
            }
            _ => broken.map(|reason| Refusal { kind: RefusalKind::Other, reason }),
        };
        match failure {
            Some(refusal) => {
                let hint = hint(&step.change, refusal.kind).map(str::to_owned);
                Err(ExecutionStop::Failed { subject: subject.clone(), refusal, hint })
            }
            None => Ok(()),
        }
    }

    /// Makes one change and notes what came of it. Says why everything must be undone, if so.
    pub(super) fn make(
        &mut self,
        intent: &StepOriginal,
        step: &Step,
    ) -> Result<Option<String>, cpushield_linux::Error> {
        let original = self.late(intent, step)?;
        let mut made = match self.hogs.refuse(self.host, &step.change)? {
            Some(reason) => PerformedChange::refused(reason),
            None => perform::make(self.host, &step.change, &original)?,
        };
        if hogs::moves_tasks(&step.change) {
            self.hogs.forget();
        }
        let broken = made.broken.take();
        let done = made.of_step(intent.step);
        self.log.add(&journal::outcome(&done))?;
        let (tunable, subject) = (step.tunable.clone(), step.change.subject());
        self.steps.push(AppliedStep { tunable, subject, done });
        Ok(broken)
    }

    /// The original of a step. A file that was missing at first and is there now is read and
    /// journaled before it is written, unless it vanishes with a directory that we made.
    fn late(
        &mut self,
        intent: &StepOriginal,
        step: &Step,
    ) -> Result<OriginalState, cpushield_linux::Error> {
        let Change::Write { path, .. } = &step.change else { return Ok(intent.original.clone()) };
        if intent.original != OriginalState::Missing
            || self.is_in_ours(path)
            || !self.host.exists(path)
        {
            return Ok(intent.original.clone());
        }
        let original = original::of_change(self.host, &step.change)?;
        let late = StepOriginal { step: intent.step, original: original.clone() };
        self.log.add(&journal::late(&late))?;
        self.log.sync()?;
        Ok(original)
    }

    /// Whether a path lies in a directory that the plan makes.
    fn is_in_ours(&self, path: &str) -> bool {
        self.intents.iter().any(|intent| super::makes(self.plan, intent, path))
    }
}
