//! Chooses the CPUs of each row of an experiment, and checks that no two rows make the same plan.

use super::WorkContext;
use super::cpu_names::names_of;
use super::experiment_machine::request_for_row;
use crate::cpu_selection::CpuSelection;
use crate::documents::experiment::ExperimentRow;
use crate::documents::machine::Machine;
use crate::documents::plan::{CpuCandidate, Plan, Step, named};
use crate::experiment::{Matrix, RowCpus, WrittenList};
use crate::failure::Failure;
use crate::plan::{check_online, list_candidates, plan};
use crate::policy::ShieldRequest;
use crate::run::ShieldPlacement;
use cpushield_linux::{CpuSet, Host};

/// A row with what it changes.
struct PlannedRow {
    cpus: RowCpus,
    steps: Vec<Step>,
}

/// Chooses the CPUs of each row. `file` is the name of the matrix file, for errors.
///
/// # Errors
/// A list does not suit this machine, a shield is impossible, or two rows plan the same.
pub(super) fn choose_row_cpus(
    work: &WorkContext<'_>,
    machine: &Machine,
    matrix: &Matrix,
    file: &str,
) -> Result<Vec<RowCpus>, Failure> {
    let mut shared = match &matrix.cpus {
        Some(written) => Some(choose_listed_cpus(work, machine, matrix, written, file)?),
        None => None,
    };
    let mut planned: Vec<Option<PlannedRow>> = Vec::new();
    // Every shield is planned first, so that an impossible one is reported before any change.
    for (index, row) in matrix.rows.iter().enumerate() {
        let written = matrix.places.get(index).and_then(|place| place.cpus.as_ref());
        let own = match written {
            Some(written) => Some(choose_listed_cpus(work, machine, matrix, written, file)?),
            None => None,
        };
        let is_shared = own.is_none();
        let Some(found) = plan_row(&work.host, machine, matrix, row, own.or(shared.clone()))
            .map_err(|failure| at_row(matrix, index, file, failure))?
        else {
            planned.push(None);
            continue;
        };
        if is_shared {
            shared.get_or_insert(found.cpus.clone());
        }
        planned.push(Some(found));
    }
    let shared = shared.map(|cpus| PlannedRow { cpus, steps: Vec::new() });
    let found = planned.iter().enumerate().map(|(index, row)| {
        row.as_ref()
            .or(shared.as_ref())
            .ok_or_else(|| no_cpus(machine, matrix, &planned, index, file))
    });
    let rows = found.collect::<Result<Vec<&PlannedRow>, Failure>>()?;
    check_rows_differ(matrix, &rows, file)?;
    Ok(rows.into_iter().map(|row| row.cpus.clone()).collect())
}

/// The sets of CPUs that are worth a row each, when the matrix names no CPUs.
pub(super) fn offer_candidates(machine: &Machine, matrix: &Matrix) -> Vec<CpuCandidate> {
    if matrix.names_cpus() {
        return Vec::new();
    }
    list_candidates(machine, &request_of_matrix(matrix, None))
}

/// What the shields of all rows request.
fn request_of_matrix(matrix: &Matrix, cpus: Option<CpuSet>) -> ShieldRequest {
    ShieldRequest {
        cpus,
        siblings: matrix.siblings,
        workload: matrix.workload,
        ..ShieldRequest::default()
    }
}

/// Plans a row on the given CPUs. Without them a row with a shield chooses its CPUs, and a row
/// without one has none yet.
fn plan_row(
    host: &Host,
    machine: &Machine,
    matrix: &Matrix,
    row: &ExperimentRow,
    cpus: Option<RowCpus>,
) -> Result<Option<PlannedRow>, Failure> {
    if !row.shield {
        return Ok(cpus.map(|cpus| PlannedRow { cpus, steps: Vec::new() }));
    }
    let shielded = cpus.as_ref().map(|cpus| cpus.shielded.clone());
    let plan = plan(machine, &request_for_row(matrix, row, shielded))?;
    let cpus = cpus.unwrap_or_else(|| cpus_of_plan(host, &plan));
    Ok(Some(PlannedRow { cpus, steps: plan.steps }))
}

fn cpus_of_plan(host: &Host, plan: &Plan) -> RowCpus {
    let measured = ShieldPlacement::new(host, plan).cpus;
    RowCpus { shielded: plan.shield.cpus.clone(), measured }
}

/// The CPUs of a list. Siblings of it that a shield keeps idle or offline are not measured, and
/// not in rows without a shield either: all rows of a list measure the same CPUs.
fn choose_listed_cpus(
    work: &WorkContext<'_>,
    machine: &Machine,
    matrix: &Matrix,
    written: &WrittenList,
    file: &str,
) -> Result<RowCpus, Failure> {
    let listed = parse_list(machine, written, file)?;
    let request = request_of_matrix(matrix, Some(listed.clone()));
    let measured = match matrix.rows.iter().any(|row| row.shield) {
        // A row whose shield is impossible reports that itself.
        true => plan(machine, &request)
            .map_or(listed.clone(), |plan| cpus_of_plan(&work.host, &plan).measured),
        false => listed.clone(),
    };
    Ok(RowCpus { shielded: listed, measured })
}

/// Parses a list and checks that its CPUs are online. An error names the line.
fn parse_list(machine: &Machine, written: &WrittenList, file: &str) -> Result<CpuSet, Failure> {
    let parsed = CpuSelection::parse(&written.list)
        .and_then(|selection| selection.resolve(&names_of(machine)))
        .map_err(|error| Failure::usage(error.to_string()))
        .and_then(|cpus| Ok(check_online(machine, &cpus).map(|()| cpus)?));
    parsed.map_err(|failure| {
        let message = format!("{file}:{}: {}", written.line, failure.message);
        Failure { message, ..failure }
    })
}

