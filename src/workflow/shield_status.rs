//! What `status` shows: the active shields, and what every boot applies.

use super::WorkContext;
use super::take_down::note_of_tracer;
use crate::boot::read_at_every_boot;
use crate::documents::boot::AtEveryBoot;
use crate::documents::shield_status::ShieldStatus;
use crate::failure::Failure;
use crate::latency;
use crate::run;
use serde::Serialize;

/// What `status` shows.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StatusDocument {
    /// The active shields.
    #[serde(flatten)]
    pub status: ShieldStatus,
    /// What every boot applies.
    #[serde(flatten)]
    pub at_every_boot: AtEveryBoot,
}

/// Reads the status of the shields. First restores what a killed measurement left changed.
///
/// # Errors
/// `/proc` cannot be read.
pub fn read_status(work: &WorkContext<'_>) -> Result<StatusDocument, Failure> {
    if let Some(recovery) = latency::restore_tracer_settings(&work.host, &work.store) {
        work.ui.status(&note_of_tracer(recovery).to_string());
    }
    let status = run::status(&work.host, &work.store, work.shield.as_deref())?;
    Ok(StatusDocument { status, at_every_boot: read_at_every_boot(&work.store) })
}
