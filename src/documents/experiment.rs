//! The [`Experiment`] document: rows are configurations, columns are measurements, and each cell
//! has the figures of every repetition.

mod dry_run;
mod reason;
mod row_boot;
mod row_isolation;

pub(crate) use dry_run::SCHEMA as DRY_RUN_SCHEMA;
pub use dry_run::{BootPeriod, DryRun, DryRunRow};
pub use reason::{
    BestEvidence, BootMismatch, ComparedUnit, EffectEvidence, ExperimentNote, UnmeasuredReason,
};
pub use row_boot::RowBoot;
pub use row_isolation::RowIsolation;

use crate::documents::latency::{
    IsolationCheck, LatencyDoubt, MeasuredPower, OverLimit, Percentile,
};
use crate::policy::TunableSettings;
use cpushield_linux::CpuSet;
use serde::{Deserialize, Serialize};

/// The version of the document's format.
pub const SCHEMA: u32 = 1;

/// The results of an experiment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Experiment {
    /// The version of this format: [`SCHEMA`].
    pub schema: u32,
    /// The name of the experiment.
    pub name: String,
    /// The version of cpushield that ran it.
    pub version: String,
    /// Whether it is unfinished, finished or stopped.
    pub state: ExperimentState,
    /// When it started, in seconds since 1970.
    pub began_s: u64,
    /// When it ended; `None` while it is unfinished.
    pub ended_s: Option<u64>,
    /// The CPUs that were measured in any row.
    pub cpus: CpuSet,
    /// The duration of each measurement in nanoseconds.
    pub span_ns: u64,
    /// The duration of the warm-up in nanoseconds.
    pub warmup_ns: u64,
    /// How often each cell is measured.
    pub repeats: usize,
    /// How often each set of kernel parameters is booted.
    pub boots: usize,
    /// The machine and its software, before the first row.
    pub setup: ExperimentSetup,
    /// The configurations, in the order of the file; the first one is the base.
    pub rows: Vec<ExperimentRow>,
    /// The measurements, in the order of the file.
    pub columns: Vec<ExperimentColumn>,
    /// One for each row and column, row by row.
    pub cells: Vec<ExperimentCell>,
    /// The best row of each track.
    pub best: Vec<BestRow>,
    /// The effect of each option alone: of rows that differ by one option.
    pub effects: Vec<OptionEffect>,
    /// Remarks.
    #[serde(with = "crate::with_text::TextList::<ExperimentNote>")]
    pub notes: Vec<ExperimentNote>,
}

/// Whether an experiment is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ExperimentState {
    /// It runs, or waits for `cpushield experiment --resume`.
    Unfinished,
    /// Every cell was measured or has a reason why not. The machine is in its original state.
    Finished,
    /// It was stopped early. The machine is in its original state.
    Stopped,
}

/// The machine and its software, so that a reader can repeat the experiment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ExperimentSetup {
    /// The machine's maker and name (`/sys/class/dmi/id`).
    /// `None` where the firmware does not name them.
    pub machine: Option<String>,
    /// Its board.
    pub board: Option<String>,
    /// Version and date of its firmware.
    pub firmware: Option<String>,
    /// The processor.
    pub processor: Option<String>,
    /// The distribution (`/etc/os-release`).
    pub distribution: Option<String>,
    /// The kernel's release.
    pub kernel: Option<String>,
    /// Whether it is a PREEMPT_RT kernel.
    pub realtime: Option<bool>,
    /// The kernel parameters of every row: those of the boot in which it started.
    pub cmdline: Option<String>,
    /// The hypervisor; `None` on real hardware.
    pub hypervisor: Option<String>,
    /// The memory in KiB; `None` when it cannot be read.
    pub memory_kib: Option<u64>,
    /// The power management of the measured CPUs before the first row.
    pub power: MeasuredPower,
    /// Visible settings of firmware and hardware: SMT, turbo, deep idle states and similar ones.
    pub settings: Vec<String>,
}

/// One configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ExperimentRow {
    /// Its name.
    pub name: String,
    /// The CPUs that are measured in it.
    pub cpus: CpuSet,
    /// Whether the CPUs are shielded.
    pub shield: bool,
    /// What it says about tunables: `true`, `false`, or a value.
    pub tunables: TunableSettings,
    /// Its kernel, by its release; `None` is the one of the boot in which the experiment began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// Its kernel parameters, together with those of every row.
    pub boot: Vec<String>,
    /// Whether its CPUs were isolated.
    #[serde(with = "crate::with_text::WithText::<RowIsolation>")]
    pub isolation: RowIsolation,
    /// Why it was not measured, or not completely; `None` when nothing is missing.
    #[serde(with = "crate::with_text::option")]
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Option<crate::with_text::WithText<UnmeasuredReason>>")
    )]
    pub missing: Option<UnmeasuredReason>,
}

