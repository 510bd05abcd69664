//! [`OptionSearch`]: the results of `experiment --minimize`. Plain data.

mod decision;
mod dry_run;
mod end;
mod option;

pub use decision::{GoalDecision, GoalTally, SequentialTest};
pub(crate) use dry_run::SCHEMA as DRY_RUN_SCHEMA;
pub use dry_run::SearchDryRun;
pub use end::SearchEnd;
pub use option::{FixedOption, FixedReason, SearchGoal, SearchOption};

use super::experiment::{ExperimentColumn, ExperimentRow, ExperimentSetup, ExperimentState};
use cpushield_linux::CpuSet;
use cpushield_sentence::Sentence;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// The version of the document's format.
pub const SCHEMA: u32 = 1;

/// The results of a search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OptionSearch {
    /// The version of this format: [`SCHEMA`].
    pub schema: u32,
    /// The name of the experiment.
    pub name: String,
    /// The version of cpushield that ran it.
    pub version: String,
    /// The row with all options.
    pub row: String,
    /// Whether it is unfinished, finished or stopped.
    pub state: ExperimentState,
    /// When it started, in seconds since 1970.
    pub began_s: u64,
    /// When it ended; `None` while it is unfinished.
    pub ended_s: Option<u64>,
    /// The CPUs that were measured.
    pub cpus: CpuSet,
    /// The goal of each measurement.
    #[serde(with = "crate::with_text::WithText::<SearchGoal>")]
    pub goal: SearchGoal,
    /// The rule of each decision.
    pub test: SequentialTest,
    /// The duration of each measurement in nanoseconds.
    pub span_ns: u64,
    /// The duration of the warm-up in nanoseconds.
    pub warmup_ns: u64,
    /// What each measurement measures; empty where entries into the kernel are counted.
    pub columns: Vec<ExperimentColumn>,
    /// The machine and its software, before the first measurement.
    pub setup: ExperimentSetup,
    /// What was varied, with the result, in the order in which it was left out.
    pub options: Vec<OptionFate>,
    /// What was not varied.
    pub fixed: Vec<FixedOption>,
    /// Each configuration that was measured, in order, with its decision.
    pub trials: Vec<SearchTrial>,
    /// How the search ended; `None` while it is unfinished and when it was stopped.
    #[serde(with = "crate::with_text::option")]
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Option<crate::with_text::WithText<SearchEnd>>")
    )]
    pub end: Option<SearchEnd>,
    /// The configuration that was found; `None` when none was.
    pub found: Option<ExperimentRow>,
    /// Remarks.
    #[serde(with = "crate::with_text::TextList::<SearchNote>")]
    pub notes: Vec<SearchNote>,
}

/// An option and its result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OptionFate {
    /// The option.
    #[serde(with = "crate::with_text::WithText::<SearchOption>")]
    pub option: SearchOption,
    /// The result.
    pub state: OptionState,
    /// The index of the trial that shows it; `None` while it is open.
    pub trial: Option<usize>,
}

/// The result of a search for one option.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum OptionState {
    /// It is part of the result: without it, the result changes.
    Needed,
    /// It is not part of the result.
    LeftOut,
    /// It stays, because the measurements without it do not decide.
    NoAnswer,
    /// The search has not ended, or ended before it was tried.
    Open,
}

/// Options by their indexes.
pub type OptionSubset = BTreeSet<usize>;

/// Why a configuration is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum TrialPurpose {
    /// With every option.
    AllOptions,
    /// Without any option.
    NoOptions,
    /// Some options are left out.
    LeaveOut,
    /// The result is measured once more at the end.
    Confirmation,
}

/// A configuration that was measured until a decision.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SearchTrial {
    /// Its name.
    pub name: String,
    /// Why it was measured.
    pub purpose: TrialPurpose,
    /// The indexes of its options.
    pub options: OptionSubset,
    /// The indexes of the options that it leaves out of the set that was reached before.
    pub left_out: OptionSubset,
    /// The number of measurements by their result.
    pub tally: GoalTally,
    /// The figure of each measurement that counts: nanoseconds or entries into the kernel.
    pub figures: Vec<u64>,
    /// Why the last measurement that does not count is doubtful or was not possible.
    pub trouble: Option<String>,
    /// The decision; `None` while it is being measured.
    pub decision: Option<GoalDecision>,
}

/// A remark on a search.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Sentence)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "note", rename_all = "kebab-case")]
pub enum SearchNote {
    /// measurements from one boot are not independent: the error rate does not include differences
    /// between boots.
    OneBoot,
    /// the search made {decisions} decisions, more than it allows for: the probability of a wrong
    /// decision may exceed 5 %.
    ManyDecisions {
        /// How many.
        decisions: usize,
    },
}
