//! [`ExperimentJournal`] + the saved measurements → [`Experiment`].

use super::journal::{ExperimentJournal, ExperimentPhase, ExperimentStore, StepEnd};
use super::judge::judge;
use super::{
    Experiment, ExperimentCell, ExperimentRow, ExperimentState, Matrix, MissedRepetition, SCHEMA,
    Schedule, make_schedule, summarize,
};

/// Why a row with kernel parameters is not measured without permission to reboot.
const NO_REBOOT: &str = "not run: it needs a reboot, and --reboot was not given";

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
        missing: find_missing_reason(index, row, journal, &cells),
        ..row.clone()
    });
    let mut experiment = Experiment {
        schema: SCHEMA,
        name: matrix.name.clone(),
        version: journal.version.clone(),
        state: match journal.phase {
            ExperimentPhase::Running => ExperimentState::Unfinished,
            ExperimentPhase::Finished => ExperimentState::Finished,
            ExperimentPhase::Stopped => ExperimentState::Stopped,
        },
        began_s: journal.began_s,
        ended_s: journal.ended_s,
        cpus: journal.cpus.clone(),
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

/// Why a row was not measured, or not completely; `None` when nothing is missing.
fn find_missing_reason(
    index: usize,
    row: &ExperimentRow,
    journal: &ExperimentJournal,
    cells: &[ExperimentCell],
) -> Option<String> {
    if !journal.reboot.allows(row) {
        return Some(NO_REBOOT.to_owned());
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
            Some(StepEnd::Measured { file }) => match store.load_measurement(file) {
                Ok(latency) => cell.runs.push(summarize(round, &latency, store.path(file))),
                Err(why) => cell.missing.push(MissedRepetition { round, why }),
            },
        }
    }
    cell
}

fn list_notes(matrix: &Matrix) -> Vec<String> {
    let mut notes = Vec::new();
    if matrix.rows.iter().any(|row| row.boot.iter().any(|parameter| parameter == "idle=poll")) {
        // The LinuxCNC wiki, "The Isolcpus Boot Parameter And GRUB2", section 4.2.
        notes.push(
            "idle=poll keeps every CPU at full power and was measured worse than isolcpus= by \
             others (200 µs instead of 10.5 µs in LinuxCNC's latency test)"
                .to_owned(),
        );
    }
    notes
}