/// Adds the place and the name of a row to a failure.
pub(super) fn at_row(matrix: &Matrix, index: usize, file: &str, failure: Failure) -> Failure {
    let name = matrix.rows.get(index).map(|row| row.name.as_str()).unwrap_or_default();
    let line = find_line(matrix, index);
    Failure { message: format!("{file}:{line}: row {name:?}: {}", failure.message), ..failure }
}

fn find_line(matrix: &Matrix, index: usize) -> usize {
    matrix.places.get(index).map_or(1, |place| place.line)
}

/// Checks that no two rows make the same changes and measure the same CPUs.
fn check_rows_differ(matrix: &Matrix, rows: &[&PlannedRow], file: &str) -> Result<(), Failure> {
    let mut assigned = matrix.clone();
    let cpus: Vec<RowCpus> = rows.iter().map(|row| row.cpus.clone()).collect();
    assigned.assign_cpus(&cpus);
    let all: Vec<(&ExperimentRow, &&PlannedRow)> = assigned.rows.iter().zip(rows).collect();
    for (index, (row, planned)) in all.iter().enumerate() {
        let same = all.iter().take(index).position(|(other, earlier)| {
            (other.needed_boot(), other.shield, &earlier.cpus, &earlier.steps)
                == (row.needed_boot(), row.shield, &planned.cpus, &planned.steps)
        });
        if let Some(same) = same {
            let other = find_line(matrix, same);
            let name = matrix.rows.get(same).map(|row| row.name.as_str()).unwrap_or_default();
            let why = format!(
                "row {:?} has the same plan on this machine as row {name:?} on line {other}",
                row.name
            );
            let line = find_line(matrix, index);
            return Err(Failure::usage(format!("{file}:{line}: {why}"))
                .hint("remove one of the two rows, or change its cpus, tunables or boot")
                .hint(
                    "see what a shield changes: cpushield plan; on this machine, some tunables are \
                     off by default",
                ));
        }
    }
    Ok(())
}

/// A row without CPUs, where no shield chooses them. It cannot have those of the other rows: a
/// figure is the worst of its CPUs, so more CPUs make it worse by chance.
fn no_cpus(
    machine: &Machine,
    matrix: &Matrix,
    planned: &[Option<PlannedRow>],
    index: usize,
    file: &str,
) -> Failure {
    let named_in_rows = planned.iter().flatten().map(|row| &row.cpus.measured);
    if let Some(first) = named_in_rows.clone().next() {
        let why =
            "this row has neither a shield nor `cpus`, so it does not say which CPUs to measure";
        let failure = at_row(matrix, index, file, Failure::usage(why))
            .hint(format!("measure this row on the CPUs of another row: cpus = \"{first}\""))
            .hint("or set cpus at the top of the file, for all rows without their own");
        let all: CpuSet = named_in_rows.collect();
        return match all == *first {
            true => failure,
            false => failure.hint(format!(
                "or write a row without a shield for each of these sets of CPUs; their union is \
                 CPU {all}"
            )),
        };
    }
    let why = "cannot choose the CPUs to measure, because no row has a shield";
    let line = find_line(matrix, index);
    let failure = Failure::usage(format!("{file}:{line}: {why}"));
    let candidates = offer_candidates(machine, matrix);
    let Some(first) = candidates.first() else {
        return failure.hint("name them in the file: cpus = \"3\"");
    };
    let failure = failure.hint(format!("name them in the file: cpus = \"{}\"", first.cpus));
    candidates.iter().skip(1).fold(failure, |failure, candidate| {
        let (cpus, why) = (&candidate.cpus, candidate.explain());
        failure.hint(format!("or cpus = \"{cpus}\": {}: {why}", named(cpus)))
    })
}

#[cfg(test)]
mod tests {
    use super::super::machine_survey::survey_machine;
    use super::*;
    use crate::ui::{OutputFormat, StatusLines, Ui};
    use std::path::Path;

    /// The measured CPUs of each row of a matrix with these settings, on a recorded machine where
    /// CPUs 2 and 3 are the threads of a core, and 6 and 7 too.
    fn measured(settings: &str) -> Vec<String> {
        let text = format!(
            "{settings}\n[[row]]\nname = \"base\"\n[[row]]\nname = \"shield\"\nshield = true\n\
             [[row]]\nname = \"own\"\nshield = true\ncpus = \"6-7\"\n\
             [[column]]\nname = \"c\"\ninstrument = \"timer\"\n"
        );
        let ui = Ui::new(OutputFormat::Text, StatusLines::Suppressed);
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("machines/6.12-rt-smt/root");
        let work = WorkContext::open(&ui, Some(&root), None, None).unwrap();
        let machine = survey_machine(&work.host, &work.store);
        let matrix = Matrix::parse(&text, "m.toml").unwrap();
        let rows = choose_row_cpus(&work, &machine, &matrix, "m.toml").unwrap();
        rows.into_iter().map(|row| row.measured.to_string()).collect()
    }

    #[test]
    fn siblings_of_a_list_that_stay_idle_are_not_measured() {
        for mode in ["idle", "offline"] {
            let settings = format!("cpus = \"2-3\"\nsiblings = \"{mode}\"");
            assert_eq!(measured(&settings), ["2", "2", "6"], "{mode}");
        }
        assert_eq!(measured("cpus = \"2-3\"\nsiblings = \"use\""), ["2-3", "2-3", "6-7"]);
        assert_eq!(measured("cpus = \"3\"\nsiblings = \"share\""), ["3", "3", "6-7"]);
    }
}
