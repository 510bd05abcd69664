//! The live machine of an experiment: applies the configuration of a row, measures a column and
//! undoes everything. It also boots with other parameters and returns to the original boot.

use super::apply_shield::warn_of_nohz_full;
use super::apply_with_fallback::{PlanOrigin, apply_or_fall_back};
use super::load_options::LoadOptions;
use super::root_files::{RootFile, warn_of_other_users};
use super::undo_watchdog::{EXPERIMENT_SHIELD, UndoWatchdog};
use super::{WorkContext, absolute_path, active_shields, step_aside};
use crate::apply::{self, ApplyError};
use crate::boot::parameter_effect::ParameterEffect;
use crate::boot::{
    self, BootError, GivenWords, WordSource, line, loaders, plan as boot_plan, write,
};
use crate::change::Outcome;
use crate::documents::count_text::joined;
use crate::documents::experiment::{
    BootMismatch, ExperimentColumn, ExperimentRow, ExperimentSetup, RowBoot,
};
use crate::documents::latency::{LatencyMeasurement, LatencyNote};
use crate::documents::plan::Plan;
use crate::experiment::{
    ExperimentMachine, MachineTrouble, Matrix, MeasurementStep, RowCpus, Schedule, unit,
};
use crate::failure::{Failure, FailureKind};
use crate::latency::{
    self, IsolationChecking, LatencyError, MeasureProgress, MeasureRequest, ThreadSpec, instruments,
};
use crate::plan::plan;
use crate::policy::{LatencyLimits, ShieldRequest};
use crate::report::table;
use crate::run::{ShieldPlacement, check_move};
use crate::survey::{survey, survey_boot};
use crate::tunables;
use cpushield_linux::{CpuSet, sys::signal};
use std::cell::Cell;
use std::time::Duration;

/// The machine that an experiment runs on.
pub struct LiveExperimentMachine<'a> {
    pub work: &'a WorkContext<'a>,
    pub matrix: &'a Matrix,
    pub schedule: &'a Schedule,
    /// The CPUs of each row.
    pub row_cpus: Vec<RowCpus>,
    /// The boot in which the experiment began.
    pub original: OriginalBoot,
}

/// The boot in which an experiment began.
#[derive(Debug, Clone, Default)]
pub struct OriginalBoot {
    /// The kernel's release.
    kernel: Option<String>,
    /// Its command line.
    cmdline: Option<String>,
}

impl OriginalBoot {
    /// The boot that the setup of an experiment describes.
    pub fn of(setup: &ExperimentSetup) -> OriginalBoot {
        OriginalBoot { kernel: setup.kernel.clone(), cmdline: setup.cmdline.clone() }
    }
}

/// The shield that a row requests of the running kernel.
pub fn request_for_row(
    matrix: &Matrix,
    row: &ExperimentRow,
    cpus: Option<CpuSet>,
) -> ShieldRequest {
    ShieldRequest {
        name: EXPERIMENT_SHIELD.to_owned(),
        cpus,
        siblings: matrix.siblings,
        workload: matrix.workload,
        tunables: row.tunables.clone(),
        ..ShieldRequest::default()
    }
}

/// A row with its CPUs, and a column.
#[derive(Debug, Clone, Copy)]
pub struct MeasuredCell<'a> {
    /// The row.
    pub row: &'a ExperimentRow,
    /// The column.
    pub column: &'a ExperimentColumn,
    /// The CPUs of the row.
    pub cpus: &'a RowCpus,
}

/// An experiment boots its parameters once and never keeps them.
const TRIAL_MODE: write::WriteMode = write::WriteMode {
    default_entry: write::DefaultEntry::Kept,
    term: write::ParameterTerm::Trial,
    start: write::EntryStart::BootLoader,
    program: None,
    until: None,
};

