//! `cpushield experiment`: runs a matrix of configurations and measurements.

use super::GlobalArgs;
use super::paint::on_terminal;
use crate::experiment::RebootPermission;
use crate::failure::Failure;
use crate::report::experiment as report;
use crate::ui::Ui;
use crate::workflow::run_experiment::{self, ExperimentFile};
use std::path::PathBuf;

/// Measure many configurations, across reboots, and report which is best
///
/// The file (docs/experiment.toml is an example) has rows, which are configurations, and columns,
/// which are measurements. Measurements are interleaved and repeated, and each shield is undone
/// after its measurement. After a crash or a power failure, --resume continues. At the end the
/// machine is in its original state.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("what").required(true))]
pub struct ExperimentArgs {
    /// TOML file with the rows and columns
    #[arg(value_name = "FILE", group = "what")]
    file: Option<PathBuf>,
    /// Show the order, the duration and the number of reboots, and do nothing
    #[arg(long, requires = "file")]
    dry_run: bool,
    /// Reboot the machine automatically for rows with kernel parameters; without this option, those
    /// rows are skipped
    #[arg(long, requires = "file")]
    reboot: bool,
    /// Write the results as JSON to this file at the end
    #[arg(long, short, value_name = "FILE", requires = "file")]
    output: Option<PathBuf>,
    /// Resume an interrupted run
    #[arg(long, group = "what")]
    resume: bool,
    /// Show the results of the current or the last run
    #[arg(long, group = "what")]
    status: bool,
    /// Stop the run and undo every change
    #[arg(long, group = "what")]
    stop: bool,
}

impl ExperimentArgs {
    fn reboot_permission(&self) -> RebootPermission {
        if self.reboot { RebootPermission::Granted } else { RebootPermission::Denied }
    }
}

/// Runs the subcommand.
///
/// # Errors
/// The matrix is wrong, this machine cannot run it, or a change cannot be undone.
pub fn run(ui: &Ui, global: &GlobalArgs, args: &ExperimentArgs) -> Result<(), Failure> {
    let work = global.open(ui)?;
    if args.status {
        let experiment = run_experiment::read_results(&work)?;
        return ui.show(&experiment, || on_terminal(ui, &report::blocks(&experiment)));
    }
    if !work.host.is_live() && !args.dry_run {
        return Err(Failure::usage("a recorded machine does not run: nothing to measure")
            .hint("omit --root"));
    }
    let reboot = args.reboot_permission();
    let experiment = match &args.file {
        Some(file) if args.dry_run => {
            let dry_run = run_experiment::dry_run(&work, &ExperimentFile::read(file)?, reboot)?;
            return ui.show(&dry_run, || on_terminal(ui, &report::dry_run_blocks(&dry_run)));
        }
        Some(file) => {
            let file = ExperimentFile::read(file)?;
            run_experiment::start(&work, file, reboot, args.output.as_deref())?
        }
        None if args.stop => run_experiment::stop(&work)?,
        None => run_experiment::resume(&work)?,
    };
    match experiment {
        Some(experiment) => ui.show(&experiment, || on_terminal(ui, &report::blocks(&experiment))),
        None => Ok(()),
    }
}
