//! [`AtEveryBoot`]: what every boot applies, as `status` and `undo` report it. Reads the journal of
//! `enable` only.

use super::early;
use crate::documents::boot::Enabled;
use cpushield_linux::Store;
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

impl AtEveryBoot {
    /// Reads it from the state directory.
    #[must_use]
    pub fn read(store: &Store) -> AtEveryBoot {
        match early::installed(store) {
            Ok(enabled) => AtEveryBoot { enabled, enabled_unknown: None },
            Err(error) => AtEveryBoot { enabled: None, enabled_unknown: Some(error.to_string()) },
        }
    }
}