impl LiveExperimentMachine<'_> {
    /// Checks that the boot loader can be given this boot, without writing anything.
    pub fn check_boot(&self, boot: &RowBoot) -> Result<(), BootError> {
        let plan = self.boot_plan(boot)?;
        write::preview(&self.work.host, &self.work.store, &plan, &TRIAL_MODE).map(drop)
    }

    fn boot_plan(&self, boot: &RowBoot) -> Result<boot::BootPlan, BootError> {
        let menu = loaders::find(&self.work.host)?;
        // The machine may run another kernel of the experiment now.
        let kernel = boot.kernel.as_deref().or(self.original.kernel.as_deref());
        let machine = survey_boot(&self.work.host);
        let words = GivenWords::of_row(&machine, kernel, &boot.words());
        boot_plan::plan(&self.work.host, &machine, WordSource::Given(&words), menu.as_ref())
    }

    /// Measures in the configuration of a row. Returns the measurement, and the tunables whose
    /// changes the kernel refused.
    pub fn measure_in_row<T>(
        &self,
        row: &ExperimentRow,
        cpus: &RowCpus,
        measure: impl FnOnce(Option<ShieldPlacement>) -> Result<T, MachineTrouble<Failure>>,
    ) -> Result<(T, Vec<String>), MachineTrouble<Failure>> {
        if signal::stopped_by().is_some() {
            return Err(MachineTrouble::Stopped);
        }
        if !row.shield {
            return measure(None).map(|measured| (measured, Vec::new()));
        }
        let machine = survey(&self.work.host, &tunables::reads());
        let request = request_for_row(self.matrix, row, Some(cpus.shielded.clone()));
        let plan = plan(&machine, &request)
            .map_err(|refused| MachineTrouble::Cell(refused.to_string()))?;
        let rest = machine.topology.online.difference(&plan.shield.cpus);
        let _aside = step_aside(&self.work.host, &rest)?;
        let watchdog = UndoWatchdog::start(self.work, EXPERIMENT_SHIELD)?;
        let origin = PlanOrigin { machine: &machine, request: &request, choice: None };
        let measured = self.apply_and_measure(plan, &origin, measure);
        // When this process ends, the watchdog undoes what could not be undone here.
        match &measured {
            Err(MachineTrouble::Machine(_)) => drop(watchdog),
            _ => watchdog.dismiss(),
        }
        measured
    }

    fn apply_and_measure<T>(
        &self,
        plan: Plan,
        origin: &PlanOrigin<'_>,
        measure: impl FnOnce(Option<ShieldPlacement>) -> Result<T, MachineTrouble<Failure>>,
    ) -> Result<(T, Vec<String>), MachineTrouble<Failure>> {
        let (applied, plan) = apply_or_fall_back(
            (&self.work.host, &self.work.store),
            apply::apply,
            plan,
            Some(origin),
            &mut |_| {},
        )
        .map_err(classify_apply_error)?;
        warn_of_nohz_full(self.work);
        let place = ShieldPlacement::new(&self.work.host, &plan);
        let name = Some(plan.shield.name.as_str());
        let measured = measure(Some(place));
        // Take the shield down first, even if the measurement failed.
        let undone = apply::undo(&self.work.host, &self.work.store, name).map_err(Failure::from)?;
        if !undone.is_complete() {
            let failed = joined(undone.failed().map(|step| &step.subject), ", ");
            let message = format!("could not restore: {failed}");
            let failure = Failure::new(FailureKind::NotUndone, message);
            return Err(failure.hint("cpushield undo; then: cpushield experiment --resume").into());
        }
        let steps = applied.steps.iter();
        let refused = steps.filter(|step| matches!(step.done.outcome, Outcome::Refused { .. }));
        Ok((measured?, refused.map(|step| step.tunable.clone()).collect()))
    }

    /// Measures a column on the machine as it is now.
    pub fn measure_cell(
        &self,
        cell: MeasuredCell<'_>,
        limits: LatencyLimits,
        place: Option<ShieldPlacement>,
    ) -> Result<LatencyMeasurement, MachineTrouble<Failure>> {
        let MeasuredCell { row, column, cpus } = cell;
        let Some(instrument) = instruments::named(&column.instrument) else {
            return Err(MachineTrouble::Cell(format!("unknown instrument {}", column.instrument)));
        };
        let what = format!("{} × {}", row.name, column.name);
        // The load runs where ordinary programs run: on every CPU outside the shield.
        let load = LoadOptions::everywhere(column.load.clone());
        let shielded = place.as_ref().map_or_else(CpuSet::new, |_| cpus.shielded.clone());
        let load = load
            .request(self.work, &cpus.measured, &shielded)
            .map_err(|failure| MachineTrouble::Cell(failure.message))?;
        let bar = self.work.ui.bar();
        let worst = Cell::new(None::<u64>);
        let group = place.as_ref().and_then(|place| place.group.clone());
        if let Some(group) = group.as_deref() {
            check_move(&self.work.host, group)
                .map_err(|error| MachineTrouble::Cell(error.to_string()))?;
        }
        let guard = place.map(|place| {
            latency::ShieldMonitor::new(
                &self.work.host,
                place.name,
                place.group,
                cpus.measured.clone(),
            )
        });
        let measured = latency::measure(
            &self.work.host,
            &MeasureRequest {
                instrument,
                cpus: cpus.measured.clone(),
                threads: thread_specs(column),
                span: Duration::from_nanos(self.matrix.span_ns),
                warmup: Duration::from_nanos(self.matrix.warmup_ns),
                over_ns: column.over_ns.clone(),
                limits,
                cgroup: group,
                guard,
                store: self.work.store.clone(),
                load,
                autosave: None,
                force: false,
                why: false,
                isolation: IsolationChecking::Checked,
                progress: &|progress| match progress {
                    MeasureProgress::Starting => bar.show_task(&what),
                    MeasureProgress::Measuring { done, of, worst_ns } => {
                        worst.set(worst.get().max(worst_ns));
                        let so_far = worst
                            .get()
                            .map_or_else(String::new, |ns| format!(", worst {}", table::span(ns)));
                        bar.show_progress(&format!("{what}{so_far}"), done, of);
                    }
                },
                stop: &|| signal::stopped_by().is_some(),
            },
        );
        bar.end();
        match measured {
            Ok(_) if signal::stopped_by().is_some() => Err(MachineTrouble::Stopped),
            Ok(latency) => Ok(latency),
            Err(LatencyError::Linux(error)) => Err(Failure::from(error).into()),
            Err(error) => Err(MachineTrouble::Cell(error.to_string())),
        }
    }

    /// Whether this experiment wrote the parameters in the boot loader's files.
    fn wrote_boot_parameters(&self, journal: &boot::BootJournal) -> bool {
        self.schedule
            .boots
            .iter()
            .skip(1)
            .any(|boot| journal.words.iter().all(|word| boot.words().contains(word)))
    }
}

