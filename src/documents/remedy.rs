//! How an interruption can be removed. Pure data.

use crate::change::EffectTime;
use serde::{Deserialize, Serialize};

/// How to remove an interruption.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Remedy {
    /// The tunable.
    pub tunable: String,
    /// Now or at the next boot.
    pub when: EffectTime,
    /// The command or the parameter.
    pub how: String,
}
