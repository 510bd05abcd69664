//! Makes one change, if its original can be restored.

use super::kind::PerformedChange;
use super::kinds::kind_of;
use super::original::OriginalState;
use crate::change::Change;
use cpushield_linux::{Host, Result};

/// Makes a change.
///
/// # Errors
/// Only when a test stopped the host.
pub fn perform(host: &Host, change: &Change, was: &OriginalState) -> Result<PerformedChange> {
    if let OriginalState::Unreadable { reason } = was {
        return Ok(PerformedChange::refused(format!(
            "its original cannot be read, so undo could not restore it: {reason}"
        )));
    }
    PerformedChange::from_answer(kind_of(change).perform(host, was))
}
