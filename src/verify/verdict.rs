//! The [`Verdict`] document: what the evidence says.

pub use crate::tunables::Remedy;
use crate::verify::{EntryClass, InterruptionCount, JudgeReason};
use serde::{Deserialize, Serialize};
use std::fmt::Display;

/// What the evidence says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Verdict {
    /// The version of this form: [`SCHEMA`].
    pub schema: u32,
    /// One entry for each CPU.
    pub cpus: Vec<CpuVerdict>,
    /// Limits asked for by the user, with what was found.
    pub gates: Vec<Gate>,
}

/// The verdict on one CPU.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CpuVerdict {
    /// The CPU.
    pub cpu: usize,
    /// The word, by the evidence alone: limits change nothing of it.
    pub state: VerdictState,
    /// Whether this CPU keeps every limit; `None` when none was given. With limits these decide the
    /// exit code, without any the states do.
    #[serde(default)]
    pub limits: Option<LimitsKept>,
    /// What leaks, with the remedy.
    pub leaks: Vec<Leak>,
    /// Classes of entries that one witness alone could see here.
    #[serde(default)]
    pub one_witness: Vec<EntryClass>,
    /// Classes of entries that nothing watched here.
    #[serde(default)]
    pub unwatched: Vec<EntryClass>,
    /// Why the verdict is unknown, when it is.
    #[serde(with = "crate::with_text::list")]
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Vec<crate::with_text::WithText<JudgeReason>>")
    )]
    pub unknown: Vec<JudgeReason>,
}

/// Whether limits are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum LimitsKept {
    /// Each of them, for certain.
    Within,
    /// At least one is broken.
    Beyond,
    /// None is seen to be broken, and the evidence cannot say that all are kept.
    Unknown,
}

/// The word of a verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum VerdictState {
    /// Nothing interrupted it, and the instruments prove that they see.
    Holds,
    /// It was interrupted.
    Leaks,
    /// The evidence does not carry a claim.
    Unknown,
}

/// One leak.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Leak {
    /// What was seen.
    pub interruptions: InterruptionCount,
    /// How to remove it; `None` when the catalogue knows no tunable that could here.
    pub remedy: Option<Remedy>,
    /// Why there is no remedy, where that is known.
    pub why_none: Option<String>,
    /// Of an interrupt: the device that raises it and its driver, `vda, virtio_blk`, where the bus
    /// says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
}

/// A limit asked for by the user, and reasons of that measurement's own type.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "{R}Gate"))]
#[serde(bound(serialize = "R: Serialize + Display", deserialize = "R: Deserialize<'de>"))]
pub struct Gate<R = JudgeReason> {
    /// `--max-entries 0`.
    pub limit: String,
    /// What was found.
    pub found: String,
    /// Whether it held; `None` when the evidence cannot say.
    pub held: Option<bool>,
    /// On what evidence it is known that it held, or why it is not known.
    #[serde(with = "crate::with_text::list")]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<crate::with_text::WithText<R>>"))]
    pub why: Vec<R>,
}

impl<R: Display> Gate<R> {
    /// All reasons in one line.
    #[must_use]
    pub fn reasons(&self) -> String {
        self.why.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    }
}
