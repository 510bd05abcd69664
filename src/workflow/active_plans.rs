//! The active shields, as every user may know them.

use super::WorkContext;
use crate::apply::{self, JournalLoadError, PublicState};
use crate::failure::Failure;
use crate::plan::{Plan, Shield};
use cpushield_linux::{CpuSet, Host, Store};

/// The active shields. A normal user cannot read the journal, and plans without them.
pub(super) fn active_shields(work: &WorkContext<'_>) -> Result<Vec<Plan>, Failure> {
    match apply::active_plans(&work.host, &work.store) {
        Err(JournalLoadError::Access(error)) if error.is_denied() => Ok(Vec::new()),
        plans => Ok(plans?),
    }
}

/// All CPUs of these shields.
pub(super) fn cpus_of(shields: &[Shield]) -> CpuSet {
    shields.iter().fold(CpuSet::new(), |all, shield| all.union(&shield.cpus))
}

/// The active shields, whole or incomplete, without their steps. A normal user, who cannot read the
/// journal, gets those of the public summary.
pub(super) fn known_shields(host: &Host, store: &Store) -> Result<Vec<Shield>, JournalLoadError> {
    shields_of(host, store, apply::active_plans(host, store))
}

/// The same from the plans of the journals, which were read already.
pub(super) fn shields_of(
    host: &Host,
    store: &Store,
    plans: Result<Vec<Plan>, JournalLoadError>,
) -> Result<Vec<Shield>, JournalLoadError> {
    match plans {
        Ok(plans) => Ok(plans.into_iter().map(|plan| plan.shield).collect()),
        Err(JournalLoadError::Access(error)) if error.is_denied() => {
            match apply::read_public_state(host, store) {
                PublicState::Active(shields) => {
                    Ok(shields.into_iter().map(|public| public.shield).collect())
                }
                PublicState::Unknown | PublicState::Unfinished => Err(error.into()),
            }
        }
        Err(error) => Err(error),
    }
}
