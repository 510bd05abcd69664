//! [`ChangeKind`]: what apply and undo need to know about a kind of change. Each kind is one file
//! in `kinds`. A kind reads and writes the machine; it does not read or write the journal.

use super::original::OriginalState;
use crate::change::{Change, Outcome, Refusal, RefusalKind};
use crate::documents::applied::{ChangeFate, DriftedValue, MovedTasks, StepDone, StepNote};
use cpushield_linux::{CpuSet, Error, Host, Result, TaskId};
use std::borrow::Cow;

/// One kind of change, with the values of one change.
pub trait ChangeKind {
    /// Reads the state before the change, and writes nothing.
    ///
    /// # Errors
    /// `/proc` cannot be read at all.
    fn read_original(&self, host: &Host) -> Result<OriginalState>;

    /// Reads the original again right before the change, where other changes of the shield alter
    /// it. `None` where the first reading stays valid.
    ///
    /// # Errors
    /// The kernel's answer.
    fn read_original_again(
        &self,
        _host: &Host,
        _was: &OriginalState,
    ) -> Result<Option<OriginalState>> {
        Ok(None)
    }

    /// Makes the change: skips what is already as wanted, writes, reads back. When the kernel made
    /// something else of a value, the value right before the write is restored.
    ///
    /// # Errors
    /// The kernel's answer; it becomes the outcome.
    fn perform(&self, host: &Host, was: &OriginalState) -> Result<PerformedChange>;

    /// Restores the original, depending on the current value. The original: nothing to do. The
    /// value that apply left: the original is written. Any other value belongs to another process
    /// and stays.
    ///
    /// # Errors
    /// The kernel's answer; it becomes the fate of the change.
    fn revert(
        &self,
        host: &Host,
        shield: &ShieldChanges<'_>,
        was: &OriginalState,
        done: Option<&StepDone>,
    ) -> Result<RevertedChange>;

    /// Makes the change after a shield with the CPUs `freed` has left, where that differs from the
    /// change itself. `None` where it does not.
    fn release(
        &self,
        _host: &Host,
        _was: &OriginalState,
        _freed: &CpuSet,
    ) -> Option<Result<PerformedChange>> {
        None
    }

    /// The change that the remaining shields need instead of this one after another shield left.
    /// `None` where it stays as it is, or is not made again.
    fn for_remaining(
        &self,
        _was: &OriginalState,
        _remaining: &RemainingShields<'_>,
    ) -> Option<Change> {
        None
    }

    /// The change while an older version of the shield is active too: a set of CPUs that other
    /// programs may use leaves out the CPUs of both. `None` where it has no such set.
    fn with_older_version(&self, _older: &OlderVersion<'_>) -> Option<Change> {
        None
    }

    /// The state that the change makes, where other shields leave that behind when the shield that
    /// shares it is undone. `None` where such a state cannot be an original.
    fn state_for_others(&self) -> Option<OriginalState> {
        None
    }

    /// What must be done before undo reverts any change. [`ChangeKind::revert`] reports what fails
    /// here.
    ///
    /// # Errors
    /// The kernel's answer.
    fn prepare_revert(
        &self,
        _host: &Host,
        _shield: &ShieldChanges<'_>,
        _done: Option<&StepDone>,
    ) -> Result<()> {
        Ok(())
    }

    /// Checks at the end of undo that the original is still there, and writes it again when it is
    /// not. Returns the reason if it is wrong.
    ///
    /// # Errors
    /// The kernel's answer.
    fn restore_again(
        &self,
        _host: &Host,
        _was: &OriginalState,
        _done: Option<&StepDone>,
        _by: RestoringUndo,
    ) -> Result<Option<String>> {
        Ok(None)
    }

    /// The CPUs on each of which the kernel needs an ordinary thread before the change returns.
    fn waits_for(&self, _host: &Host) -> Option<CpuSet> {
        None
    }

    /// The same for the restoration of the original.
    fn waits_for_revert(&self, _host: &Host, _was: &OriginalState) -> Option<CpuSet> {
        None
    }

    /// Whether it sets the CPUs of a cgroup.
    fn sets_cpuset(&self) -> bool {
        false
    }

    /// Whether it makes a cgroup a partition of cgroup v2.
    fn sets_partition(&self) -> bool {
        false
    }

    /// Whether it may send tasks to other CPUs.
    fn moves_tasks(&self) -> bool {
        true
    }

    /// The directory that it made, if that did not exist before.
    fn made_dir(&self, _was: &OriginalState) -> Option<String> {
        None
    }

    /// Whether only an undo can complete the change when it was interrupted.
    fn needs_undo_when_interrupted(&self) -> bool {
        false
    }

