//! Saves the affinities of all tasks and writes nothing. Undo restores all affinities together
//! (`restore_affinities`).

use super::super::affinities;
use super::super::kind::{ChangeKind, NOTHING, PerformedChange, RevertedChange, ShieldChanges};
use super::super::original::OriginalState;
use crate::documents::applied::StepDone;
use cpushield_linux::{Host, Result};

/// The affinities of all tasks.
pub struct KeptAffinities;

impl ChangeKind for KeptAffinities {
    fn read_original(&self, host: &Host) -> Result<OriginalState> {
        let masks = affinities::read_movable(host, &host.tasks()?)?;
        Ok(OriginalState::Affinities { masks })
    }

    fn perform(&self, _: &Host, _: &OriginalState) -> Result<PerformedChange> {
        Ok(PerformedChange::already_so())
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
}
