//! Experiment: a matrix of configurations and measurements → [`Experiment`]: the same measurements
//! under each configuration, interleaved and repeated, with reboots where a configuration has
//! kernel parameters.
//!
//! `src/workflow/run_experiment.rs` parses the matrix (`src/experiment/matrix.rs`), checks all
//! that can be checked, and writes the journal. `schedule.rs` makes the order: rows run forward
//! and backward (ABBA), and so do boots. `run.rs` executes it step by step on an
//! `ExperimentMachine`, a trait; `src/workflow/experiment_machine.rs` is the real one. A step
//! makes a row's shield, measures a column and undoes the shield, or boots other parameters once.
//! `journal.rs` records each step before it begins, and `unit.rs` resumes the experiment after
//! each boot. Before each measurement, `src/latency/isolation_check.rs` asks three witnesses
//! whether the CPUs are isolated; `judge_isolation.rs` (pure) judges the row by them.
//! `tests/recorded/experiment.rs` kills a simulated machine at every action and every write.
//! `results.rs` makes the document from the journal and the measurements.
//!
//! `--minimize` is a search (`src/experiment/search/`). The next configuration
//! follows from the earlier measurements: `subset.rs` (pure) replays them and says which set of
//! options is measured next, and `sequential.rs` (pure) decides about a set. `run.rs` makes steps
//! of them for the journal and the `ExperimentMachine` of an experiment, so a search resumes as an
//! experiment does. `tests/recorded/minimize/` plants the truth on a simulated machine.

pub mod journal;
mod judge;
mod judge_isolation;
pub mod matrix;
mod results;
pub mod run;
pub mod schedule;
pub mod search;
mod summary;
pub mod unit;

pub use crate::documents::experiment::*;
pub use matrix::{Matrix, MatrixError, RowCpus, RowPlace, WrittenList};
pub use results::collect_results;
pub use run::{ExperimentEnd, ExperimentMachine, MachineTrouble, run_remaining, stop};
pub use schedule::{MeasurementStep, RebootPermission, Schedule, describe_dry_run, make_schedule};
pub use summary::summarize;
