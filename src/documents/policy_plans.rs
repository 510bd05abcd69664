//! [`PolicyPlans`]: the plans for all shields of a policy. Plain data.

use super::plan::{Plan, Shield};
use serde::Serialize;

/// The schema version of the document.
pub const SCHEMA: u32 = 1;

/// The plans for all shields of a policy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PolicyPlans {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The plans, in the order in which `apply --all` makes the shields. Each is made as if the
    /// shields before it were in force.
    pub plans: Vec<Plan>,
    /// Active shields that are not in the policy, and that `apply --all` leaves alone.
    pub others: Vec<Shield>,
}
