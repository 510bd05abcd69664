//! [`AtEveryBoot`]: what every boot applies, as `status` and `undo` report it. Plain data.

use super::Enabled;
use serde::Serialize;

/// What is enabled, as other subcommands report it.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AtEveryBoot {
    /// The command that every boot runs; `None` when nothing is enabled, or when that is unknown.
    pub enabled: Option<Enabled>,
    /// Why that is unknown.
    pub enabled_unknown: Option<String>,
}
