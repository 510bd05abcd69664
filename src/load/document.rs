//! The [`LoadDone`] document: what a load did while something else was measured.

use super::LoadDoubt;
use cpushield_linux::CpuSet;
use serde::{Deserialize, Serialize};

/// Work that was done beside a measurement, on purpose. What it came to with a shield and without
/// is the price of the shield.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LoadDone {
    /// Which load: `messages`, `stress-ng:cpu`.
    pub name: String,
    /// What it did, in words, with its amounts.
    pub what: String,
    /// The program that did it, with its version; `None` for the loads of cpushield itself.
    #[serde(default)]
    pub program: Option<String>,
    /// The CPUs it was to run on.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub cpus: CpuSet,
    /// What is counted: `messages`, `bytes`.
    pub unit: String,
    /// How much was done in `span_ns`; `None` when nobody knows, and then a doubt says why.
    pub count: Option<u64>,
    /// The same in a second.
    pub per_s: Option<f64>,
    /// The time that was counted, in nanoseconds: the measured one, without the settling, but for
    /// programs that count for themselves, which count all their time.
    pub span_ns: u64,
    /// What makes its figure doubtful: it ended early, it did nothing, it ran elsewhere.
    #[serde(with = "crate::with_text::list")]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<crate::with_text::WithText<LoadDoubt>>"))]
    pub doubts: Vec<LoadDoubt>,
}
