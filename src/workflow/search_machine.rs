//! The live machine of a search: applies a configuration, measures whether it meets the goal, and
//! undoes everything. Boots are those of an experiment.

use super::WorkContext;
use super::experiment_machine::{LiveExperimentMachine, MeasuredCell, OriginalBoot};
use super::load_options::LoadOptions;
use crate::documents::evidence::{Gate, VerifyDocument};
use crate::documents::experiment::{BootMismatch, ExperimentRow, RowBoot};
use crate::documents::latency::{LatencyDoubt, LatencyNote};
use crate::documents::load_done::LoadDone;
use crate::documents::option_search::SearchGoal;
use crate::experiment::journal::ExperimentJournal;
use crate::experiment::search::{GoalObservation, TrialDocument, TrialMachine, TrialMeasurement};
use crate::experiment::{
    ExperimentMachine, MachineTrouble, Matrix, MeasurementStep, RowCpus, Schedule,
};
use crate::failure::{Failure, FailureKind};
use crate::load::LoadGenerator;
use crate::policy::{LatencyLimits, VerifyLimits};
use crate::run::{ShieldPlacement, check_move};
use crate::tunables::RemedyAnswer;
use crate::verify::{WatchOrder, WatchProgress, judge, watch};
use cpushield_linux::{CpuSet, sys::signal};
use std::fmt::Display;
use std::time::Duration;

/// The machine that a search runs on.
pub struct LiveSearchMachine<'a> {
    work: &'a WorkContext<'a>,
    /// The measurements, with the configurations of the search as rows.
    matrix: Matrix,
    schedule: Schedule,
    cpus: RowCpus,
    original: OriginalBoot,
    goal: SearchGoal,
    /// The number of configurations that were announced.
    announced: usize,
}

impl<'a> LiveSearchMachine<'a> {
    /// The machine of a search with this journal.
    pub fn new(
        work: &'a WorkContext<'a>,
        matrix: &Matrix,
        journal: &ExperimentJournal,
        goal: SearchGoal,
    ) -> LiveSearchMachine<'a> {
        LiveSearchMachine {
            work,
            matrix: Matrix { rows: Vec::new(), ..matrix.clone() },
            schedule: Schedule { boots: vec![RowBoot::default()], steps: Vec::new() },
            cpus: journal.row_cpus.first().cloned().unwrap_or_default(),
            original: OriginalBoot::of(&journal.setup),
            goal,
            announced: 0,
        }
    }

    fn machine(&self) -> LiveExperimentMachine<'_> {
        LiveExperimentMachine {
            work: self.work,
            matrix: &self.matrix,
            schedule: &self.schedule,
            row_cpus: vec![self.cpus.clone(); self.matrix.rows.len()],
            original: self.original.clone(),
        }
    }

    /// Watches the CPUs and counts entries into the kernel, under the load of the first column.
    fn watch_entries(
        &self,
        row: &ExperimentRow,
        most: u64,
        place: Option<ShieldPlacement>,
    ) -> Result<TrialMeasurement, MachineTrouble<Failure>> {
        let WorkContext { ui, host, .. } = self.work;
        let kinds = self.matrix.columns.first().map(|column| column.load.clone());
        let load = LoadOptions::everywhere(kinds.unwrap_or_default());
        let shielded = place.as_ref().map_or_else(CpuSet::new, |_| self.cpus.shielded.clone());
        let load = load
            .request(self.work, &self.cpus.measured, &shielded)
            .map_err(|failure| MachineTrouble::Cell(failure.message))?;
        if let Some(group) = place.as_ref().and_then(|place| place.group.as_deref()) {
            check_move(host, group).map_err(|error| MachineTrouble::Cell(error.to_string()))?;
        }
        let mut load = LoadGenerator::start(host, &load)
            .map_err(|error| MachineTrouble::Cell(error.to_string()))?;
        load.begin();
        load.start_counting(host);
        let bar = ui.bar();
        let progress = |progress| match progress {
            WatchProgress::Watching { done, of, .. } => bar.show_progress(&row.name, done, of),
            _ => bar.show_task(&row.name),
        };
        let stop = || signal::stopped_by().is_some();
        let span = Duration::from_nanos(self.matrix.span_ns);
        let warmup = Duration::from_nanos(self.matrix.warmup_ns);
        let cgroup = place.and_then(|place| place.group);
        let order = WatchOrder::of_sampler(self.cpus.measured.clone(), span, &progress, &stop);
        let evidence = watch(host, &WatchOrder { warmup, cgroup, ..order });
        bar.end();
        load.stop_counting(host);
        let loads = load.end(host);
        if signal::stopped_by().is_some() {
            return Err(MachineTrouble::Stopped);
        }
        let evidence = evidence.map_err(|error| MachineTrouble::Cell(error.to_string()))?;
        let limits = VerifyLimits { max_entries: Some(most), ..VerifyLimits::default() };
        let verdict = judge(&evidence, &limits, &|_, _| RemedyAnswer::Unknown);
        let observation = doubt_load(observe(verdict.gates.first()), &loads);
        let document = Box::new(VerifyDocument::new(evidence, verdict));
        Ok(TrialMeasurement { observation, document: TrialDocument::Verify(document) })
    }
}

