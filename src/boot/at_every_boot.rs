//! Reads what every boot applies, from the journal of `enable` only.

use super::early;
use crate::documents::boot::AtEveryBoot;
use cpushield_linux::Store;

/// Reads it from the state directory.
#[must_use]
pub fn read_at_every_boot(store: &Store) -> AtEveryBoot {
    match early::installed(store) {
        Ok(enabled) => AtEveryBoot { enabled, enabled_unknown: None },
        Err(error) => AtEveryBoot { enabled: None, enabled_unknown: Some(error.to_string()) },
    }
}
