//! Restricts one task to CPUs. Undo restores all affinities together (`restore_affinities`).

use super::super::kind::{
    ChangeKind, NOTHING, OlderVersion, PerformedChange, RemainingShields, RevertedChange,
    ShieldChanges, check_same_task,
};
use super::super::original::OriginalState;
use crate::change::Change;
use crate::documents::applied::{DriftedValue, StepDone};
use cpushield_linux::{CpuSet, Host, Result, TaskId};

/// The CPUs of a task.
pub struct TaskAffinity<'a> {
    pub task: TaskId,
    pub comm: &'a str,
    pub cpus: &'a CpuSet,
}

impl ChangeKind for TaskAffinity<'_> {
    fn read_original(&self, host: &Host) -> Result<OriginalState> {
        let cpus = check_same_task(host, self.task).and_then(|()| host.affinity(self.task.tid));
        Ok(OriginalState::from_reading(cpus.map(|cpus| OriginalState::Cpus { cpus })))
    }

    fn perform(&self, host: &Host, was: &OriginalState) -> Result<PerformedChange> {
        check_same_task(host, self.task)?;
        if host.online_affinity(self.task.tid)? == *self.cpus {
            return Ok(PerformedChange::already_so());
        }
        host.set_affinity(self.task.tid, self.cpus)?;
        let left = match host.online_affinity(self.task.tid) {
            Err(error) => return PerformedChange::unknown_result(error, self.cpus.to_string()),
            Ok(left) => left,
        };
        if left.is_subset(self.cpus) {
            Ok(PerformedChange::changed(left.to_string()))
        } else {
            if let OriginalState::Cpus { cpus } = was {
                // Where this fails, undo restores the mask with those of all tasks.
                let _ = host.set_affinity(self.task.tid, cpus);
            }
            Ok(PerformedChange::refused(format!("the kernel set {left} instead")))
        }
    }

    fn revert(
        &self,
        _: &Host,
        _: &ShieldChanges<'_>,
        _: &OriginalState,
        _: Option<&StepDone>,
    ) -> Result<RevertedChange> {
        Ok(NOTHING)
    }

    fn for_remaining(
        &self,
        was: &OriginalState,
        remaining: &RemainingShields<'_>,
    ) -> Option<Change> {
        Some(self.with_cpus(match was {
            OriginalState::Cpus { cpus } => remaining.keep_off(cpus, self.cpus),
            _ => self.cpus.clone(),
        }))
    }

    fn state_for_others(&self) -> Option<OriginalState> {
        Some(OriginalState::Cpus { cpus: self.cpus.clone() })
    }

    fn with_older_version(&self, older: &OlderVersion<'_>) -> Option<Change> {
        Some(self.with_cpus(older.keep_off(self.cpus)))
    }

    fn find_drift(&self, host: &Host, _: Option<&str>) -> Option<DriftedValue> {
        if !host.is_same_task(self.task) {
            return None;
        }
        let now = host.affinity(self.task.tid).ok()?;
        let same = now == *self.cpus || is_of_interrupt(host, self.comm, &now);
        (!same).then(|| DriftedValue { left: self.cpus.to_string(), now: Some(now.to_string()) })
    }
}

impl TaskAffinity<'_> {
    fn with_cpus(&self, cpus: CpuSet) -> Change {
        Change::Affinity { task: self.task, comm: self.comm.to_owned(), cpus }
    }
}

/// Whether an interrupt's thread has the CPUs of its interrupt. The kernel sets those when the
/// thread wakes after the interrupt was moved (`irq_thread_check_affinity()` in
/// kernel/irq/manage.c, 6.12: the effective affinity), so they are no drift.
fn is_of_interrupt(host: &Host, comm: &str, now: &CpuSet) -> bool {
    let digits = comm.strip_prefix("irq/").and_then(|rest| rest.split('-').next());
    let Some(irq) = digits.and_then(|digits| digits.parse::<u32>().ok()) else { return false };
    ["effective_affinity_list", "smp_affinity_list"].iter().any(|name| {
        let text = host.read_line(&format!("/proc/irq/{irq}/{name}"));
        text.ok().and_then(|text| text.parse::<CpuSet>().ok()).as_ref() == Some(now)
    })
}