/// What a checked limit says about the goal.
fn observe<R: Display>(gate: Option<&Gate<R>>) -> GoalObservation {
    let doubtful = |why: &str| GoalObservation::Doubtful { why: why.to_owned() };
    let Some(gate) = gate else { return doubtful("the limit was not checked") };
    match (gate.held, gate.found.figure()) {
        (Some(true), Some(figure)) => GoalObservation::Met { figure },
        (Some(false), Some(figure)) => GoalObservation::Missed { figure },
        (Some(_), None) => doubtful("nothing was measured"),
        (None, _) => GoalObservation::Doubtful { why: gate.reasons() },
    }
}

/// A goal that was met under a doubtful load may be missed under that load. One that was missed
/// stays so.
fn doubt_load(observation: GoalObservation, loads: &[LoadDone]) -> GoalObservation {
    let doubt = loads.iter().find_map(|load| Some((load, load.doubts.first()?)));
    match (observation, doubt) {
        (GoalObservation::Met { .. }, Some((load, doubt))) => {
            let (load, doubt) = (load.name.clone(), doubt.clone());
            GoalObservation::Doubtful {
                why: LatencyDoubt::LoadDoubtful { load, doubt }.to_string(),
            }
        }
        (observation, _) => observation,
    }
}

impl ExperimentMachine for LiveSearchMachine<'_> {
    type Error = Failure;
    type Measured = TrialMeasurement;

    fn read_boot_id(&self) -> Result<String, Failure> {
        self.machine().read_boot_id()
    }

    fn undo_shield(&mut self) -> Result<(), Failure> {
        self.machine().undo_shield()
    }

    fn find_boot_mismatch(&mut self, boot: &RowBoot) -> Result<Option<BootMismatch>, Failure> {
        self.machine().find_boot_mismatch(boot)
    }

    fn enable_resume_at_boot(&mut self) -> Result<(), Failure> {
        self.machine().enable_resume_at_boot()
    }

    fn disable_resume_at_boot(&mut self) -> Result<(), Failure> {
        self.machine().disable_resume_at_boot()
    }

    fn prepare_boot(&mut self, boot: &RowBoot) -> Result<(), MachineTrouble<Failure>> {
        self.machine().prepare_boot(boot)
    }

    fn restore_boot_files(&mut self) -> Result<(), Failure> {
        self.machine().restore_boot_files()
    }

    fn reboot(&mut self) -> Result<(), Failure> {
        self.machine().reboot()
    }

    fn measure(
        &mut self,
        step: &MeasurementStep,
    ) -> Result<TrialMeasurement, MachineTrouble<Failure>> {
        let Some(row) = self.matrix.rows.get(step.row) else {
            return Err(Failure::new(FailureKind::Bug, "a step is outside the search").into());
        };
        let machine = self.machine();
        let (mut measured, refused) =
            machine.measure_in_row(row, &self.cpus, |place| match self.goal {
                SearchGoal::MaxEntries { count } => self.watch_entries(row, count, place),
                SearchGoal::MaxLatency { ns } => {
                    let Some(column) = self.matrix.columns.get(step.column) else {
                        return Err(MachineTrouble::Cell("there is no such column".to_owned()));
                    };
                    let cell = MeasuredCell { row, column, cpus: &self.cpus };
                    let limits = LatencyLimits { max_ns: Some(ns), ..LatencyLimits::default() };
                    let latency = machine.measure_cell(cell, limits, place)?;
                    let observation = observe(latency.gates.first());
                    let document = TrialDocument::Latency(Box::new(latency));
                    Ok(TrialMeasurement { observation, document })
                }
            })?;
        let refused = refused.into_iter().find(|tunable| row.tunables.contains_key(tunable));
        if let Some(tunable) = refused {
            // Not this configuration was measured.
            let why = LatencyNote::ChangeRefused { tunable }.to_string();
            measured.observation = GoalObservation::Doubtful { why };
        }
        Ok(measured)
    }
}

impl TrialMachine for LiveSearchMachine<'_> {
    fn set_trials(&mut self, rows: Vec<ExperimentRow>, schedule: &Schedule) {
        if let Some(row) = rows.last().filter(|_| rows.len() > self.announced) {
            self.announced = rows.len();
            self.work.ui.status(&format!("configuration {}: {}", rows.len(), row.name));
        }
        self.matrix.rows = rows;
        self.schedule = schedule.clone();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::documents::load_doubt::LoadDoubt;

    fn load(name: &str, doubts: Vec<LoadDoubt>) -> LoadDone {
        LoadDone {
            name: name.to_owned(),
            arguments: Vec::new(),
            what: String::new(),
            program: None,
            cpus: CpuSet::single(0),
            unit: "bytes".to_owned(),
            count: Some(0),
            per_s: None,
            span_ns: 1,
            doubts,
        }
    }

    #[test]
    fn a_goal_that_was_met_under_a_dead_load_is_doubtful() {
        let (met, missed) =
            (GoalObservation::Met { figure: 0 }, GoalObservation::Missed { figure: 9 });
        let dead = [load("messages", Vec::new()), load("disk", vec![LoadDoubt::DidNothing])];
        let why = "the load disk: it did nothing".to_owned();
        assert_eq!(doubt_load(met.clone(), &dead), GoalObservation::Doubtful { why });
        assert_eq!(doubt_load(missed.clone(), &dead), missed);
        assert_eq!(doubt_load(met.clone(), &dead[..1]), met);
    }
}
