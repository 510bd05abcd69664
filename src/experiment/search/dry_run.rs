//! Describes what a search would do, for `--dry-run`. Pure.

use super::request::SearchRequest;
use crate::documents::option_search::{DRY_RUN_SCHEMA, SearchDryRun, SearchKind};
use crate::experiment::Matrix;
use cpushield_linux::CpuSet;

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
        schema: DRY_RUN_SCHEMA,
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
