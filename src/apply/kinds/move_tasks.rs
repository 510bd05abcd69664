//! Moves every task of one cgroup to another. Undo moves all of them back, including tasks created
//! since.

use super::super::kind::{
    ChangeKind, NOTHING, PerformedChange, RemainingShields, RevertedChange, ShieldChanges,
};
use super::super::moves;
use super::super::original::OriginalState;
use crate::change::{Change, Outcome, Refusal, RefusalKind};
use crate::documents::applied::{ChangeFate, StepDone, StepNote};
use cpushield_linux::{CpuSet, Error, Host, Result, TaskId};
use std::borrow::Cow;

/// The directories of the cgroup that tasks leave, and of the one that they join.
pub struct TaskMove<'a> {
    pub from: &'a str,
    pub to: &'a str,
    pub keep: &'a CpuSet,
}

impl ChangeKind for TaskMove<'_> {
    fn read_original(&self, host: &Host) -> Result<OriginalState> {
        let members = moves::members(host, self.to);
        Ok(OriginalState::from_reading(members.map(|tasks| OriginalState::Members { tasks })))
    }

    fn perform(&self, host: &Host, _: &OriginalState) -> Result<PerformedChange> {
        let TaskMove { from, to, keep } = *self;
        if !host.exists(to) {
            return Err(Error::absent(to));
        }
        // A later error may come after the first task was moved.
        moves::read_numbers(host, from)?;
        let is_kept = |tid| {
            let cpus = if keep.is_empty() { Ok(CpuSet::new()) } else { host.affinity(tid) };
            cpus.is_ok_and(|cpus| !cpus.is_empty() && cpus.is_subset(keep))
        };
        let moved = match moves::move_all(host, from, to, &is_kept) {
            Err(error) => return PerformedChange::unknown_result(error, format!("tasks in {to}")),
            Ok(moved) => moved,
        };
        let outcome = match moves::failure(&moved) {
            Some(Refusal { kind, reason }) if moved.moved == 0 => {
                Outcome::Refused { kind: *kind, reason: reason.clone() }
            }
            _ if moved.moved == 0 => Outcome::AlreadySo,
            _ => Outcome::Changed,
        };
        Ok(PerformedChange { moved: Some(moved), ..PerformedChange::with_outcome(outcome) })
    }

    fn revert(
        &self,
        host: &Host,
        shield: &ShieldChanges<'_>,
        was: &OriginalState,
        done: Option<&StepDone>,
    ) -> Result<RevertedChange> {
        let TaskMove { from, to, .. } = *self;
        let already_there: &[TaskId] = match was {
            OriginalState::Members { tasks } => tasks,
            OriginalState::Unreadable { .. } => return Ok(NOTHING),
            _ => &[],
        };
        if !host.exists(to) && shield.made_directory_of(&format!("{to}/tasks")) {
            // An earlier undo has removed the group, so it was empty.
            return Ok(ChangeFate::Restored.into());
        }
        let moved = moves::move_all(host, to, from, &|tid| {
            already_there.iter().any(|id| id.tid == tid && host.is_same_task(*id))
        })?;
        let stayed: usize = moved.stayed.iter().map(|stayed| stayed.tasks).sum();
        if done.is_none() && moved.moved == 0 {
            return Ok(NOTHING);
        }
        if let Some(refusal) = moves::failure(&moved) {
            let reason = format!("tasks stay in {to}: {}", refusal.reason);
            return Ok(ChangeFate::Failed { reason }.into());
        }
        let answer = moved.stayed.first().map(|stayed| stayed.refusal.reason.clone());
        let note = StepNote::TasksMovedBack { count: moved.moved, stayed, answer };
        Ok(RevertedChange { fate: Some(ChangeFate::Restored), note: Some(note) })
    }

    fn for_remaining(&self, _: &OriginalState, _: &RemainingShields<'_>) -> Option<Change> {
        let (from, to, keep) = (self.from.to_owned(), self.to.to_owned(), self.keep.clone());
        Some(Change::MoveTasks { from, to, keep })
    }

    fn hint(&self, kind: RefusalKind) -> Option<Cow<'static, str>> {
        (kind == RefusalKind::NoSpace)
            .then_some("the destination cpuset has no CPUs or no memory nodes".into())
    }
}
