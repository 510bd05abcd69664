//! [`AppliedPolicy`]: what applying a policy did to each of its shields. Plain data.

use super::AppliedPlan;
use crate::documents::plan::{Plan, Shield};
use serde::Serialize;

/// The version of the format of [`AppliedPolicy`].
const SCHEMA: u32 = 1;

/// What `apply --all --json` prints.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AppliedPolicy {
    /// The version of this format.
    pub schema: u32,
    /// The shields of the policy, in the order in which they were applied.
    pub shields: Vec<AppliedShield>,
    /// Active shields that are not in the policy. They were left alone.
    pub others: Vec<Shield>,
}

impl AppliedPolicy {
    /// An applied policy with these shields, next to others.
    #[must_use]
    pub fn new(shields: Vec<AppliedShield>, others: Vec<Shield>) -> AppliedPolicy {
        AppliedPolicy { schema: SCHEMA, shields, others }
    }
}

/// A shield of a policy that is in force now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AppliedShield {
    /// What was done.
    pub what: ShieldEffect,
    /// The result.
    #[serde(flatten)]
    pub applied: AppliedPlan,
    /// The plan that is in force.
    #[serde(skip)]
    pub plan: Plan,
    /// The version that was in force before.
    #[serde(skip)]
    pub before: Option<Plan>,
}

/// What was done to make a shield as the policy wants it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ShieldEffect {
    /// It was not active, and was made.
    Made,
    /// It was active, and was changed.
    Changed,
    /// It was already active. Missing settings were restored.
    Kept,
}

impl ShieldEffect {
    /// The predicate of a sentence about the shield.
    #[must_use]
    pub fn describe(self) -> &'static str {
        match self {
            ShieldEffect::Made => "was made",
            ShieldEffect::Changed => "was changed",
            ShieldEffect::Kept => "was already active",
        }
    }
}
