//! Creates a directory: a cgroup, or a tracing instance. Undo removes it.

use super::super::groups::remove_below;
use super::super::kind::{ChangeKind, NOTHING, PerformedChange, RevertedChange, ShieldChanges};
use super::super::memory_moves::cpus_of_removal;
use super::super::moves::MovedOut;
use super::super::original::OriginalState;
use crate::change::Outcome;
use crate::documents::applied::{ChangeFate, DriftedValue, StepDone};
use cpushield_linux::{CpuSet, Host, Result};

/// A directory to create.
pub struct NewDirectory<'a> {
    pub path: &'a str,
}

impl ChangeKind for NewDirectory<'_> {
    fn read_original(&self, host: &Host) -> Result<OriginalState> {
        Ok(match host.exists(self.path) {
            true => OriginalState::Present,
            false => OriginalState::Missing,
        })
    }

    fn perform(&self, host: &Host, _: &OriginalState) -> Result<PerformedChange> {
        if host.exists(self.path) {
            return Ok(PerformedChange::already_so());
        }
        host.make_dir(self.path)?;
        Ok(PerformedChange::with_outcome(Outcome::Changed))
    }

    fn revert(
        &self,
        host: &Host,
        _: &ShieldChanges<'_>,
        was: &OriginalState,
        _: Option<&StepDone>,
    ) -> Result<RevertedChange> {
        match was {
            OriginalState::Missing => remove_group(host, self.path),
            _ => Ok(NOTHING),
        }
    }

    fn waits_for_revert(&self, host: &Host, was: &OriginalState) -> Option<CpuSet> {
        (*was == OriginalState::Missing).then(|| cpus_of_removal(host, self.path)).flatten()
    }

    fn moves_tasks(&self) -> bool {
        false
    }

    fn made_dir(&self, was: &OriginalState) -> Option<String> {
        (*was == OriginalState::Missing).then(|| self.path.to_owned())
    }

    fn find_drift(&self, host: &Host, _: Option<&str>) -> Option<DriftedValue> {
        (!host.exists(self.path))
            .then(|| DriftedValue { left: "a directory".to_owned(), now: None })
    }
}

/// Removes a cgroup that we made, with the groups that users made in it. Tasks in them move to the
/// parent group.
fn remove_group(host: &Host, path: &str) -> Result<RevertedChange> {
    if !host.exists(path) {
        return Ok(ChangeFate::Gone.into());
    }
    let above = path.rsplit_once('/').map_or("/", |(above, _)| above);
    let mut moved = MovedOut::default();
    remove_below(host, path, above, &mut moved, 0)?;
    Ok(RevertedChange { fate: Some(ChangeFate::Restored), note: moved.note(above) })
}
