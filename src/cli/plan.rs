//! `cpushield plan`: chooses CPUs and lists the changes in order, without making them.

use super::GlobalArgs;
use super::request::RequestArgs;
use crate::failure::{Failure, FailureKind};
use crate::report::{PlanDetail, plan_text};
use crate::ui::Ui;
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
    let host = global.host()?;
    let machine = super::survey_machine(&host, &global.store());
    let (plan, _) = args.request.plan(&host, &machine)?;
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
    ui.show(&plan, || plan_text(&plan, detail, ui.width()))
}
