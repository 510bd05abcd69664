//! Runs a search on an [`ExperimentMachine`]. Each measurement is a step of the experiment's
//! journal, so a search survives what an experiment survives: a kill, a crash, a power failure.

use super::request::{SearchRequest, combine};
use super::subset::{GoalObservation, SubsetSearch};
use crate::documents::evidence::VerifyDocument;
use crate::documents::latency::LatencyMeasurement;
use crate::experiment::journal::{ExperimentJournal, ExperimentStore, StepEnd};
use crate::experiment::run::run_open_steps;
use crate::experiment::schedule::find_or_add;
use crate::experiment::{
    ExperimentEnd, ExperimentMachine, ExperimentRow, MeasurementStep, RowBoot, Schedule,
    run_remaining,
};
use serde::{Deserialize, Serialize};

/// A measurement of a search, as it is saved.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrialMeasurement {
    /// What it says about the goal.
    pub observation: GoalObservation,
    /// The whole measurement.
    pub document: TrialDocument,
}

/// The whole measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TrialDocument {
    /// As `latency --json`.
    Latency(Box<LatencyMeasurement>),
    /// As `verify --json`.
    Verify(Box<VerifyDocument>),
    /// None, on a simulated machine.
    Simulated,
}

/// A machine whose configurations follow from earlier measurements.
pub trait TrialMachine: ExperimentMachine<Measured = TrialMeasurement> {
    /// Sets the configurations and the boots that the steps refer to.
    fn set_trials(&mut self, rows: Vec<ExperimentRow>, schedule: &Schedule);
}

/// A search after the measurements of a journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrialPlan {
    /// The search so far.
    pub search: SubsetSearch,
    /// The configuration of each trial.
    pub rows: Vec<ExperimentRow>,
    /// Every measurement so far; the next one too, unless the search has ended.
    pub schedule: Schedule,
}

/// Replays a journal. `known` has the observations of an earlier call, and gets the new ones.
#[must_use]
pub fn plan_trials(
    request: &SearchRequest,
    columns: usize,
    journal: &ExperimentJournal,
    store: &ExperimentStore,
    known: &mut Vec<GoalObservation>,
) -> TrialPlan {
    let columns = columns.max(1);
    while let Some(observation) = read_observation(known.len() * columns, columns, journal, store) {
        known.push(observation);
    }
    let search = request.replay(known);
    let mut boots = vec![RowBoot::default()];
    let (mut rows, mut steps) = (Vec::new(), Vec::new());
    for (index, trial) in search.trials.iter().enumerate() {
        let name = request.trial_name(trial.purpose, &trial.left_out);
        let mut row = ExperimentRow { name, ..request.row_with(&trial.options) };
        if let Some(cpus) = journal.row_cpus.first() {
            row.assign_cpus(cpus);
        }
        row.set_original_kernel(journal.setup.kernel.as_deref());
        let boot = find_or_add(&mut boots, row.needed_boot());
        let rounds = trial.observations + usize::from(trial.decision.is_none());
        for round in 0..rounds {
            let columns = 0..columns;
            steps.extend(columns.map(|column| MeasurementStep {
                boot,
                visit: 0,
                row: index,
                column,
                round,
            }));
        }
        rows.push(row);
    }
    TrialPlan { search, rows, schedule: Schedule { boots, steps } }
}

/// Reads the observation that begins with this step; `None` when one of its steps has no end.
fn read_observation(
    first: usize,
    columns: usize,
    journal: &ExperimentJournal,
    store: &ExperimentStore,
) -> Option<GoalObservation> {
    let ends = (first..first + columns).map(|n| journal.ends.get(&n));
    let ends = ends.collect::<Option<Vec<&StepEnd>>>()?;
    Some(combine(ends.into_iter().map(|end| read_step(end, store)).collect()))
}

fn read_step(end: &StepEnd, store: &ExperimentStore) -> GoalObservation {
    match end {
        StepEnd::Missing { why } => GoalObservation::Impossible { why: why.to_string() },
        StepEnd::Measured { file } => match store.load_measurement::<TrialMeasurement>(file) {
            Ok(measured) => measured.observation,
            Err(why) => GoalObservation::Doubtful { why },
        },
    }
}

/// Runs a search from what its journal has reached to its end.
///
/// # Errors
/// The search cannot continue now. Its measurements are saved, and it can be resumed.
pub fn run_search<M: TrialMachine>(
    machine: &mut M,
    store: &ExperimentStore,
    journal: &mut ExperimentJournal,
    request: &SearchRequest,
    columns: usize,
) -> Result<ExperimentEnd, M::Error> {
    let mut known = Vec::new();
    loop {
        let plan = plan_trials(request, columns, journal, store, &mut known);
        machine.set_trials(plan.rows, &plan.schedule);
        if plan.search.end.is_some() {
            return run_remaining(machine, store, journal, &plan.schedule);
        }
        if let Some(end) = run_open_steps(machine, store, journal, &plan.schedule)? {
            return Ok(end);
        }
    }
}