    /// A hint about a refusal.
    fn hint(&self, _kind: RefusalKind) -> Option<Cow<'static, str>> {
        None
    }

    /// The difference between what apply left and the current value. A value that was not recorded
    /// or cannot be read is no drift.
    fn find_drift(&self, _host: &Host, _left: Option<&str>) -> Option<DriftedValue> {
        None
    }
}

/// What a kind may know about the other changes of the shield.
#[derive(Debug, Default)]
pub struct ShieldChanges<'a> {
    /// All changes, in the order of the plan.
    pub changes: Vec<&'a Change>,
    /// The first change without an outcome: it may have been interrupted.
    pub first_unfinished: Option<&'a Change>,
    /// The directories that the shield made.
    pub new_dirs: Vec<String>,
    /// Whether an earlier undo has begun, and was interrupted or not complete.
    pub undone_before: bool,
}

impl ShieldChanges<'_> {
    /// Whether the shield made a directory that contains `path`.
    #[must_use]
    pub fn made_directory_of(&self, path: &str) -> bool {
        self.new_dirs.iter().any(|dir| is_below(path, dir))
    }
}

/// The shields that remain when another one leaves, as far as one change needs to know them.
#[derive(Debug)]
pub struct RemainingShields<'a> {
    /// The CPUs of those that changed the same object.
    pub cpus: CpuSet,
    /// The CPUs that the leaving shield frees.
    pub freed: &'a CpuSet,
    /// The CPUs that are isolated already.
    pub closed: CpuSet,
    /// The CPUs of `nohz_full=`.
    pub tickless: CpuSet,
    /// All CPUs that are in no shield then and not isolated already.
    pub free: CpuSet,
    /// The last change of the same object, which has its value now.
    pub last: Option<&'a Change>,
}

impl RemainingShields<'_> {
    /// `original` where it has no shielded CPU, or else without these and those that are isolated
    /// already; all free CPUs where none would be left. What the last change keeps off the CPUs of
    /// `nohz_full=` stays off these too.
    pub(super) fn keep_off(&self, original: &CpuSet, last: &CpuSet) -> CpuSet {
        if !original.is_empty() && !original.intersects(&self.cpus) {
            return original.clone();
        }
        let rest = original.difference(&self.cpus).difference(&self.closed);
        let avoided = match last.intersects(&self.tickless) {
            true => CpuSet::new(),
            false => self.tickless.clone(),
        };
        let choices = [rest.difference(&avoided), self.free.difference(&avoided), rest];
        choices.into_iter().find(|cpus| !cpus.is_empty()).unwrap_or_else(|| self.free.clone())
    }
}

/// The older version of a shield that is being replaced.
#[derive(Debug)]
pub struct OlderVersion<'a> {
    /// Its CPUs.
    pub cpus: &'a CpuSet,
    /// The CPUs that neither version has.
    pub free: &'a CpuSet,
}

impl OlderVersion<'_> {
    /// `wanted` without the CPUs of the older version; the free CPUs where none would be left.
    pub(super) fn keep_off(&self, wanted: &CpuSet) -> CpuSet {
        let rest = wanted.difference(self.cpus);
        if rest.is_empty() && !wanted.is_empty() { self.free.clone() } else { rest }
    }
}

/// Whether a path is inside a directory.
#[must_use]
pub fn is_below(path: &str, dir: &str) -> bool {
    path.strip_prefix(dir).is_some_and(|rest| rest.starts_with('/'))
}

/// The undo that restored a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestoringUndo {
    /// This one.
    This,
    /// An earlier one. Another process may have changed the file since, so it is written again
    /// only where it has the value that apply left.
    Earlier,
}

/// The result of one change, without its step.
#[derive(Debug)]
pub struct PerformedChange {
    /// Its outcome.
    pub outcome: Outcome,
    /// The value that was read back.
    pub left: Option<String>,
    /// A note.
    pub note: Option<StepNote>,
    /// Tasks moved.
    pub moved: Option<MovedTasks>,
    /// Files changed as a side effect and not restored.
    pub unrestored: Vec<String>,
    /// Why the machine is worse than before, so that everything must be undone.
    pub broken: Option<String>,
    /// Why it is not known to be as wanted, although something may have changed. A required step
    /// has failed then.
    pub failure: Option<Refusal>,
}

impl PerformedChange {
    pub(super) fn with_outcome(outcome: Outcome) -> PerformedChange {
        PerformedChange {
            outcome,
            left: None,
            note: None,
            moved: None,
            unrestored: Vec::new(),
            broken: None,
            failure: None,
        }
    }

    pub(super) fn already_so() -> PerformedChange {
        PerformedChange::with_outcome(Outcome::AlreadySo)
    }

    pub(super) fn changed(left: String) -> PerformedChange {
        PerformedChange { left: Some(left), ..PerformedChange::with_outcome(Outcome::Changed) }
    }

