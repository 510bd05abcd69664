//! [`DryRun`]: what an experiment would do. Plain data.

use super::RowBoot;
use crate::documents::plan::CpuCandidate;
use cpushield_linux::CpuSet;
use serde::Serialize;

/// The version of the format of [`DryRun`].
pub(crate) const SCHEMA: u32 = 1;

/// What an experiment would do: the document of `--dry-run`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DryRun {
    /// The version of this format.
    pub schema: u32,
    /// The name of the experiment.
    pub name: String,
    /// The CPUs that are measured in any row.
    pub cpus: CpuSet,
    /// All rows.
    pub rows: Vec<DryRunRow>,
    /// Sets of CPUs to try, each in a row of its own; empty if the matrix names CPUs.
    pub candidates: Vec<CpuCandidate>,
    /// The number of measurements.
    pub measurements: usize,
    /// Their duration in nanoseconds, without the time for shields and reboots.
    pub span_ns: u64,
    /// How often the machine is rebooted, including the return to the original boot.
    pub reboots: usize,
    /// The time between reboots, in order.
    pub boot_periods: Vec<BootPeriod>,
    /// Rows that are not measured, because they need a reboot.
    pub skipped: Vec<String>,
}

/// A row of a dry run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DryRunRow {
    /// Its name.
    pub name: String,
    /// The CPUs that are measured in it.
    pub cpus: CpuSet,
}

/// The time between two reboots.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BootPeriod {
    /// What the experiment changes in the boot.
    pub boot: RowBoot,
    /// The rows in the order they are measured, from 1; each with all columns.
    pub rows: Vec<usize>,
}
