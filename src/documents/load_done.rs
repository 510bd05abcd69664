//! The [`LoadDone`] document: what a load did during a measurement; and [`SkippedLoad`]: why one
//! did not run. Plain data.

use super::load_doubt::LoadDoubt;
use super::load_refusal::LoadRefusal;
use crate::with_text;
use cpushield_linux::CpuSet;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The work of a load during a measurement. The difference between the work with a shield and
/// without it is the price of the shield.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LoadDone {
    /// Its name: `messages`, `stress-ng`.
    pub name: String,
    /// The user's arguments for it; empty without any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<String>,
    /// A description of what it did, with sizes and counts.
    pub what: String,
    /// The command that ran; `None` for the loads of cpushield itself.
    pub program: Option<String>,
    /// The requested CPUs.
    pub cpus: CpuSet,
    /// The counted unit: `messages`, `bytes`.
    pub unit: String,
    /// The amount of work in `span_ns`; `None` when it is unknown, and then a doubt says why.
    pub count: Option<u64>,
    /// The amount per second.
    pub per_s: Option<f64>,
    /// The counted time in nanoseconds: the measured time without the warm-up.
    pub span_ns: u64,
    /// Reasons to doubt the count: it ended early, it did nothing, it ran on other CPUs.
    #[serde(with = "crate::with_text::TextList::<LoadDoubt>")]
    pub doubts: Vec<LoadDoubt>,
}

impl LoadDone {
    /// The load as a request names it: `messages`, `stress-ng:--cpu 2`.
    #[must_use]
    pub fn requested_word(&self) -> String {
        load_word(&self.name, &self.arguments)
    }
}

/// A load as a request names it: `messages`, `stress-ng:--cpu 2`.
#[must_use]
pub fn load_word(kind: &str, arguments: &[String]) -> String {
    if arguments.is_empty() { kind.to_owned() } else { format!("{kind}:{}", arguments.join(" ")) }
}

/// The loads as a request names them.
#[must_use]
pub fn requested_words(loads: &[LoadDone]) -> Vec<String> {
    loads.iter().map(LoadDone::requested_word).collect()
}

/// An optional load that cannot run here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SkippedLoad {
    /// Its name.
    pub load: String,
    /// Why it cannot run.
    #[serde(with = "with_text::WithText::<LoadRefusal>")]
    pub why: LoadRefusal,
}

impl fmt::Display for SkippedLoad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the load {} was skipped: {}", self.load, self.why)
    }
}
