//! The plans of the active shields, as every user may know them.

use super::WorkContext;
use crate::apply::{self, JournalLoadError};
use crate::failure::Failure;
use crate::plan::Plan;

/// The active shields. A normal user cannot read the journal, and plans without them.
pub(super) fn active_shields(work: &WorkContext<'_>) -> Result<Vec<Plan>, Failure> {
    match apply::active_plans(&work.host, &work.store) {
        Err(JournalLoadError::Access(error)) if error.is_denied() => Ok(Vec::new()),
        plans => Ok(plans?),
    }
}
