//! The [`TryReport`] document of `cpushield try`. Plain data.

use super::evidence::{Evidence, Verdict};
use super::load_price::LoadPrice;
use super::machine_difference::MachineDifference;
use super::plan::Plan;
use serde::{Deserialize, Serialize};

/// The version of the document's form.
pub const SCHEMA: u32 = 1;

/// Everything that `try` found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TryReport {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The plan that was applied.
    pub plan: Plan,
    /// How many changes took effect, by tunable in the order of the plan.
    pub changed: Vec<(String, usize)>,
    /// How many were refused by the kernel.
    pub refused: usize,
    /// Evidence before the shield.
    pub before: Evidence,
    /// Evidence under the shield.
    pub shielded: Evidence,
    /// What the evidence under the shield says.
    pub verdict: Verdict,
    /// The price for the rest of the machine; `None` when it was not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<LoadPrice>,
    /// How many changes were undone.
    pub restored: usize,
    /// What could not be restored, in sentences.
    pub left: Vec<String>,
    /// What differs between the surveys before and after.
    pub differences: Vec<MachineDifference>,
}
