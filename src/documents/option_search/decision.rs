//! [`SequentialTest`], the rule of each decision of a search, and what it has counted. Plain data.

use serde::{Deserialize, Serialize};

/// The rule by which each decision of a search is made.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SequentialTest {
    /// At most this share of measurements misses the goal: the configuration meets it.
    pub miss_rate_met: f64,
    /// At least this share of measurements misses the goal: the configuration misses it.
    pub miss_rate_missed: f64,
    /// The maximum probability of a wrong decision in either direction.
    pub error_rate: f64,
    /// After this number of measurements without a decision there is no answer.
    pub measurements_max: usize,
}

/// How many measurements of a configuration met the goal.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GoalTally {
    /// Measurements that met the goal.
    pub met: usize,
    /// Measurements that missed it.
    pub missed: usize,
    /// Doubtful measurements. None has missed the goal, and each may have met it: leaving them out
    /// would make misses look frequent. So they count against a miss, and not for the goal.
    pub doubtful: usize,
}

/// The end of a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum GoalDecision {
    /// The configuration meets the goal.
    Met,
    /// The configuration misses the goal.
    Missed,
    /// The measurements do not decide.
    NoAnswer,
}