    /// A refusal that no code distinguishes.
    pub(super) fn refused(reason: impl Into<String>) -> PerformedChange {
        PerformedChange::refused_by(Refusal { kind: RefusalKind::Other, reason: reason.into() })
    }

    pub(super) fn refused_by(refusal: Refusal) -> PerformedChange {
        let Refusal { kind, reason } = refusal;
        PerformedChange::with_outcome(Outcome::Refused { kind, reason })
    }

    /// A refusal after which the original could not be restored: the file stays ours, so that undo
    /// tries again. `left` is its value now; `None` if that is not known.
    pub(super) fn original_lost(
        refusal: Refusal,
        original: String,
        error: &Error,
        left: Option<String>,
    ) -> PerformedChange {
        let (reason, answer) = (refusal.reason.clone(), error.reason());
        let note = StepNote::OriginalLost { refusal: reason, original, answer };
        PerformedChange {
            left,
            note: Some(note),
            failure: Some(refusal),
            ..PerformedChange::with_outcome(Outcome::Changed)
        }
    }

    /// The result after an error that came later than the first write: the change may have been
    /// made, so it is ours, and undo reverts it.
    ///
    /// # Errors
    /// A test stopped the host, or the object is gone: then there is nothing to revert.
    pub(super) fn unknown_result(
        error: Error,
        wanted: impl Into<String>,
    ) -> Result<PerformedChange> {
        if error.is_stop() || error.is_absent() {
            return Err(error);
        }
        let note = StepNote::ResultUnknown { wanted: wanted.into(), answer: error.reason() };
        Ok(PerformedChange {
            note: Some(note),
            failure: Some(Refusal::from(&error)),
            ..PerformedChange::with_outcome(Outcome::Changed)
        })
    }

    /// Turns a kernel error about one change into an outcome; only a stopped host is an error. The
    /// error must have come before the first write, or be about the only one: undo skips a refused
    /// change. Later errors are [`PerformedChange::unknown_result`].
    pub(super) fn from_answer(answer: Result<PerformedChange>) -> Result<PerformedChange> {
        match answer {
            Err(error) if error.is_stop() => Err(error),
            Err(error) if error.is_absent() => Ok(PerformedChange::with_outcome(Outcome::Absent)),
            Err(error) => Ok(PerformedChange::refused_by(Refusal::from(&error))),
            made => made,
        }
    }

    /// The journal's record.
    #[must_use]
    pub fn of_step(self, step: usize) -> StepDone {
        StepDone {
            step,
            outcome: self.outcome,
            left: self.left,
            note: self.note,
            moved: self.moved,
            unrestored: self.unrestored,
        }
    }
}

/// The result of reverting a change.
#[derive(Debug)]
pub struct RevertedChange {
    /// The fate of the change; `None` when it had changed nothing.
    pub fate: Option<ChangeFate>,
    /// A note.
    pub note: Option<StepNote>,
}

impl From<ChangeFate> for RevertedChange {
    fn from(fate: ChangeFate) -> RevertedChange {
        RevertedChange { fate: Some(fate), note: None }
    }
}

pub(super) const NOTHING: RevertedChange = RevertedChange { fate: None, note: None };

impl RevertedChange {
    /// The result for an object that has its original already: restored only if apply changed it.
    pub(super) fn already_original(done: Option<&StepDone>) -> RevertedChange {
        match done {
            Some(StepDone { outcome: Outcome::Changed, .. }) => ChangeFate::Restored.into(),
            _ => NOTHING,
        }
    }
}

/// Fails with the kernel's error when the number belongs to another task now.
pub(super) fn check_same_task(host: &Host, task: TaskId) -> Result<()> {
    if host.is_same_task(task) { Ok(()) } else { Err(Error::no_task(task.tid)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cpushield_linux::Operation;

    #[test]
    fn after_an_error_that_follows_a_write_the_change_is_ours() {
        // EIO, and ENOENT below.
        let error = |errno| Error::os(Operation::Read, "/proc/sys/a", errno);
        let unknown = PerformedChange::unknown_result(error(5), "7").unwrap();
        let failure = unknown.failure.clone().unwrap();
        assert_eq!(failure.reason, "EIO: Input/output error");
        let done = unknown.of_step(3);
        assert_eq!((&done.outcome, &done.left), (&Outcome::Changed, &None));
        assert!(done.is_unknown());
        assert!(PerformedChange::unknown_result(error(2), "7").unwrap_err().is_absent());
    }

    #[test]
    fn only_a_change_that_was_made_counts_as_restored() {
        let fate = |outcome| {
            let done = PerformedChange::with_outcome(outcome).of_step(0);
            RevertedChange::already_original(Some(&done)).fate
        };
        assert_eq!(fate(Outcome::Changed), Some(ChangeFate::Restored));
        assert_eq!(fate(Outcome::AlreadySo), None);
        assert!(RevertedChange::already_original(None).fate.is_none());
    }
}