/// One measurement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ExperimentColumn {
    /// Its name.
    pub name: String,
    /// The instrument: `timer` or another one.
    pub instrument: String,
    /// The threads of each CPU by their periods in nanoseconds, shortest first; a single 0 for
    /// threads that never sleep.
    pub periods_ns: Vec<u64>,
    /// Ordinary threads (`SCHED_OTHER`) instead of real-time ones.
    pub other: bool,
    /// Limits in nanoseconds; latencies over each are counted.
    pub over_ns: Vec<u64>,
    /// The loads on the other CPUs during the measurement.
    pub load: Vec<String>,
}

/// One row under one column.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ExperimentCell {
    /// The index of the row.
    pub row: usize,
    /// The index of the column.
    pub column: usize,
    /// The repetitions, in the order they were made.
    pub runs: Vec<ExperimentRun>,
    /// The repetitions that were not measured, each with the reason.
    pub missing: Vec<MissedRepetition>,
}

/// One measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ExperimentRun {
    /// The number of the repetition, from 0.
    pub round: usize,
    /// When it started, in seconds since 1970.
    pub began_s: u64,
    /// Its span in nanoseconds.
    pub span_ns: u64,
    /// The kernel's release.
    pub kernel: Option<String>,
    /// The boot that it was measured in (`/proc/sys/kernel/random/boot_id`); `None` when unknown.
    pub boot: Option<String>,
    /// Whether the shield was in force at every check; `None` without a shield, and when nothing of
    /// it can be checked.
    pub held: Option<bool>,
    /// What three witnesses showed of the isolation before the measurement; `None` when they were
    /// not asked.
    pub isolation: Option<IsolationCheck>,
    /// One for each period, as in the column.
    pub tracks: Vec<ThreadTrack>,
    /// The throughput of each load during the measurement.
    pub loads: Vec<LoadAchieved>,
    /// What makes the figures doubtful.
    #[serde(with = "crate::with_text::TextList::<LatencyDoubt>")]
    pub doubts: Vec<LatencyDoubt>,
    /// The tunables with a change that the kernel refused.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<String>,
    /// The file with the whole `latency` document, in the state directory.
    pub file: String,
}

/// The figures of the threads of one period on all CPUs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ThreadTrack {
    /// The period in nanoseconds; 0 for threads that never sleep.
    pub period_ns: u64,
    /// The number of events on all CPUs.
    pub samples: u64,
    /// The number of missed periods on all CPUs.
    pub missed: u64,
    /// The mean latency of all events on all CPUs; `None` without events on one of them.
    pub mean_ns: Option<u64>,
    /// The longest latency of any CPU; where none reached the threshold of the instrument, that
    /// threshold. `None` without events on a CPU of another instrument.
    pub max_ns: Option<u64>,
    /// The max jitter of the worst CPU, as LinuxCNC's latency test defines it.
    pub jitter_ns: Option<u64>,
    /// Percentiles, each of the CPU where it is longest.
    pub percentiles: Vec<Percentile>,
    /// The number of latencies over each limit on all CPUs.
    pub over: Vec<OverLimit>,
}

/// The throughput of a load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LoadAchieved {
    /// The load.
    pub load: String,
    /// How much per second; `None` when it is unknown.
    pub per_s: Option<f64>,
    /// The unit: `messages`, `bytes`.
    pub unit: String,
}

/// A repetition that was not measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MissedRepetition {
    /// Its number, from 0.
    pub round: usize,
    /// The reason.
    #[serde(with = "crate::with_text::WithText::<UnmeasuredReason>")]
    pub why: UnmeasuredReason,
}

/// The figure by which rows are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum RankedFigure {
    /// [`ThreadTrack::jitter_ns`], where every run has one.
    MaxJitter,
    /// [`ThreadTrack::max_ns`].
    Worst,
}

/// The best row of one column and period.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BestRow {
    /// The column.
    pub column: usize,
    /// The period of its threads.
    pub period_ns: u64,
    /// The figure that is compared.
    pub figure: RankedFigure,
    /// The row that is significantly better than every other; `None` when there is none.
    pub winner: Option<usize>,
    /// The row with the lowest figure, then those that do not differ from it significantly.
    pub among: Vec<usize>,
    /// What that is based on.
    #[serde(with = "crate::with_text::WithText::<BestEvidence>")]
    pub why: BestEvidence,
}

/// The effect of one option alone.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OptionEffect {
    /// The option: `shield`, `watchdog off`, `nohz_full=3`.
    pub option: String,
    /// The row without it.
    pub without: usize,
    /// The row with it, which differs in nothing else.
    pub with: usize,
    /// The column.
    pub column: usize,
    /// The period of its threads.
    pub period_ns: u64,
    /// The figure that is compared.
    pub figure: RankedFigure,
    /// The figure with it divided by the figure without it: below 1 is better. `None` when one of
    /// them was not measured.
    pub ratio: Option<f64>,
    /// The meaning of the ratio.
    pub verdict: EffectMeaning,
    /// What that is based on.
    #[serde(with = "crate::with_text::WithText::<EffectEvidence>")]
    pub why: EffectEvidence,
}

/// The meaning of a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum EffectMeaning {
    /// Significantly shorter.
    Better,
    /// Significantly longer.
    Worse,
    /// It may be chance.
    Chance,
    /// There is too little data.
    Unknown,
}

