//! The machine of an experiment: makes a row's configuration, measures a column in it and puts
//! everything back; goes to boots with other parameters and back.

use super::GlobalArgs;
use super::apply_with_fallback::{PlanOrigin, shield};
use super::loads::{LoadArgs, LoadCpus};
use super::standing;
use super::undo_watchdog::UndoWatchdog;
use crate::apply::{self, ApplyError};
use crate::boot::{self, BootError, line, loaders, plan as boot_plan, status, trial, write};
use crate::change::Outcome;
use crate::experiment::matrix::CPUS;
use crate::experiment::{
    ExperimentColumn, ExperimentMachine, ExperimentRow, MachineTrouble, Matrix, MeasurementStep,
    Schedule, unit,
};
use crate::failure::{Failure, FailureKind};
use crate::latency::{
    self, LatencyError, LatencyMeasurement, MeasureProgress, MeasureRequest, ThreadSpec,
    instruments,
};
use crate::plan::{Plan, plan};
use crate::policy::ShieldRequest;
use crate::report::table;
use crate::run::ShieldPlacement;
use crate::survey::survey;
use crate::tunables;
use crate::ui::Ui;
use cpushield_linux::{CpuSet, Host, SchedPolicy, Store, sched, signal};
use std::cell::Cell;
use std::collections::BTreeSet;
use std::path::absolute;
use std::time::Duration;

/// The name of its shields, by which its guard knows them.
pub(super) const NAME: &str = "experiment";
/// The priority of the thread with the shortest period.
const PRIORITY: u32 = 80;

/// The machine.
pub(super) struct LiveExperimentMachine<'a> {
    pub ui: &'a Ui,
    pub global: &'a GlobalArgs,
    pub host: &'a Host,
    pub store: Store,
    pub matrix: &'a Matrix,
    pub schedule: &'a Schedule,
    /// CPUs of the shield in rows that have one.
    pub shielded: CpuSet,
    /// CPUs that are measured.
    pub cpus: CpuSet,
    /// The kernel's line at the beginning.
    pub home: Option<String>,
}

