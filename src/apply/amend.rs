//! Amends an active shield through its journal. A step about something that the shield has changed
//! before keeps its first original, so that undo restores the state before the shield.

use super::affinities;
use super::executor::PlanExecution;
use super::hogs::{BlockedBy, RtHogs};
use super::journal::{AddedStep, Amendment, ApplyJournal, JournalLine, StepOriginal};
use super::journal_opening::append_opening;
use super::kind::PerformedChange;
use super::kinds::kind_of;
use super::load::{JournalLoadError, load};
use crate::change::ChangeFault;
use crate::documents::applied::{AmendedShield, StepDone};
use crate::documents::plan::Step;
use cpushield_linux::{AffinityGuard, Error, Host, Store, processes::namespaces, sys::signal};
use cpushield_sentence::Sentence;

/// Why a shield was not amended.
#[derive(Debug, Sentence)]
#[kind(Machine)]
pub enum AmendError {
    /// The journal cannot be used.
    #[delegate]
    Load(JournalLoadError),
    /// no shield is active.
    #[hint("apply one: cpushield apply")]
    NoShield,
    /// the shield is incomplete: an apply or undo did not finish.
    #[hint("undo every change, then apply again: cpushield undo; cpushield apply")]
    Unfinished,
    /// cannot change {subject}: {why}.
    #[kind(Bug)]
    Step {
        /// The subject of the change.
        subject: String,
        /// What is wrong with it.
        why: ChangeFault,
    },
    /// {why}.
    #[with(why = &_0.why)]
    #[hint([&_0.hint])]
    Hog(BlockedBy),
}

impl From<Error> for AmendError {
    fn from(error: Error) -> AmendError {
        AmendError::Load(error.into())
    }
}

impl std::error::Error for AmendError {}

/// Makes these steps part of the active shield of this name. Steps that fail are reported; nothing
/// else is undone because of them. Without a step it does nothing and writes nothing.
///
/// # Errors
/// Nothing was written, or a write to the journal failed; the journal has what was done.
pub fn amend(
    host: &Host,
    store: &Store,
    name: &str,
    steps: &[Step],
) -> Result<AmendedShield, AmendError> {
    if steps.is_empty() {
        return Ok(AmendedShield { steps: Vec::new(), halted: None });
    }
    namespaces::check_sees_all_tasks(host)?;
    let _lock = store.lock()?;
    let found = load(host, store).map_err(AmendError::Load)?;
    let mut journal = found.here().ok_or(AmendError::NoShield)?;
    if !journal.is_ready() || journal.unfinished_name().is_some() || was_interrupted(&journal) {
        return Err(AmendError::Unfinished);
    }
    if journal.find_shield(name).is_none() {
        return Err(AmendError::NoShield);
    }
    // The cpuset of this process may contain none of them; then it stays.
    let _ = host.step_aside(&journal.housekeeping()).map(AffinityGuard::stay);
    let mut hogs = RtHogs::default();
    if let Some(hog) = hogs.above_rcu(host)? {
        return Err(AmendError::Hog(hog));
    }
    let amendment = make_amendment(host, &journal, name, steps)?;
    let opening = JournalLine::Amend(amendment.clone()).encode()?;
    let whole = journal.whole;
    journal.amend(amendment);
    let plan = journal.plan_of(name).unwrap_or_else(|| journal.header.plan.clone());
    if let Some((step, why)) = plan.unfit() {
        let subject = plan.steps.get(step).map(|step| step.change.subject()).unwrap_or_default();
        return Err(AmendError::Step { subject, why });
    }
    let before = affinities::current_masks(host, &journal)?;
    let log = append_opening(store, whole, &[opening])?;
    let mut run = PlanExecution::new(host, &journal, log, hogs);
    let halted = make_steps(&mut run)?;
    let now = affinities::current_masks(host, &journal)?;
    let masks = affinities::masks_after_amendment(&journal, &before, now);
    run.log.add(&JournalLine::applied(&masks).encode()?)?;
    run.log.sync()?;
    Ok(AmendedShield { steps: run.steps, halted })
}

/// Whether a change was interrupted that only undo can complete.
fn was_interrupted(journal: &ApplyJournal) -> bool {
    journal.intents.iter().any(|intent| {
        let step = journal.step(intent);
        step.is_some_and(|step| kind_of(&step.change).needs_undo_when_interrupted())
            && !journal.outcomes.contains_key(&intent.step)
    })
}

