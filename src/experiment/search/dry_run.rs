//! What a search would do: the document of `--dry-run`. Pure.

use super::request::{FixedOption, SearchGoal, SearchKind, SearchOption, SearchRequest};
use super::sequential::SequentialTest;
use crate::experiment::{Difference, Matrix};
use cpushield_linux::CpuSet;
use serde::Serialize;

/// The version of the format of [`SearchDryRun`].
const SCHEMA: u32 = 1;

/// What a search would do.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SearchDryRun {
    /// The version of this format.
    pub schema: u32,
    /// The name of the experiment.
    pub name: String,
    /// What it looks for.
    pub search: SearchKind,
    /// The goal of each measurement.
    #[serde(with = "crate::with_text")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::with_text::WithText<SearchGoal>"))]
    pub goal: SearchGoal,
    /// CPUs that are measured.
    pub cpus: CpuSet,
    /// What is varied, in the order in which it is left out.
    #[serde(with = "crate::with_text::list")]
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Vec<crate::with_text::WithText<SearchOption>>")
    )]
    pub options: Vec<SearchOption>,
    /// What is not varied.
    pub fixed: Vec<FixedOption>,
    /// What differs between the two documents.
    pub differences: Vec<Difference>,
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

/// Describes what a search would do on these CPUs.
#[must_use]
pub fn describe_search(request: &SearchRequest, matrix: &Matrix, cpus: CpuSet) -> SearchDryRun {
    let test = request.test();
    let columns = request.columns(matrix);
    let one = matrix.span_ns.saturating_add(matrix.warmup_ns);
    let measurement_ns = one.saturating_mul(to_u64(columns));
    let options = request.options.len();
    // Each pass leaves out at least one option, or is the last one.
    let most = match options {
        0 => 1,
        count => 3 + 2 * count + count * (count + 1) / 2,
    };
    let usual = match request.kind {
        SearchKind::Minimize { .. } => options + 3,
        SearchKind::Between { .. } => 3 + 2 * bits(options),
    };
    let measurements = usual.min(most) * test.shortest().0;
    SearchDryRun {
        schema: SCHEMA,
        name: matrix.name.clone(),
        search: request.kind.clone(),
        goal: request.goal,
        cpus,
        options: request.options.clone(),
        fixed: request.fixed.clone(),
        differences: request.differences.clone(),
        test,
        measurement_ns,
        usual_ns: measurement_ns.saturating_mul(to_u64(measurements)),
        worst_ns: measurement_ns.saturating_mul(to_u64(most * test.measurements_max)),
        reboots_max: if request.has_boots() { most + 1 } else { 0 },
    }
}

/// How often a number can be halved until it is 0.
fn bits(mut count: usize) -> usize {
    let mut bits = 0;
    while count > 0 {
        count /= 2;
        bits += 1;
    }
    bits
}

fn to_u64(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}
