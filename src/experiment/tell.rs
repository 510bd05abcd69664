//! [`ExperimentJournal`] + the measurements beside it → [`Experiment`].

use super::journal::{ExperimentJournal, ExperimentPhase, ExperimentStore, StepEnd};
use super::judge::judge;
use super::{
    Experiment, ExperimentCell, ExperimentRow, ExperimentState, Matrix, MissedRepetition, SCHEMA,
    Schedule, schedule, summary,
};

/// Why a row with kernel parameters is not measured without leave to reboot.
const NO_REBOOT: &str = "not run: it needs a reboot, and --reboot was not given";

/// What an experiment has come to so far.
#[must_use]
pub fn told(
    journal: &ExperimentJournal,
    matrix: &Matrix,
    notebook: &ExperimentStore,
) -> Experiment {
    let schedule = schedule(matrix, journal.reboot);
    let cells: Vec<ExperimentCell> = (0..matrix.rows.len())
        .flat_map(|row| (0..matrix.columns.len()).map(move |column| (row, column)))
        .map(|(row, column)| cell((row, column), journal, &schedule, notebook))
        .collect();
    let row = |(index, row): (usize, &ExperimentRow)| {
        let left_out = !journal.reboot && !row.boot.is_empty();
        let lost = cells.iter().filter(|cell| cell.row == index).flat_map(|cell| &cell.missing);
        let missing = if left_out {
            Some(NO_REBOOT.to_owned())
        } else {
            lost.map(|missing| missing.why.clone()).next()
        };
        ExperimentRow { missing, ..row.clone() }
    };
    let rows = matrix.rows.iter().enumerate().map(row).collect();
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
        scene: journal.scene.clone(),
        rows,
        columns: matrix.columns.clone(),
        cells,
        best: Vec::new(),
        effects: Vec::new(),
        notes: notes(matrix),
    };
    judge(&mut experiment);
    experiment
}

fn cell(
    (row, column): (usize, usize),
    journal: &ExperimentJournal,
    schedule: &Schedule,
    notebook: &ExperimentStore,
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
            Some(StepEnd::Measured { file }) => match notebook.measured(file) {
                Ok(latency) => cell.runs.push(summary(round, &latency, notebook.path(file))),
                Err(why) => cell.missing.push(MissedRepetition { round, why }),
            },
        }
    }
    cell
}

fn notes(matrix: &Matrix) -> Vec<String> {
    let mut notes = Vec::new();
    let polls = |row: &ExperimentRow| row.boot.iter().any(|word| word == "idle=poll");
    if matrix.rows.iter().any(polls) {
        // The LinuxCNC wiki, "The Isolcpus Boot Parameter And GRUB2", section 4.2.
        notes.push(
            "idle=poll keeps every CPU at full power and was measured worse than isolcpus= by \
             others (200 µs instead of 10.5 µs in LinuxCNC's latency test)"
                .to_owned(),
        );
    }
    notes
}
