//! [`ExperimentJournal`] + the saved measurements → [`Experiment`].

use super::journal::{ExperimentJournal, ExperimentStore, StepEnd};
use super::judge::judge;
use super::{
    Experiment, ExperimentCell, ExperimentNote, ExperimentRow, Matrix, MissedRepetition,
    RowIsolation, SCHEMA, Schedule, UnmeasuredReason, make_schedule, summarize,
};
use crate::documents::latency::LatencyMeasurement;

/// Collects the results of an experiment so far.
#[must_use]
pub fn collect_results(
    journal: &ExperimentJournal,
    matrix: &Matrix,
    store: &ExperimentStore,
) -> Experiment {
    let schedule = make_schedule(matrix, journal.reboot);
    let cells: Vec<ExperimentCell> = (0..matrix.rows.len())
        .flat_map(|row| (0..matrix.columns.len()).map(move |column| (row, column)))
        .map(|(row, column)| collect_cell((row, column), journal, &schedule, store))
        .collect();
    let rows = matrix.rows.iter().enumerate().map(|(index, row)| ExperimentRow {
        isolation: judge_isolation(index, row, &cells),
        missing: find_missing_reason(index, row, journal, &cells),
        ..row.clone()
    });
    let mut experiment = Experiment {
        schema: SCHEMA,
        name: matrix.name.clone(),
        version: journal.version.clone(),
        state: journal.phase.state(),
        began_s: journal.began_s,
        ended_s: journal.ended_s,
        cpus: matrix.rows.iter().flat_map(|row| row.cpus.iter()).collect(),
        span_ns: matrix.span_ns,
        warmup_ns: matrix.warmup_ns,
        repeats: matrix.repeats,
        boots: matrix.boots,
        setup: journal.setup.clone(),
        rows: rows.collect(),
        columns: matrix.columns.clone(),
        cells,
        best: Vec::new(),
        effects: Vec::new(),
        notes: list_notes(matrix),
    };
    judge(&mut experiment);
    experiment
}

fn judge_isolation(index: usize, row: &ExperimentRow, cells: &[ExperimentCell]) -> RowIsolation {
    let cells = cells.iter().filter(|cell| cell.row == index);
    RowIsolation::judge(row, cells.flat_map(|cell| &cell.runs))
}

/// Why a row was not measured, or not completely; `None` when nothing is missing.
fn find_missing_reason(
    index: usize,
    row: &ExperimentRow,
    journal: &ExperimentJournal,
    cells: &[ExperimentCell],
) -> Option<UnmeasuredReason> {
    if !journal.reboot.allows(row) {
        return Some(UnmeasuredReason::RebootNotPermitted);
    }
    let mut missing = cells.iter().filter(|cell| cell.row == index).flat_map(|cell| &cell.missing);
    missing.next().map(|missing| missing.why.clone())
}

fn collect_cell(
    (row, column): (usize, usize),
    journal: &ExperimentJournal,
    schedule: &Schedule,
    store: &ExperimentStore,
) -> ExperimentCell {
    let mut cell = ExperimentCell { row, column, runs: Vec::new(), missing: Vec::new() };
    for (n, step) in schedule.steps.iter().enumerate() {
        if (step.row, step.column) != (row, column) {
            continue;
        }
        let round = step.round;
        match journal.ends.get(&n) {
            None => {}
            Some(StepEnd::Missing { why }) => {
                cell.missing.push(MissedRepetition { round, why: why.clone() });
            }
            Some(StepEnd::Measured { file }) => {
                match store.load_measurement::<LatencyMeasurement>(file) {
                    Ok(latency) => cell.runs.push(summarize(round, &latency, store.path(file))),
                    Err(why) => {
                        let why = UnmeasuredReason::MeasurementUnreadable { why };
                        cell.missing.push(MissedRepetition { round, why });
                    }
                }
            }
        }
    }
    cell
}

fn list_notes(matrix: &Matrix) -> Vec<ExperimentNote> {
    let mut parameters = matrix.rows.iter().flat_map(|row| &row.boot);
    let polls = parameters.any(|parameter| parameter == "idle=poll");
    polls.then_some(ExperimentNote::IdlePoll).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::documents::latency::{IsolationCheck, IsolationWitness, LatencyMeasurement};
    use crate::experiment::RebootPermission;
    use crate::latency::latency_of;
    use cpushield_linux::CpuSet;

    /// A measurement of CPU 3 before which the witnesses (kernel, PID 1, probe) showed it as
    /// isolated or not.
    fn checked(shown: [bool; 3]) -> LatencyMeasurement {
        let cpus = CpuSet::single(3);
        let witnesses = shown.map(|isolated| IsolationWitness::Present {
            isolated: if isolated { cpus.clone() } else { CpuSet::new() },
        });
        let mut latency = latency_of(&[(2_000, 3)]);
        latency.isolation.check = Some(IsolationCheck::new(cpus, witnesses));
        latency
    }

    #[test]
    fn a_row_whose_witnesses_disagree_once_is_not_counted_as_isolated() {
        let text = "repeats = 2\n[[row]]\nname = \"base\"\n[[row]]\nname = \"isolcpus\"\n\
                    boot = [\"isolcpus=3\"]\n[[column]]\nname = \"c\"\ninstrument = \"timer\"\n";
        let dir = std::env::temp_dir().join(format!("cpushield-results-{}", std::process::id()));
        let store = ExperimentStore::new(&dir);
        let journal = ExperimentJournal::new("m.toml".to_owned(), text.to_owned(), Vec::new(), 1);
        let mut journal = ExperimentJournal { reboot: RebootPermission::Granted, ..journal };
        let matrix = journal.parse_matrix().unwrap();
        for (n, step) in make_schedule(&matrix, journal.reboot).steps.iter().enumerate() {
            // The kernel lists CPU 3 in every run, and the second probe ran there anyway.
            let shown = match (step.row, step.round) {
                (1, 0) => [true, true, true],
                (1, _) => [true, true, false],
                _ => [false, false, false],
            };
            let file = store.save_measurement(n, &checked(shown)).unwrap();
            journal.ends.insert(n, StepEnd::Measured { file });
        }
        let experiment = collect_results(&journal, &matrix, &store);
        std::fs::remove_dir_all(dir).unwrap();
        assert_eq!(experiment.rows[0].isolation, RowIsolation::Ordinary);
        let isolation = &experiment.rows[1].isolation;
        assert!(matches!(isolation, RowIsolation::Contradicted { .. }), "{isolation}");
        assert!(!experiment.is_doubtful(0, 0) && experiment.is_doubtful(1, 0));
    }
}