/// Decides which steps are made again and which are added, with their originals. Only a step of the
/// shield itself is made again: a step of another shield goes when that shield leaves.
fn make_amendment(
    host: &Host,
    journal: &ApplyJournal,
    name: &str,
    steps: &[Step],
) -> Result<Amendment, AmendError> {
    let mut amendment = Amendment { shield: name.to_owned(), ..Amendment::default() };
    for step in steps {
        let has_change = |intent: &&StepOriginal| {
            journal.step(intent).is_some_and(|earlier| earlier.change == step.change)
        };
        let known = journal.last_about(&step.change);
        let own = known.filter(has_change);
        let own = own.and_then(|_| journal.intents_of(name).rev().find(has_change));
        if let Some(own) = own {
            amendment.again.push(own.step);
            continue;
        }
        let original = match known {
            Some(known) => journal.original(known).clone(),
            None => kind_of(&step.change).read_original(host)?,
        };
        amendment.added.push(AddedStep { step: optional(step), original });
    }
    Ok(amendment)
}

/// Makes a step optional: the active shield is useful without it.
fn optional(step: &Step) -> Step {
    Step { required: false, ..step.clone() }
}

/// Makes the steps, those of the plan first. Returns why it stopped early.
fn make_steps(run: &mut PlanExecution<'_>) -> Result<Option<String>, AmendError> {
    let journal = run.journal;
    let todo = journal.intents.iter().filter(|it| journal.amending.contains(&it.step));
    for (at, intent) in todo.clone().enumerate() {
        if let Some(signal) = signal::stopped_by() {
            let why = format!("stopped by {signal}");
            log_not_reached(run, todo.skip(at), &why)?;
            return Ok(Some(why));
        }
        let Some(step) = journal.step(intent) else { continue };
        if let Some(broken) = run.make(intent, step)?.broken {
            log_not_reached(run, todo.skip(at + 1), &broken)?;
            return Ok(Some(broken));
        }
    }
    Ok(None)
}

/// Records that steps were not reached.
fn log_not_reached<'a>(
    run: &mut PlanExecution<'_>,
    rest: impl Iterator<Item = &'a StepOriginal>,
    why: &str,
) -> Result<(), AmendError> {
    for done in not_reached(run.journal, rest, why) {
        run.log.add(&JournalLine::Outcome(done).encode()?)?;
    }
    Ok(())
}

/// The outcomes of steps that were not reached, where a step without an outcome would count as
/// interrupted: only undo could complete that one.
fn not_reached<'a>(
    journal: &ApplyJournal,
    rest: impl Iterator<Item = &'a StepOriginal>,
    why: &str,
) -> Vec<StepDone> {
    let needs_outcome = |intent: &&StepOriginal| {
        let step = journal.step(intent);
        step.is_some_and(|step| kind_of(&step.change).needs_undo_when_interrupted())
    };
    let rest = rest.filter(needs_outcome);
    rest.map(|it| PerformedChange::refused(format!("not reached: {why}")).of_step(it.step))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::journal::tests::{sample, written};
    use super::super::original::OriginalState;
    use super::super::revert::shield_changes;
    use super::*;
    use crate::change::Change;

    #[test]
    fn a_cycle_that_was_not_reached_is_not_taken_for_an_interrupted_one() {
        let mut journal = ApplyJournal::parse(&sample()).unwrap();
        let cycle = |cpu| Step { change: Change::CycleCpu { cpu }, ..written("/proc/irq/1") };
        let steps = [cycle(2), cycle(3), written("/proc/irq/3/smp_affinity")];
        let original = OriginalState::Missing;
        let added = steps.map(|step| AddedStep { step, original: original.clone() });
        let (shield, again) = ("cpushield".to_owned(), Vec::new());
        journal.amend(Amendment { shield, again, added: added.to_vec() });
        let first = *journal.amending.first().unwrap();
        journal.outcomes.insert(first, PerformedChange::changed("1".to_owned()).of_step(first));
        let rest = journal.intents.iter().filter(|intent| intent.step > first);
        let done = not_reached(&journal, rest, "stopped by SIGINT");
        assert_eq!(done.iter().map(|done| done.step).collect::<Vec<_>>(), [first + 1]);
        assert!(was_interrupted(&journal));
        journal.outcomes.extend(done.into_iter().map(|done| (done.step, done)));
        assert!(!was_interrupted(&journal));
        let unfinished = shield_changes(&journal).first_unfinished;
        assert_eq!(unfinished, Some(&written("/proc/irq/3/smp_affinity").change));
    }
}
