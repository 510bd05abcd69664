//! The [`Experiment`] document: rows are configurations, columns measurements, and each cell has
//! what every repetition found. Plain data, and the few questions that everybody asks it.

use cpushield_linux::CpuSet;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

use crate::latency::{OverLimit, Percentile};

/// The version of the document's form.
pub const SCHEMA: u32 = 1;

/// What the rows and columns of an experiment came to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Experiment {
    /// The version of this form: [`SCHEMA`].
    pub schema: u32,
    /// The name of the experiment.
    pub name: String,
    /// The version of cpushield that ran it.
    pub version: String,
    /// Whether it goes on, has ended, or was stopped.
    pub state: ExperimentState,
    /// When it began, in seconds since 1970.
    pub began_s: u64,
    /// When it ended; `None` while it goes on.
    pub ended_s: Option<u64>,
    /// The CPUs that were measured, the same in every row.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub cpus: CpuSet,
    /// How long each measurement takes, in nanoseconds.
    pub span_ns: u64,
    /// How long the threads run before anything counts, in nanoseconds.
    pub warmup_ns: u64,
    /// How often each cell is measured.
    pub repeats: usize,
    /// How often each configuration of boot parameters is booted.
    pub boots: usize,
    /// What was measured on, before the first row.
    pub setup: ExperimentSetup,
    /// The configurations, in the order of the file; the first one is the base.
    pub rows: Vec<ExperimentRow>,
    /// The measurements, in the order of the file.
    pub columns: Vec<ExperimentColumn>,
    /// One for each row and column, row by row.
    pub cells: Vec<ExperimentCell>,
    /// Which row is best, for each track.
    pub best: Vec<BestRow>,
    /// What each option does alone: rows that differ by one option.
    pub effects: Vec<OptionEffect>,
    /// What is good to know.
    pub notes: Vec<String>,
}

/// How far an experiment is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ExperimentState {
    /// It goes on, or waits for `cpushield experiment --resume`.
    Unfinished,
    /// Every cell was measured or is told missing, and the machine is as it was.
    Finished,
    /// Somebody stopped it; the machine is as it was.
    Stopped,
}

/// What was measured on: what a reader needs to repeat it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ExperimentSetup {
    /// The machine's maker and name (`/sys/class/dmi/id`); `None` where nothing says it.
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
    /// The parameters that every row has: those of the boot in which it began.
    pub cmdline: Option<String>,
    /// The hypervisor that this runs under; `None` on a machine of its own.
    pub hypervisor: Option<String>,
    /// Settings of firmware and hardware that show: SMT, turbo, deep idle states and the like.
    pub settings: Vec<String>,
}

/// One configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ExperimentRow {
    /// Its name.
    pub name: String,
    /// Whether the CPUs are shielded.
    pub shield: bool,
    /// Tunables that are forced on or off.
    pub tunables: BTreeMap<String, bool>,
    /// Kernel parameters that it is booted with, beside those of every row.
    pub boot: Vec<String>,
    /// Why it was not measured, or not to the end; `None` when nothing was in the way.
    pub missing: Option<String>,
}

/// One measurement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ExperimentColumn {
    /// Its name.
    pub name: String,
    /// What is waited for: `timer` and the like.
    pub instrument: String,
    /// The threads of each CPU by their periods in nanoseconds, shortest first; a single 0 for
    /// threads that never sleep.
    pub periods_ns: Vec<u64>,
    /// Ordinary threads (`SCHED_OTHER`) instead of real-time ones.
    pub other: bool,
    /// Limits that are counted over, in nanoseconds.
    pub over_ns: Vec<u64>,
    /// What runs on the other CPUs meanwhile; nothing when empty.
    pub load: Vec<String>,
}

/// One row under one column.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ExperimentCell {
    /// Which row.
    pub row: usize,
    /// Which column.
    pub column: usize,
    /// What each repetition found, in the order they were made.
    pub runs: Vec<ExperimentRun>,
    /// Repetitions that came to nothing, each with the reason.
    pub missing: Vec<MissedRepetition>,
}

/// One measurement that was made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ExperimentRun {
    /// Which repetition, from 0.
    pub round: usize,
    /// When it began, in seconds since 1970.
    pub began_s: u64,
    /// How long was measured, in nanoseconds.
    pub span_ns: u64,
    /// The kernel's release.
    pub kernel: Option<String>,
    /// Whether the shield was in force at every look; `None` without a shield, and when it has
    /// nothing that can be looked at.
    pub held: Option<bool>,
    /// One for each period, as in the column.
    pub tracks: Vec<ThreadTrack>,
    /// What each load achieved meanwhile.
    pub loads: Vec<LoadAchieved>,
    /// What makes the figures doubtful.
    pub doubts: Vec<String>,
    /// The file with the whole `latency` document, in the state directory.
    pub file: String,
}

/// What the threads of one period saw on all CPUs together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ThreadTrack {
    /// The period in nanoseconds; 0 for threads that never sleep.
    pub period_ns: u64,
    /// Events of all CPUs.
    pub samples: u64,
    /// Periods that were missed on all CPUs.
    pub missed: u64,
    /// The longest latency of any CPU; `None` without events, as all of these.
    pub max_ns: Option<u64>,
    /// The max jitter of LinuxCNC's latency test, of the worst CPU.
    pub jitter_ns: Option<u64>,
    /// Percentiles, each of the CPU where it is longest.
    pub percentiles: Vec<Percentile>,
    /// Latencies over each limit, of all CPUs.
    pub over: Vec<OverLimit>,
}

