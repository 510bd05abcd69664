//! `cpushield plan`: chooses CPUs and lists the changes in order, without making them.

use super::GlobalArgs;
use super::paint::on_terminal;
use super::request::RequestArgs;
use crate::failure::{Failure, FailureKind};
use crate::report::plan::{self as report, PlanDetail};
use crate::ui::Ui;
use crate::workflow::apply_shield::plan_options;
use cpushield_linux::write_document;
use std::path::PathBuf;

/// Choose CPUs and show which settings would change, which would not, and why
///
/// The command changes nothing. `cpushield apply` carries the plan out.
#[derive(Debug, clap::Args)]
pub struct PlanArgs {
    /// Show every step with its command
    #[arg(long, short)]
    pub verbose: bool,
    /// Save the plan for `cpushield apply FILE`
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// The shield
    #[command(flatten)]
    pub request: RequestArgs,
}

/// Runs the subcommand.
///
/// # Errors
/// The request is wrong, unsafe or impossible, or the plan cannot be saved.
pub fn run(ui: &Ui, global: &GlobalArgs, args: &PlanArgs) -> Result<(), Failure> {
    let work = global.open(ui)?;
    let (plan, _) = plan_options(&work, &args.request.options())?;
    if let Some(file) = &args.output {
        let text = serde_json::to_string_pretty(&plan)
            .map_err(|e| Failure::new(FailureKind::Bug, format!("cannot make JSON: {e}")))?;
        write_document(file, &(text + "\n"))?;
        ui.status(&format!("saved: {}", file.display()));
    }
    let detail = match args.verbose {
        true => PlanDetail::EveryChange,
        false => PlanDetail::Summary,
    };
    ui.show(&plan, || on_terminal(ui, &report::blocks(&plan, detail)))
}
