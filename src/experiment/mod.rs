//! Experiment: a matrix of configurations and measurements → [`Experiment`]: the same measurements
//! under each configuration, interleaved and repeated, with reboots where a configuration has
//! kernel parameters.

pub mod between;
mod document;
pub mod journal;
mod judge;
pub mod matrix;
mod reason;
mod results;
mod row_boot;
mod row_isolation;
pub mod run;
pub mod schedule;
pub mod search;
mod summary;
pub mod unit;

pub use document::*;
pub use matrix::{Matrix, MatrixError, RowCpus, RowPlace, WrittenList};
pub use reason::{
    BestEvidence, BootMismatch, ComparedUnit, EffectEvidence, ExperimentNote, UnmeasuredReason,
};
pub use results::collect_results;
pub use row_boot::RowBoot;
pub use row_isolation::RowIsolation;
pub use run::{ExperimentEnd, ExperimentMachine, MachineTrouble, run_remaining, stop};
pub use schedule::{
    DryRun, DryRunRow, MeasurementStep, RebootPermission, Schedule, describe_dry_run, make_schedule,
};
pub use summary::summarize;