impl ExperimentRun {
    /// Whether its figures are doubtful.
    #[must_use]
    pub fn is_doubtful(&self) -> bool {
        !self.doubts.is_empty() || self.held == Some(false)
    }

    /// The threads of this period.
    #[must_use]
    pub fn track(&self, period_ns: u64) -> Option<&ThreadTrack> {
        self.tracks.iter().find(|track| track.period_ns == period_ns)
    }
}

impl ThreadTrack {
    /// One of its figures, in nanoseconds.
    #[must_use]
    pub fn figure(&self, figure: RankedFigure) -> Option<u64> {
        match figure {
            RankedFigure::MaxJitter => self.jitter_ns,
            RankedFigure::Worst => self.max_ns,
        }
    }
}

impl Experiment {
    /// Whether the figures of a cell are doubtful: those of a run, or the configuration of the row.
    #[must_use]
    pub fn is_doubtful(&self, row: usize, column: usize) -> bool {
        let row_is_doubtful = self.rows.get(row).is_some_and(|row| row.isolation.is_doubtful());
        row_is_doubtful || self.runs(row, column).iter().any(ExperimentRun::is_doubtful)
    }

    /// Whether the kernel refused a change of this tunable in a repetition of a row.
    #[must_use]
    pub fn was_refused(&self, row: usize, column: usize, tunable: &str) -> bool {
        let mut refused = self.runs(row, column).iter().flat_map(|run| &run.refused);
        refused.any(|refused| refused == tunable)
    }

    /// Whether repetitions of a row failed in a column: those that were measured are a selection.
    #[must_use]
    pub fn has_failed(&self, row: usize, column: usize) -> bool {
        self.cell(row, column)
            .is_some_and(|cell| cell.missing.iter().any(|missed| missed.why.is_failure()))
    }

    /// The mean latency of all repetitions of a row, in nanoseconds; `None` when one is unknown.
    #[must_use]
    pub fn mean_ns(&self, row: usize, (column, period_ns): (usize, u64)) -> Option<u64> {
        let tracks = self.runs(row, column).iter().filter_map(|run| run.track(period_ns));
        let (mut sum, mut samples) = (0_u128, 0_u128);
        for track in tracks {
            sum += u128::from(track.mean_ns?) * u128::from(track.samples);
            samples += u128::from(track.samples);
        }
        u64::try_from(sum.checked_div(samples)?).ok()
    }

    /// The cell of a row and a column.
    #[must_use]
    pub fn cell(&self, row: usize, column: usize) -> Option<&ExperimentCell> {
        self.cells.iter().find(|cell| cell.row == row && cell.column == column)
    }

    /// The runs of a cell.
    #[must_use]
    pub fn runs(&self, row: usize, column: usize) -> &[ExperimentRun] {
        self.cell(row, column).map(|cell| cell.runs.as_slice()).unwrap_or_default()
    }

    /// Every column with each of its periods: the columns of the printed table.
    #[must_use]
    pub fn tracks(&self) -> Vec<(usize, u64)> {
        let columns = self.columns.iter().enumerate();
        columns
            .flat_map(|(n, column)| column.periods_ns.iter().map(move |period| (n, *period)))
            .collect()
    }

    /// The figure by which the rows of a track are compared: the max jitter if every run has one.
    #[must_use]
    pub fn figure(&self, (column, period_ns): (usize, u64)) -> RankedFigure {
        let cells = self.cells.iter().filter(|cell| cell.column == column);
        let mut tracks = cells.flat_map(|cell| &cell.runs).filter_map(|run| run.track(period_ns));
        if period_ns > 0 && tracks.all(|track| track.jitter_ns.is_some()) {
            RankedFigure::MaxJitter
        } else {
            RankedFigure::Worst
        }
    }

    /// The figure of every repetition, in nanoseconds, in the order they were made.
    #[must_use]
    pub fn figures(&self, row: usize, (column, period_ns): (usize, u64)) -> Vec<u64> {
        let figure = self.figure((column, period_ns));
        let tracks = self.runs(row, column).iter().filter_map(|run| run.track(period_ns));
        tracks.filter_map(|track| track.figure(figure)).collect()
    }

    /// The mean throughput of each load of a cell over its repetitions: the name of the load, its
    /// unit, and how much per second.
    #[must_use]
    pub fn mean_throughputs(&self, row: usize, column: usize) -> Vec<(String, String, f64)> {
        let mut all: Vec<(String, String, Vec<f64>)> = Vec::new();
        for achieved in self.runs(row, column).iter().flat_map(|run| &run.loads) {
            let Some(per_s) = achieved.per_s else { continue };
            match all.iter_mut().find(|(load, ..)| *load == achieved.load) {
                Some((.., found)) => found.push(per_s),
                None => all.push((achieved.load.clone(), achieved.unit.clone(), vec![per_s])),
            }
        }
        all.into_iter().map(|(load, unit, found)| (load, unit, mean(&found))).collect()
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}