impl ExperimentMachine for LiveExperimentMachine<'_> {
    type Error = Failure;
    type Measured = LatencyMeasurement;

    fn read_boot_id(&self) -> Result<String, Failure> {
        Ok(self.work.host.read_line("/proc/sys/kernel/random/boot_id")?)
    }

    fn undo_shield(&mut self) -> Result<(), Failure> {
        active_shields::undo_named(&self.work.host, &self.work.store, EXPERIMENT_SHIELD)
    }

    fn find_boot_mismatch(&mut self, boot: &RowBoot) -> Result<Option<BootMismatch>, Failure> {
        let release = self.work.host.read_line("/proc/sys/kernel/osrelease")?;
        let kernel = boot.kernel.as_ref().or(self.original.kernel.as_ref());
        if kernel.is_some_and(|kernel| *kernel != release) {
            return Ok(Some(BootMismatch::OtherKernel { release }));
        }
        let now = self.work.host.read_line("/proc/cmdline")?;
        let wanted = boot.words();
        if let Some(parameter) = wanted.iter().find(|parameter| !line::has(&now, parameter)) {
            return Ok(Some(BootMismatch::Absent { parameters: vec![parameter.clone()] }));
        }
        for parameter in &wanted {
            let effect = ParameterEffect::read(&self.work.host, parameter);
            if effect.in_force == Some(false) {
                let (parameter, shows) = (parameter.clone(), effect.shows.unwrap_or_default());
                return Ok(Some(BootMismatch::NotInForce { parameter, shows }));
            }
        }
        let now = line::words_without_files(&now);
        let original = self.original.cmdline.as_deref().unwrap_or_default();
        let original = line::words_without_files(original);
        let mut added: Vec<&str> = now.difference(&original).copied().collect();
        added.retain(|word| {
            let is_trial = !wanted.is_empty() && *word == write::PANIC;
            !is_trial && !wanted.iter().any(|parameter| parameter == word)
        });
        let removed: Vec<&str> = original.difference(&now).copied().collect();
        Ok(match (added.as_slice(), removed.as_slice()) {
            ([], []) => None,
            (_, [_, ..]) => Some(BootMismatch::Absent { parameters: to_strings(&removed) }),
            (_, []) => Some(BootMismatch::Added { parameters: to_strings(&added) }),
        })
    }

    fn enable_resume_at_boot(&mut self) -> Result<(), Failure> {
        if !self.work.host.has_systemd() {
            return Ok(());
        }
        let state = absolute_path(&self.work.state_dir);
        let program = self.work.host.read_link("/proc/self/exe")?;
        warn_of_other_users(self.work, RootFile::Program(&program), "each boot of the experiment");
        Ok(unit::install(&self.work.host, &program, &state)?)
    }

    fn disable_resume_at_boot(&mut self) -> Result<(), Failure> {
        Ok(unit::remove(&self.work.host)?)
    }

    fn prepare_boot(&mut self, boot: &RowBoot) -> Result<(), MachineTrouble<Failure>> {
        self.work.ui.status(&format!("preparing a boot with {boot} …"));
        let written = self
            .boot_plan(boot)
            .and_then(|plan| write::write(&self.work.host, &self.work.store, &plan, &TRIAL_MODE))
            .map_err(classify_boot_error)?;
        match written.trial {
            Some(_) => Ok(()),
            None => Err(MachineTrouble::Cell("every boot already has these parameters".to_owned())),
        }
    }

    fn restore_boot_files(&mut self) -> Result<(), Failure> {
        // Keep parameters that `boot apply` wrote.
        if !boot::read_journal(&self.work.store)?
            .is_some_and(|journal| self.wrote_boot_parameters(&journal))
        {
            return Ok(());
        }
        let undone = write::undo(&self.work.host, &self.work.store)?.unwrap_or_default();
        for (path, fate) in &undone.files {
            if *fate == boot::FileFate::Drifted {
                self.work.ui.warn(&format!(
                    "another process changed {path}, so cpushield left it unchanged"
                ));
            }
        }
        for note in &undone.notes {
            self.work.ui.warn(&note.to_string());
        }
        Ok(())
    }

    fn reboot(&mut self) -> Result<(), Failure> {
        self.work.ui.status("rebooting …");
        if self.work.host.has_systemd() {
            // Some loaders take the entry of a one-time boot as an argument of the reboot.
            let entry =
                boot::read_journal(&self.work.store)?.and_then(|journal| journal.trial?.reboot);
            let argument = entry.map(|entry| format!("--reboot-argument={entry}"));
            let args: Vec<&str> = ["reboot"].into_iter().chain(argument.as_deref()).collect();
            let answer = self.work.host.systemctl(&args);
            // The shutdown that it starts can end `systemctl` before that returns.
            if answer.is_err() && self.work.host.systemd_shuts_down().unwrap_or(false) {
                return Ok(());
            }
            return Ok(answer?);
        }
        Ok(self.work.host.run_program(&["reboot"]).map(drop)?)
    }

    fn measure(
        &mut self,
        step: &MeasurementStep,
    ) -> Result<LatencyMeasurement, MachineTrouble<Failure>> {
        let row = self.matrix.rows.get(step.row);
        let column = self.matrix.columns.get(step.column);
        let cpus = self.row_cpus.get(step.row);
        let (Some(row), Some(column), Some(cpus)) = (row, column, cpus) else {
            return Err(Failure::new(FailureKind::Bug, "a step is outside the matrix").into());
        };
        let cell = MeasuredCell { row, column, cpus };
        let (mut latency, refused) = self.measure_in_row(row, cpus, |place| {
            self.measure_cell(cell, LatencyLimits::default(), place)
        })?;
        let refused = refused.into_iter();
        latency.notes.extend(refused.map(|tunable| LatencyNote::ChangeRefused { tunable }));
        Ok(latency)
    }
}

fn to_strings(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// A shield that cannot be applied fails the cell. One that cannot be undone ends the experiment.
fn classify_apply_error(error: ApplyError) -> MachineTrouble<Failure> {
    let failure = Failure::from(error);
    match failure.kind {
        FailureKind::Undone => MachineTrouble::Cell(failure.message),
        _ => MachineTrouble::Machine(failure),
    }
}

/// Boot parameters that cannot be written fail the cell. Files in an unknown state end the
/// experiment.
fn classify_boot_error(error: BootError) -> MachineTrouble<Failure> {
    match error {
        BootError::Access(_) | BootError::Failed { undone: Some(_), .. } => {
            MachineTrouble::Machine(error.into())
        }
        error => MachineTrouble::Cell(error.to_string()),
    }
}

/// The threads on each CPU.
pub(super) fn thread_specs(column: &ExperimentColumn) -> Vec<ThreadSpec> {
    match column.other {
        true => latency::ordinary_threads(&column.periods_ns),
        false => latency::real_time_threads(&column.periods_ns, latency::PRIORITY),
    }
}
