//! [`SearchDryRun`]: what a search would do, the document of `--dry-run`. Plain data.

use super::{FixedOption, SearchGoal, SearchOption, SequentialTest};
use cpushield_linux::CpuSet;
use serde::Serialize;

/// The version of the format of [`SearchDryRun`].
pub(crate) const SCHEMA: u32 = 1;

/// What a search would do.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SearchDryRun {
    /// The version of this format.
    pub schema: u32,
    /// The name of the experiment.
    pub name: String,
    /// The row with all options.
    pub row: String,
    /// The goal of each measurement.
    #[serde(with = "crate::with_text::WithText::<SearchGoal>")]
    pub goal: SearchGoal,
    /// CPUs that are measured.
    pub cpus: CpuSet,
    /// What is varied, in the order in which it is left out.
    #[serde(with = "crate::with_text::TextList::<SearchOption>")]
    pub options: Vec<SearchOption>,
    /// What is not varied.
    pub fixed: Vec<FixedOption>,
    /// The rule of each decision.
    pub test: SequentialTest,
    /// The duration of one measurement with its warm-up, in nanoseconds.
    pub measurement_ns: u64,
    /// The duration of all measurements when every measurement agrees, in nanoseconds; without the
    /// time for shields and reboots.
    pub usual_ns: u64,
    /// The longest possible duration of all measurements, in nanoseconds.
    pub worst_ns: u64,
    /// How often the machine may be rebooted at most.
    pub reboots_max: usize,
}
