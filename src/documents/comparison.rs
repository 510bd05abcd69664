//! The [`Comparison`] document.

mod doubt;

pub use doubt::{FindingReason, PairDoubt, PairNote, RunDoubt};

use crate::documents::count_text::joined;
use serde::{Deserialize, Serialize};

/// The version of the document's form.
pub const SCHEMA: u32 = 1;

/// The significance level: a difference counts as significant when chance alone would show as much
/// in fewer cases than this, in any of the figures of the same runs.
pub const ALPHA: f64 = 0.05;

/// A comparison of groups of measurements.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Comparison {
    /// The version of this form: [`SCHEMA`].
    pub schema: u32,
    /// The significance level for `p`: [`ALPHA`].
    pub alpha: f64,
    /// The groups, the base first.
    pub groups: Vec<RunGroup>,
    /// The comparisons of each other group with the base.
    pub pairs: Vec<GroupPair>,
}

/// Repeated runs of one configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunGroup {
    /// Its name: the given one, or the shortest end of the file's path that no other group has.
    pub name: String,
    /// The shield of its runs; `None` without one.
    pub shield: Option<String>,
    /// Its runs in the order given.
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
    /// When it began, in seconds since 1970; `None` when the document does not record it.
    pub began_s: Option<u64>,
    /// Its span in nanoseconds.
    pub span_ns: u64,
    /// What makes its figures doubtful.
    #[serde(with = "crate::with_text::TextList::<RunDoubt>")]
    pub doubts: Vec<RunDoubt>,
}

/// The comparison of a group with the base.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GroupPair {
    /// The name of the base.
    pub base: String,
    /// The name of the other group.
    pub other: String,
    /// The order of their runs.
    pub sequence: RunOrder,
    /// Other differences between the groups: possible causes.
    pub differences: Vec<SetupDifference>,
    /// Every figure that both groups have.
    pub rows: Vec<FigureRow>,
    /// What makes the comparison doubtful as a whole.
    #[serde(with = "crate::with_text::TextList::<PairDoubt>")]
    pub doubts: Vec<PairDoubt>,
    /// Remarks.
    #[serde(with = "crate::with_text::TextList::<PairNote>")]
    pub notes: Vec<PairNote>,
}

/// The order of the runs of two groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum RunOrder {
    /// Interleaved: a drift with time affects both.
    Alternated,
    /// In some other mixed order.
    Mixed,
    /// All of one group before all of the other: a drift between them cannot be distinguished
    /// from an effect.
    Apart,
    /// A document does not record when its run began.
    Unknown,
}

/// A difference between the groups other than their figures.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SetupDifference {
    /// The scope of the difference.
    pub realm: DifferenceScope,
    /// What differs: `kernel`, `shield`.
    pub what: String,
    /// Its value in the base.
    pub base: String,
    /// Its value in the other group.
    pub other: String,
}

/// The scope of a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum DifferenceScope {
    /// A different machine.
    Machine,
    /// A different kernel.
    Kernel,
    /// Settings of the machine: its command line, isolation.
    Setting,
    /// The method: CPUs, policies, loads, span.
    Method,
}

/// One figure of two groups.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FigureRow {
    /// The subject: `1 ms threads`, the name of a load; empty for the whole run.
    pub subject: String,
    /// The figure.
    #[serde(flatten)]
    pub figure: ComparedFigure,
    /// Its unit: `ns`, `1/s`, or the load's own.
    pub unit: String,
    /// The direction that is better.
    pub better: BetterDirection,
    /// The base.
    pub base: GroupFigure,
    /// The other group.
    pub other: GroupFigure,
    /// The other's value divided by the base's; `None` when one is unknown or the base is 0.
    pub ratio: Option<f64>,
    /// The ratio of a run of the other to a run of the base, over all pairs of runs; `None` with a
    /// 0 among them.
    pub typical: Option<Estimate>,
    /// Whether the difference is significant.
    pub finding: ComparisonFinding,
}

/// A figure.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "figure", rename_all = "kebab-case")]
pub enum ComparedFigure {
    /// The longest latency.
    Worst,
    /// The average latency, without missed events.
    Average,
    /// The latency that this percentage of the samples does not exceed.
    Percentile {
        /// The percentage.
        percent: f64,
    },
    /// The largest deviation of the time between two events from the period.
    Jitter,
    /// The gaps that a thread without a period saw, per second and thread.
    GapRate,
    /// Kernel entries per second and CPU.
    Noise,
    /// The longest gap that the sampler of `verify` saw.
    Gap,
    /// The throughput of a load.
    Throughput,
}

/// The direction in which a figure is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum BetterDirection {
    /// Lower is better.
    Lower,
    /// Higher is better.
    Higher,
}

/// One figure of one group.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GroupFigure {
    /// The figure of all runs combined: the worst, the percentile of the merged histograms, or the
    /// mean of a rate. `None` when it is unknown.
    pub value: Option<f64>,
    /// The figure of each run, in the order of [`RunGroup::runs`]; `None` for a run without it.
    pub runs: Vec<Option<f64>>,
}

/// An estimate with its uncertainty.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Estimate {
    /// The median of the ratios of all pairs of runs (Hodges and Lehmann).
    pub ratio: f64,
    /// The lower end of the 1 - [`ALPHA`] confidence interval; `None` with too few runs.
    pub least: Option<f64>,
    /// The upper end.
    pub most: Option<f64>,
}

/// Whether a difference is significant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ComparisonFinding {
    /// The answer.
    pub answer: FindingAnswer,
    /// The probability that chance alone shows as much in any of the figures of the same runs: the
    /// exact rank test of Wilcoxon, Mann and Whitney over runs, adjusted for the number of figures
    /// (Westfall and Young). `None` when it cannot be tested.
    pub p: Option<f64>,
    /// How many runs of each group are enough if the groups do not overlap; `None` when more runs
    /// would not help.
    pub runs_needed: Option<usize>,
    /// Why the answer is unknown.
    #[serde(with = "crate::with_text::TextList::<FindingReason>")]
    pub why: Vec<FindingReason>,
}

/// The answer of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum FindingAnswer {
    /// The difference is significant.
    Differs,
    /// It may be chance. That does not prove that the groups are the same.
    NotShown,
    /// It is unknown.
    Unknown,
}

impl Comparison {
    /// The doubts about all runs, with the names of the runs.
    pub fn doubts(&self) -> impl Iterator<Item = String> {
        let runs = self.groups.iter().flat_map(|group| &group.runs);
        runs.flat_map(|run| run.doubts.iter().map(|doubt| format!("{}: {doubt}", run.name)))
    }
}

impl ComparisonFinding {
    /// Why the answer is unknown, on one line.
    #[must_use]
    pub fn reasons(&self) -> String {
        joined(&self.why, "; ")
    }
}

impl GroupFigure {
    /// The figures of the runs that have one.
    #[must_use]
    pub fn known(&self) -> Vec<f64> {
        self.runs.iter().copied().flatten().collect()
    }

    /// The smallest and the largest figure of its runs; `None` without any.
    #[must_use]
    pub fn spread(&self) -> Option<(f64, f64)> {
        let known = self.known();
        let least = known.iter().copied().reduce(f64::min)?;
        Some((least, known.iter().copied().reduce(f64::max)?))
    }
}