impl LiveExperimentMachine<'_> {
    /// What a row wants of the running kernel.
    pub fn wish(matrix: &Matrix, row: &ExperimentRow, cpus: Option<CpuSet>) -> ShieldRequest {
        ShieldRequest {
            name: NAME.to_owned(),
            cpus,
            half_core: matrix.half_core,
            workload: matrix.workload,
            tunables: row.tunables.clone(),
            ..ShieldRequest::default()
        }
    }

    /// The parameters of a boot with the CPUs in their place.
    fn words(&self, words: &[String]) -> Vec<String> {
        let cpus = self.shielded.to_string();
        words.iter().map(|word| word.replace(CPUS, &cpus)).collect()
    }

    /// What the boot loader would be given; nothing is written.
    pub fn check_boot(&self, words: &[String]) -> Result<(), BootError> {
        let plan = self.boot_plan(&self.words(words))?;
        write::preview(self.host, &plan, true).map(drop)
    }

    fn boot_plan(&self, words: &[String]) -> Result<boot::BootPlan, BootError> {
        let menu = loaders::find(self.host)?;
        boot_plan::for_words(self.host, words, menu.as_ref())
    }

    fn has_systemd(&self) -> bool {
        self.host.exists("/run/systemd/system")
    }

    fn shield(
        &mut self,
        row: &ExperimentRow,
        column: &ExperimentColumn,
    ) -> Result<LatencyMeasurement, MachineTrouble<Failure>> {
        let machine = survey(self.host, &tunables::reads());
        let wish = LiveExperimentMachine::wish(self.matrix, row, Some(self.shielded.clone()));
        let plan =
            plan(&machine, &wish).map_err(|refused| MachineTrouble::Cell(refused.to_string()))?;
        keep_to(&machine.topology.online.minus(&plan.shield.cpus))?;
        let guard = UndoWatchdog::start(self.global)?;
        let origin = PlanOrigin { machine: &machine, wish: &wish };
        let latency = self.in_shield(plan, &origin, row, column);
        // It undoes what could not be undone here, when this process ends.
        match &latency {
            Err(MachineTrouble::Machine(_)) => drop(guard),
            _ => guard.dismiss(),
        }
        latency
    }

    fn in_shield(
        &self,
        plan: Plan,
        origin: &PlanOrigin<'_>,
        row: &ExperimentRow,
        column: &ExperimentColumn,
    ) -> Result<LatencyMeasurement, MachineTrouble<Failure>> {
        let (applied, plan) =
            shield(self.host, &self.store, plan, Some(origin), &mut |_| {}).map_err(applied)?;
        let place = ShieldPlacement::new(self.host, &plan);
        let latency = self.look(row, column, Some(place));
        // Whatever the measurement came to, the shield comes down first.
        let undone = apply::undo(self.host, &self.store).map_err(Failure::from)?;
        if !undone.is_complete() {
            let failed = undone.failed().map(|step| step.subject.clone()).collect::<Vec<_>>();
            let message = format!("could not be put back: {}", failed.join(", "));
            let failure = Failure::new(FailureKind::NotUndone, message);
            return Err(failure.hint("cpushield undo; then: cpushield experiment --resume").into());
        }
        let mut latency = latency?;
        let refused =
            |step: &&apply::AppliedStep| matches!(step.done.outcome, Outcome::Refused { .. });
        for step in applied.steps.iter().filter(refused) {
            latency.notes.push(format!("the kernel refused a change of {}", step.tunable));
        }
        Ok(latency)
    }

    fn look(
        &self,
        row: &ExperimentRow,
        column: &ExperimentColumn,
        place: Option<ShieldPlacement>,
    ) -> Result<LatencyMeasurement, MachineTrouble<Failure>> {
        let Some(instrument) = instruments::by_name(&column.instrument) else {
            return Err(MachineTrouble::Cell(format!("no instrument {}", column.instrument)));
        };
        let what = format!("{} × {}", row.name, column.name);
        // As programs have the machine: everywhere but on the shield.
        let asked = LoadArgs { load: column.load.clone(), load_cpus: LoadCpus::All };
        let shielded = place.as_ref().map_or_else(CpuSet::new, |_| self.shielded.clone());
        let load = asked
            .order(self.host, self.global, &self.cpus, &shielded)
            .map_err(|failure| MachineTrouble::Cell(failure.message))?;
        let bar = self.ui.bar();
        let worst = Cell::new(None::<u64>);
        let group = place.as_ref().and_then(|place| place.group.clone());
        let guard = place
            .map(|it| latency::ShieldMonitor::new(self.host, it.name, it.group, self.cpus.clone()));
        let measured = latency::measure(
            self.host,
            &MeasureRequest {
                instrument,
                cpus: self.cpus.clone(),
                threads: beats(column),
                span: Duration::from_nanos(self.matrix.span_ns),
                warmup: Duration::from_nanos(self.matrix.warmup_ns),
                over_ns: column.over_ns.clone(),
                max_ns: None,
                cgroup: group,
                guard,
                store: self.store.clone(),
                load,
                autosave: None,
                force: false,
                why: false,
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

    /// Whether what lies in the boot loader's files is this experiment's.
    fn is_ours(&self, journal: &boot::BootJournal) -> bool {
        let of = |boot: &Vec<String>| {
            let words = self.words(boot);
            journal.words.iter().all(|word| words.contains(word))
        };
        self.schedule.boots.iter().skip(1).any(of)
    }
}

impl ExperimentMachine for LiveExperimentMachine<'_> {
    type Error = Failure;

    fn boot_id(&self) -> Result<String, Failure> {
        Ok(self.host.read_line("/proc/sys/kernel/random/boot_id")?)
    }

    fn clean(&mut self) -> Result<(), Failure> {
        standing::undo_own(self.host, &self.store, &[NAME])
    }

    fn arrived(&mut self, words: &[String]) -> Result<Result<(), String>, Failure> {
        let now = self.host.read_line("/proc/cmdline")?;
        let words = self.words(words);
        let set = |text: &str| -> BTreeSet<String> {
            text.split_whitespace().map(str::to_owned).collect()
        };
        let (now_set, home) = (set(&now), set(self.home.as_deref().unwrap_or_default()));
        let lacks = |word: &&String| !line::has(&now, word);
        if let Some(word) = words.iter().find(lacks) {
            return Ok(Err(format!("this boot is without {word}")));
        }
        for word in &words {
            if let (shows, Some(false)) = status::read_effect(self.host, word) {
                let shows = shows.unwrap_or_default();
                return Ok(Err(format!("{word} is not in force: the kernel shows {shows}")));
            }
        }
        let given = |word: &&String| {
            words.contains(word) || !words.is_empty() && word.as_str() == trial::PANIC
        };
        let more: Vec<&str> =
            now_set.difference(&home).filter(|word| !given(word)).map(String::as_str).collect();
        let less: Vec<&str> = home.difference(&now_set).map(String::as_str).collect();
        Ok(match (more.as_slice(), less.as_slice()) {
            ([], []) => Ok(()),
            (more, []) => Err(format!("this boot has {} too", more.join(" "))),
            (_, less) => Err(format!("this boot is without {}", less.join(" "))),
        })
    }

    fn carry_on(&mut self, on: bool) -> Result<(), Failure> {
        if !on {
            return Ok(unit::remove(self.host)?);
        }
        if !self.has_systemd() {
            return Ok(());
        }
        let state = absolute(self.global.state_dir()).unwrap_or(self.global.state_dir());
        let program = self.host.read_link("/proc/self/exe")?;
        Ok(unit::install(self.host, &program, &state.display().to_string())?)
    }

    fn arm(&mut self, words: &[String]) -> Result<(), MachineTrouble<Failure>> {
        let words = self.words(words);
        self.ui.status(&format!("preparing a boot with {} …", words.join(" ")));
        let how = write::WriteMode { keep_default: true, trial: true, kexec: false, unit: None };
        let cell = |error: BootError| match error {
            BootError::Access(_) | BootError::Failed { undone: Some(_), .. } => {
                MachineTrouble::Machine(error.into())
            }
            error => MachineTrouble::Cell(error.to_string()),
        };
        let plan = self.boot_plan(&words).map_err(cell)?;
        let written = write::write(self.host, &self.store, &plan, &how).map_err(cell)?;
        match written.trial {
            Some(_) => Ok(()),
            None => Err(MachineTrouble::Cell("every boot has these parameters already".to_owned())),
        }
    }

    fn disarm(&mut self) -> Result<(), Failure> {
        // What `boot apply` wrote stays.
        if !boot::journal(&self.store)?.is_some_and(|journal| self.is_ours(&journal)) {
            return Ok(());
        }
        let undone = write::undo(self.host, &self.store)?.unwrap_or_default();
        for (path, fate) in &undone.files {
            if *fate == boot::FileFate::Drifted {
                self.ui.warn(&format!("another process changed {path}, so it is left as it is"));
            }
        }
        undone.notes.iter().for_each(|note| self.ui.warn(note));
        Ok(())
    }

    fn reboot(&mut self) -> Result<(), Failure> {
        self.ui.status("rebooting …");
        if self.has_systemd() {
            // A loader that is asked for one boot by the reboot itself.
            let armed = boot::journal(&self.store)?.and_then(|journal| journal.trial?.reboot);
            let argument = armed.map(|it| format!("--reboot-argument={it}"));
            let words: Vec<&str> = ["reboot"].into_iter().chain(argument.as_deref()).collect();
            return Ok(self.host.systemctl(&words)?);
        }
        Ok(self.host.run_program(&["reboot"]).map(drop)?)
    }

    fn measure(
        &mut self,
        step: &MeasurementStep,
    ) -> Result<LatencyMeasurement, MachineTrouble<Failure>> {
        if signal::stopped_by().is_some() {
            return Err(MachineTrouble::Stopped);
        }
        let row = self.matrix.rows.get(step.row);
        let column = self.matrix.columns.get(step.column);
        let (Some(row), Some(column)) = (row, column) else {
            return Err(Failure::new(FailureKind::Bug, "a step is outside of its matrix").into());
        };
        let home = sched::affinity(0).map_err(|e| Failure::machine(format!("no affinity: {e}")))?;
        let latency =
            if row.shield { self.shield(row, column) } else { self.look(row, column, None) };
        keep_to(&home)?;
        latency
    }
}

/// This process, and what it starts, stays on these CPUs.
fn keep_to(cpus: &CpuSet) -> Result<(), Failure> {
    sched::set_affinity(0, cpus)
        .map_err(|e| Failure::machine(format!("cannot keep to CPU {cpus}: {e}")))
}

/// A shield that cannot be made costs a cell; one that cannot be taken back costs the experiment.
fn applied(error: ApplyError) -> MachineTrouble<Failure> {
    let failure = Failure::from(error);
    match failure.kind {
        FailureKind::Undone => MachineTrouble::Cell(failure.message),
        _ => MachineTrouble::Machine(failure),
    }
}

/// The threads of each CPU: the shorter the period, the higher the priority, as LinuxCNC has them.
fn beats(column: &ExperimentColumn) -> Vec<ThreadSpec> {
    let beat = |(below, period_ns): (u32, &u64)| {
        let priority = PRIORITY.saturating_sub(below).max(1);
        let policy = if column.other {
            SchedPolicy::Other { nice: 0 }
        } else {
            SchedPolicy::Fifo { priority }
        };
        ThreadSpec { period_ns: *period_ns, policy }
    };
    (0..).zip(&column.periods_ns).map(beat).collect()
}
