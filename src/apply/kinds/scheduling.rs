//! Gives one task a scheduling policy.

use super::super::kind::{
    ChangeKind, DriftedValue, NOTHING, PerformedChange, RevertedChange, ShieldChanges,
    check_same_task,
};
use super::super::original::OriginalState;
use super::super::step_result::{ChangeFate, StepDone};
use crate::change::Outcome;
use cpushield_linux::{Host, Result, SchedPolicy, TaskId};

/// The policy of a task.
pub struct TaskScheduling {
    pub task: TaskId,
    pub policy: SchedPolicy,
}

impl ChangeKind for TaskScheduling {
    fn read_original(&self, host: &Host) -> Result<OriginalState> {
        let policy = check_same_task(host, self.task).and_then(|()| host.scheduling(self.task.tid));
        Ok(OriginalState::from_reading(policy.map(|policy| OriginalState::Scheduling { policy })))
    }

    fn perform(&self, host: &Host, _: &OriginalState) -> Result<PerformedChange> {
        check_same_task(host, self.task)?;
        if host.scheduling(self.task.tid)? == self.policy {
            return Ok(PerformedChange::with_outcome(Outcome::AlreadySo));
        }
        host.set_scheduling(self.task.tid, self.policy)?;
        Ok(PerformedChange::changed(host.scheduling(self.task.tid)?.to_string()))
    }

    fn revert(
        &self,
        host: &Host,
        _: &ShieldChanges<'_>,
        was: &OriginalState,
        done: Option<&StepDone>,
    ) -> Result<RevertedChange> {
        let OriginalState::Scheduling { policy: original } = was else { return Ok(NOTHING) };
        check_same_task(host, self.task)?;
        let now = host.scheduling(self.task.tid)?;
        if now == *original {
            return Ok(if done.is_some() { ChangeFate::Restored.into() } else { NOTHING });
        }
        if now != self.policy {
            let (now, ours) = (now.to_string(), self.policy.to_string());
            return Ok(ChangeFate::Drifted { now, ours, original: original.to_string() }.into());
        }
        host.set_scheduling(self.task.tid, *original)?;
        Ok(ChangeFate::Restored.into())
    }

    fn find_drift(&self, host: &Host, _: Option<&str>) -> Option<DriftedValue> {
        if !host.is_same_task(self.task) {
            return None;
        }
        let now = host.scheduling(self.task.tid).ok()?;
        (now != self.policy)
            .then(|| DriftedValue { left: self.policy.to_string(), now: Some(now.to_string()) })
    }
}
