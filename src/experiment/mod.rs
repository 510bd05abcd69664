//! Experiment: a matrix of configurations and measurements → [`Experiment`]: the same measurements
//! under each configuration, in alternating order, repeated, through reboots where a configuration
//! needs them.

mod document;
pub mod journal;
mod judge;
pub mod matrix;
pub mod run;
pub mod schedule;
mod summary;
mod tell;
pub mod unit;

pub use document::*;
pub use matrix::{Matrix, MatrixError};
pub use run::{BootMatch, ExperimentEnd, ExperimentMachine, MachineTrouble, go, stop};
pub use schedule::{DryRun, MeasurementStep, Schedule, outlook, schedule};
pub use summary::summary;
pub use tell::told;
