//! [`UncheckedPart`]: what `status` could not check, because the user is not root.

use cpushield_sentence::Sentence;
use serde::{Deserialize, Serialize};

/// What a user other than root could not check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Sentence)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum UncheckedPart {
    /// changes to settings since apply.
    Settings,
    /// raised kernel threads.
    RaisedThreads,
    /// processes of other users.
    Processes,
}
