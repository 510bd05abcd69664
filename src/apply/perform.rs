//! Makes one change, if its original can be restored.

use super::kind::PerformedChange;
use super::kinds::kind_of;
use super::original::OriginalState;
use super::unbound;
use crate::change::Change;
use cpushield_linux::{CpuSet, Host, Result};

/// Makes a change. `shielded` are the CPUs of all active shields.
///
/// # Errors
/// Only when a test stopped the host.
pub fn perform(
    host: &Host,
    change: &Change,
    was: &OriginalState,
    shielded: &CpuSet,
) -> Result<PerformedChange> {
    if let OriginalState::Unreadable { reason } = was {
        return Ok(PerformedChange::refused(format!(
            "its original value cannot be read, so undo could not restore it: {reason}"
        )));
    }
    match unbound::without_writing(host, change, shielded) {
        Ok(Some(result)) => Ok(result),
        Ok(None) => PerformedChange::from_answer(kind_of(change).perform(host, was)),
        Err(error) => PerformedChange::from_answer(Err(error)),
    }
}