/// What a load got done.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LoadAchieved {
    /// The load.
    pub load: String,
    /// How much in a second; `None` when that is not known.
    pub per_s: Option<f64>,
    /// Of what: `messages`, `bytes`.
    pub unit: String,
}

/// A repetition that came to nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MissedRepetition {
    /// Which, from 0.
    pub round: usize,
    /// Why.
    pub why: String,
}

/// What rows are compared by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum RankedFigure {
    /// [`ThreadTrack::jitter_ns`], where every run has one.
    MaxJitter,
    /// [`ThreadTrack::max_ns`].
    Worst,
}

/// Which row is best by one column and period.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BestRow {
    /// The column.
    pub column: usize,
    /// The period of its threads.
    pub period_ns: u64,
    /// By what.
    pub figure: RankedFigure,
    /// The row with the lowest figure that is better than every other by more than chance; `None`
    /// when there is none.
    pub winner: Option<usize>,
    /// Rows that chance does not tell from the one with the lowest figure, that one first.
    pub among: Vec<usize>,
    /// How that is known, or why it is not, in a sentence.
    pub why: String,
}

/// What one option does alone.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OptionEffect {
    /// The option: `shield`, `watchdog off`, `nohz_full=3`.
    pub option: String,
    /// The row without it.
    pub without: usize,
    /// The row with it, and nothing else different.
    pub with: usize,
    /// The column.
    pub column: usize,
    /// The period of its threads.
    pub period_ns: u64,
    /// By what.
    pub figure: RankedFigure,
    /// The figure with it for each unit of the figure without it: below 1 is better. `None` when
    /// one of both was not measured.
    pub ratio: Option<f64>,
    /// What that means.
    pub verdict: EffectMeaning,
    /// How that is known, or why it is not, in a sentence.
    pub why: String,
}

/// What a difference means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum EffectMeaning {
    /// Shorter, by more than chance.
    Better,
    /// Longer, by more than chance.
    Worse,
    /// Chance explains it.
    Chance,
    /// Too little was measured to say.
    Unknown,
}

impl ThreadTrack {
    /// The figure of this track.
    #[must_use]
    pub fn figure(&self, figure: RankedFigure) -> Option<u64> {
        match figure {
            RankedFigure::MaxJitter => self.jitter_ns,
            RankedFigure::Worst => self.max_ns,
        }
    }
}

impl Experiment {
    /// The cell of a row and a column.
    #[must_use]
    pub fn cell(&self, row: usize, column: usize) -> Option<&ExperimentCell> {
        self.cells.iter().find(|cell| cell.row == row && cell.column == column)
    }

    /// Every column with each of its periods: the columns of the printed table.
    #[must_use]
    pub fn tracks(&self) -> Vec<(usize, u64)> {
        let of = |(column, it): (usize, &ExperimentColumn)| {
            it.periods_ns.iter().map(|period| (column, *period)).collect::<Vec<_>>()
        };
        self.columns.iter().enumerate().flat_map(of).collect()
    }

    /// By what the rows of a track are compared: the max jitter where every run has one.
    #[must_use]
    pub fn figure(&self, (column, period_ns): (usize, u64)) -> RankedFigure {
        let runs =
            self.cells.iter().filter(|cell| cell.column == column).flat_map(|cell| &cell.runs);
        let mut of = runs.flat_map(|run| &run.tracks).filter(|track| track.period_ns == period_ns);
        let has = |track: &ThreadTrack| track.jitter_ns.is_some();
        if period_ns > 0 && of.all(has) { RankedFigure::MaxJitter } else { RankedFigure::Worst }
    }

    /// The figure of every repetition, in nanoseconds, in the order they were made.
    #[must_use]
    pub fn figures(&self, row: usize, (column, period_ns): (usize, u64)) -> Vec<u64> {
        let figure = self.figure((column, period_ns));
        let runs = self.cell(row, column).map(|cell| cell.runs.as_slice()).unwrap_or_default();
        let of = |run: &ExperimentRun| {
            let track = run.tracks.iter().find(|track| track.period_ns == period_ns)?;
            track.figure(figure)
        };
        runs.iter().filter_map(of).collect()
    }

    /// What each load of a cell got done in a second, the mean of its repetitions: its name, its
    /// unit, the figure.
    #[must_use]
    pub fn achieved(&self, row: usize, column: usize) -> Vec<(String, String, f64)> {
        let mut all: Vec<(String, String, Vec<f64>)> = Vec::new();
        let runs = self.cell(row, column).map(|cell| cell.runs.as_slice()).unwrap_or_default();
        for done in runs.iter().flat_map(|run| &run.loads) {
            let Some(per_s) = done.per_s else { continue };
            match all.iter_mut().find(|(load, ..)| *load == done.load) {
                Some((.., found)) => found.push(per_s),
                None => all.push((done.load.clone(), done.unit.clone(), vec![per_s])),
            }
        }
        #[expect(clippy::cast_precision_loss, reason = "there are few repetitions")]
        let mean = |found: &[f64]| found.iter().sum::<f64>() / found.len() as f64;
        all.into_iter().map(|(load, unit, found)| (load, unit, mean(&found))).collect()
    }
}
