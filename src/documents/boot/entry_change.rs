//! What a plan does to the entries of a boot menu: the change of each command line, and the entries
//! that stay as they are. Plain data.

use cpushield_sentence::Sentence;
use serde::Serialize;

/// The change of the command line of one entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EntryChange {
    /// The kernel's version.
    pub version: String,
    /// What the menu shows.
    pub title: String,
    /// Its file and line, `/boot/grub/grub.cfg:87`.
    pub place: String,
    /// Whether the entry stays as it is, and another one with these words is added.
    pub is_copied: bool,
    /// Words of an earlier apply that the entry loses.
    pub removed: Vec<String>,
    /// Words that the entry gets.
    pub added: Vec<String>,
    /// The rest of the command line.
    pub kept: String,
}

/// An entry that never gets parameters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SparedEntry {
    /// What the menu shows.
    pub title: String,
    /// Its file and line.
    pub place: String,
    /// What it is for.
    pub purpose: EntryPurpose,
}

/// What an entry is for that does not start the system for its normal work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Sentence)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum EntryPurpose {
    /// recovery.
    Recovery,
    /// memory test.
    MemoryTest,
    /// crash dump.
    CrashDump,
    /// another system.
    OtherSystem,
}
