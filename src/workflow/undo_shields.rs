//! Takes the shields down that `undo` is about, and says what every boot still applies.

use super::WorkContext;
use super::take_down::{take_all_down, take_down, take_policy_down};
use crate::boot::read_at_every_boot;
use crate::documents::applied::{UndoneShield, UnrestoredChanges};
use crate::documents::boot::AtEveryBoot;
use crate::failure::Failure;
use serde::Serialize;

/// The shields to take down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UndoTarget<'a> {
    /// The one that the command is about.
    One,
    /// All of them.
    All,
    /// Those of this policy file.
    Policy(&'a str),
}

/// The version of the document's schema.
const SCHEMA: u32 = 1;

/// What `undo` did.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UndoDocument {
    /// The version of the schema.
    pub schema: u32,
    /// The shields that were taken down.
    pub shields: Vec<UndoneShield>,
    /// What every boot still applies.
    #[serde(flatten)]
    pub at_every_boot: AtEveryBoot,
}

/// Takes these shields down.
///
/// # Errors
/// The policy cannot be read, or the journal cannot be used.
pub fn undo_shields(
    work: &WorkContext<'_>,
    target: UndoTarget<'_>,
    unrestored: UnrestoredChanges,
) -> Result<UndoDocument, Failure> {
    let shields = match target {
        UndoTarget::Policy(policy) => take_policy_down(work, policy, unrestored)?,
        UndoTarget::All => take_all_down(work, unrestored)?,
        UndoTarget::One => vec![take_down(work, unrestored)?],
    };
    let at_every_boot = read_at_every_boot(&work.store);
    Ok(UndoDocument { schema: SCHEMA, shields, at_every_boot })
}
