//! The [`Comparison`] document.

use serde::{Deserialize, Serialize};

/// The version of the document's form.
pub const SCHEMA: u32 = 1;

/// A difference is told to be more than chance when chance alone would show as much in fewer cases
/// than this, in any of the figures of the same runs.
pub const ALPHA: f64 = 0.05;

/// Groups of measurements side by side.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Comparison {
    /// The version of this form: [`SCHEMA`].
    pub schema: u32,
    /// What `p` of a finding is held against: [`ALPHA`].
    pub alpha: f64,
    /// The groups, the base first.
    pub groups: Vec<RunGroup>,
    /// Each other group against the base.
    pub pairs: Vec<GroupPair>,
}

/// Repeated runs of one configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunGroup {
    /// Its name, as it was given.
    pub name: String,
    /// Its runs in the order they were given.
    pub runs: Vec<MeasuredRun>,
}

/// One run: one document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MeasuredRun {
    /// Its name: the file.
    pub name: String,
    /// `timer` and the like, or `verify`.
    pub instrument: String,
    /// When it began, in seconds since 1970; `None` when its document does not tell.
    pub began_s: Option<u64>,
    /// How long it was, in nanoseconds.
    pub span_ns: u64,
    /// What makes its figures doubtful.
    pub doubts: Vec<String>,
}

/// A group against the base.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GroupPair {
    /// The name of the base.
    pub base: String,
    /// The name of the other group.
    pub other: String,
    /// In which order their runs were made.
    pub sequence: RunOrder,
    /// What was different beside the figures: what may be the cause.
    pub differences: Vec<SetupDifference>,
    /// Every figure that both have.
    pub rows: Vec<FigureRow>,
    /// What makes the comparison doubtful as a whole.
    pub doubts: Vec<String>,
    /// What is good to know.
    pub notes: Vec<String>,
}

/// The order of the runs of two groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum RunOrder {
    /// By turns: what drifts with time falls on both.
    Alternated,
    /// In some other mixed order.
    Mixed,
    /// All of one group before all of the other: what drifted between them cannot be told from
    /// what the groups differ in.
    Apart,
    /// A document does not tell when its run began.
    Unknown,
}

/// Something that was different beside the figures.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SetupDifference {
    /// What kind of thing it is.
    pub realm: DifferenceScope,
    /// What: `kernel`, `shield`.
    pub what: String,
    /// What it is in the base.
    pub base: String,
    /// What it is in the other group.
    pub other: String,
}

/// Where a difference lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum DifferenceScope {
    /// Another machine.
    Machine,
    /// Another kernel.
    Kernel,
    /// Settings of the machine: its command line, isolation.
    Setting,
    /// How it was measured: CPUs, policies, loads, for how long.
    Method,
}

/// One figure of two groups.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FigureRow {
    /// What it is a figure of: `threads of 1ms`, a load's name; empty for all of a run.
    pub subject: String,
    /// Which figure.
    #[serde(flatten)]
    pub figure: ComparedFigure,
    /// Its unit: `ns`, `1/s`, or the load's own.
    pub unit: String,
    /// Which way is better.
    pub better: BetterDirection,
    /// The base.
    pub base: GroupFigure,
    /// The other group.
    pub other: GroupFigure,
    /// The other's value divided by the base's; `None` when one is not known or the base is 0.
    pub ratio: Option<f64>,
    /// How many times the base's a run of the other is, by all pairs of runs; `None` with a 0
    /// among them.
    pub typical: Option<Estimate>,
    /// Whether the difference is more than chance.
    pub finding: ComparisonFinding,
}

/// A figure.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "figure", rename_all = "kebab-case")]
pub enum ComparedFigure {
    /// The longest latency.
    Worst,
    /// The latency that so many of a hundred are not longer than.
    Percentile {
        /// How many of a hundred.
        percent: f64,
    },
    /// How far the time between two events was from the period at most.
    Jitter,
    /// Entries into the kernel, of each CPU.
    Noise,
    /// The longest gap that the sampler of `verify` saw.
    Gap,
    /// What a load got done.
    Throughput,
}

/// Which way a figure is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum BetterDirection {
    /// Less of it.
    Lower,
    /// More of it.
    Higher,
}

/// One figure of one group.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GroupFigure {
    /// That of all its runs together: the worst of them, percentiles of the merged histograms, the
    /// mean of what is per second. `None` when it is not known.
    pub value: Option<f64>,
    /// That of each run, in the order of [`RunGroup::runs`]; `None` where a run has none.
    pub runs: Vec<Option<f64>>,
}

/// An estimate with its uncertainty.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Estimate {
    /// The median of the ratios of all pairs of runs (Hodges and Lehmann).
    pub ratio: f64,
    /// The least ratio that the runs do not speak against, at 1 - [`ALPHA`]; `None` with too few
    /// runs to say.
    pub least: Option<f64>,
    /// The largest.
    pub most: Option<f64>,
}

/// Whether a difference is more than chance.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ComparisonFinding {
    /// The answer.
    pub answer: FindingAnswer,
    /// In how many cases of one chance alone would show as much in any of the figures of the same
    /// runs: the exact rank test of Wilcoxon, Mann and Whitney over runs, adjusted for the number
    /// of figures (Westfall and Young). `None` when it cannot be tested.
    pub p: Option<f64>,
    /// So many runs of each group would be needed to tell; `None` when more runs are not what is
    /// missing.
    pub runs_needed: Option<usize>,
    /// Why it is not known.
    pub why: Vec<String>,
}

/// The answer of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum FindingAnswer {
    /// It is more than chance.
    Differs,
    /// Chance may have done it. That is no proof that the groups are the same.
    NotShown,
    /// It cannot be said.
    Unknown,
}

impl Comparison {
    /// The doubts of all runs, with their names.
    pub fn doubts(&self) -> impl Iterator<Item = String> {
        let runs = self.groups.iter().flat_map(|group| &group.runs);
        runs.flat_map(|run| run.doubts.iter().map(|doubt| format!("{}: {doubt}", run.name)))
    }
}

impl FigureRow {
    /// Whether the other group is better; `None` when the difference is not more than chance.
    #[must_use]
    pub fn is_better(&self) -> Option<bool> {
        let differs = self.finding.answer == FindingAnswer::Differs;
        let lower = self.other.median()? < self.base.median()?;
        differs.then_some(lower == (self.better == BetterDirection::Lower))
    }
}

impl GroupFigure {
    /// The figures of the runs that have one.
    #[must_use]
    pub fn known(&self) -> Vec<f64> {
        self.runs.iter().copied().flatten().collect()
    }

    /// The least and the largest of its runs; `None` without any.
    #[must_use]
    pub fn spread(&self) -> Option<(f64, f64)> {
        let known = self.known();
        let least = known.iter().copied().reduce(f64::min)?;
        Some((least, known.iter().copied().reduce(f64::max)?))
    }

    /// The median of its runs.
    #[must_use]
    pub fn median(&self) -> Option<f64> {
        super::statistics::median(self.known())
    }
}
