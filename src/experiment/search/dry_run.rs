//! Describes what a search would do, for `--dry-run`. Pure.

use super::request::SearchRequest;
use crate::documents::option_search::{DRY_RUN_SCHEMA, FixedOption, SearchDryRun, SearchOption};
use crate::experiment::matrix::CPUS;
use crate::experiment::{Matrix, RowCpus};

/// Describes what a search would do on these CPUs.
#[must_use]
pub fn describe_search(request: &SearchRequest, matrix: &Matrix, cpus: RowCpus) -> SearchDryRun {
    let list = cpus.shielded.to_string();
    let fixed = request.fixed.iter().cloned();
    let fixed = fixed.map(|it| FixedOption { option: fill_cpus(it.option, &list), ..it });
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
    let measurements = (options + 3).min(most) * test.shortest();
    SearchDryRun {
        schema: DRY_RUN_SCHEMA,
        name: matrix.name.clone(),
        row: request.row.clone(),
        goal: request.goal,
        cpus: cpus.measured,
        options: request.options.iter().map(|it| fill_cpus(it.clone(), &list)).collect(),
        fixed: fixed.collect(),
        test,
        measurement_ns,
        usual_ns: measurement_ns.saturating_mul(to_u64(measurements)),
        worst_ns: measurement_ns.saturating_mul(to_u64(most * test.measurements_max)),
        reboots_max: if request.has_boots() { most + 1 } else { 0 },
    }
}

/// The option with the CPUs in its kernel parameter.
fn fill_cpus(option: SearchOption, list: &str) -> SearchOption {
    match option {
        SearchOption::Parameter { word } => {
            SearchOption::Parameter { word: word.replace(CPUS, list) }
        }
        other => other,
    }
}

fn to_u64(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dry_run_shows_the_cpus_of_a_kernel_parameter() {
        let parameter = SearchOption::Parameter { word: "nohz_full={cpus}".to_owned() };
        assert_eq!(fill_cpus(parameter, "2-3").to_string(), "nohz_full=2-3");
    }
}
