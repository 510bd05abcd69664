//! `cpushield experiment`: runs a matrix of configurations and measurements.

use super::GlobalArgs;
use super::help::{BUG, HelpTail, USAGE};
use super::paint::show;
use crate::documents::option_search::SearchGoal;
use crate::failure::Failure;
use crate::input;
use crate::report::{experiment as report, option_search};
use crate::ui::Ui;
use crate::workflow::WorkContext;
use crate::workflow::minimize::{self, MinimizeRequest};
use crate::workflow::run_experiment::{self, ExperimentFile, ExperimentResults, RebootPermission};
use std::path::PathBuf;

/// Measure many configurations, across reboots, and report which is best
///
/// The rows of the file are configurations, and its columns are measurements. For an example, see
/// `cpushield explain experiment`. Measurements are interleaved and repeated, and each shield is
/// undone after its measurement. After a crash or a power failure, --resume continues the run. At
/// the end, the machine is back in its original state.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("what").required(true))]
#[command(group = clap::ArgGroup::new("goal"))]
pub struct ExperimentArgs {
    /// TOML file with the rows and columns
    #[arg(value_name = "FILE", group = "what")]
    file: Option<PathBuf>,
    /// Only show the order, the duration and the number of reboots
    #[arg(long, requires = "file", conflicts_with_all = OF_RUNS)]
    dry_run: bool,
    /// Reboot the machine automatically for rows with kernel parameters; without this option, those
    /// rows are skipped
    #[arg(long, requires = "file", conflicts_with_all = OF_RUNS)]
    reboot: bool,
    /// Write the results as JSON to this file at the end
    #[arg(long, short, value_name = "FILE", requires = "file", conflicts_with_all = OF_RUNS)]
    #[arg(value_parser = input::output_file())]
    output: Option<PathBuf>,
    /// Find a minimal set of a row's options that meets the goal (--max or --max-entries)
    ///
    /// Each option is left out once: first kernel parameters, then tunables, the riskiest first.
    /// Each configuration is measured until a sequential test decides whether it meets the goal.
    /// Passes repeat until no single remaining option can be left out.
    #[arg(long, requires = "file", requires = "goal")]
    minimize: bool,
    /// The row that --minimize starts from [default: the last row that can be measured]
    #[arg(long, value_name = "NAME", requires = "minimize")]
    row: Option<String>,
    /// Goal: no latency longer than this
    #[arg(long, value_name = "TIME", group = "goal", requires = "minimize", value_parser = input::span_ns)]
    max: Option<u64>,
    /// Goal: at most N kernel entries per measurement on each measured CPU
    #[arg(long, value_name = "N", group = "goal", requires = "minimize", value_parser = input::amount)]
    max_entries: Option<u64>,
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

/// The options about the current or the last run. The options of a new run do not go with them.
const OF_RUNS: &[&str] = &["resume", "status", "stop"];

impl ExperimentArgs {
    fn goal(&self) -> Option<SearchGoal> {
        let latency = self.max.map(|ns| SearchGoal::MaxLatency { ns });
        latency.or(self.max_entries.map(|count| SearchGoal::MaxEntries { count }))
    }
}

/// The end of its help.
pub(super) const HELP: HelpTail = HelpTail {
    examples: &[
        ("cpushield experiment lathe.toml --dry-run", "show the order and the duration"),
        ("cpushield experiment lathe.toml --reboot -o result.json", "measure across reboots"),
        ("cpushield experiment --status", "show the results so far"),
        ("cpushield experiment lathe.toml --minimize --max 20us", "find which options are needed"),
    ],
    exit_codes: &[
        ("0", "success: complete results, or the options found"),
        ("1", "the search ended without a set of options that meets the goal"),
        USAGE,
        ("3", "failure; the message says whether all changes were undone"),
        BUG,
    ],
};

/// Runs the subcommand.
///
/// # Errors
/// The matrix is wrong, this machine cannot run it, or a change cannot be undone.
pub fn run(ui: &Ui, global: &GlobalArgs, args: &ExperimentArgs) -> Result<(), Failure> {
    let work = match args.status || args.dry_run {
        true => global.open(ui)?,
        false => global.open_live(ui)?,
    };
    let reboot = if args.reboot { RebootPermission::Granted } else { RebootPermission::Denied };
    let results = match &args.file {
        Some(file) => {
            let file = ExperimentFile::read(&work.host.user_files(), file)?;
            if let (true, Some(goal)) = (args.minimize, args.goal()) {
                let row = args.row.clone();
                let request = MinimizeRequest { file, row, goal, reboot };
                return run_minimize(&work, args, &request);
            }
            if args.dry_run {
                let dry_run = run_experiment::dry_run(&work, &file, reboot)?;
                return show(ui, &dry_run, || report::dry_run_blocks(&dry_run));
            }
            run_experiment::start(&work, file, reboot, args.output.as_deref())?
        }
        None if args.status => {
            // A result that was shown before is no failure now.
            return show_results(ui, &run_experiment::read_results(&work)?);
        }
        None if args.stop => run_experiment::stop(&work)?,
        None => run_experiment::resume(&work)?,
    };
    finish(ui, results)
}

fn run_minimize(
    work: &WorkContext<'_>,
    args: &ExperimentArgs,
    request: &MinimizeRequest,
) -> Result<(), Failure> {
    let ui = work.ui;
    if args.dry_run {
        let dry_run = minimize::dry_run(work, request)?;
        return show(ui, &dry_run, || option_search::dry_run_blocks(&dry_run));
    }
    finish(ui, minimize::start(work, request, args.output.as_deref())?)
}

/// Shows results, if there are any, and fails where a search found nothing.
fn finish(ui: &Ui, results: Option<ExperimentResults>) -> Result<(), Failure> {
    let Some(results) = results else { return Ok(()) };
    show_results(ui, &results)?;
    results.check_found()
}

fn show_results(ui: &Ui, results: &ExperimentResults) -> Result<(), Failure> {
    show(ui, results, || match results {
        ExperimentResults::Matrix(experiment) => report::blocks(experiment),
        ExperimentResults::Search(search) => option_search::blocks(search),
    })
}
