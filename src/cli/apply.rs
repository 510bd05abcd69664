//! `cpushield apply`: applies a saved plan, or plans a request and applies that plan.

use super::GlobalArgs;
use super::paint::on_terminal;
use super::request::RequestArgs;
use crate::failure::Failure;
use crate::plan::Plan;
use crate::report::applied_blocks;
use crate::ui::Ui;
use crate::workflow::apply_shield::{PlanSource, ProgramsInTheWay, apply_source, preview_source};
use std::path::PathBuf;

/// Shield CPUs: apply a plan
///
/// All original values are saved on disk before the first change. If an essential change fails, or
/// the command is stopped (Ctrl-C, kill), it restores them immediately.
#[derive(Debug, clap::Args)]
pub struct ApplyArgs {
    /// A plan saved with `cpushield plan -o FILE` (`-` is standard input)
    #[arg(
        value_name = "PLAN",
        conflicts_with_all = [
            "cpus", "count", "near", "node", "share", "siblings", "balance", "workload", "on", "off",
            "policy", "shield",
        ]
    )]
    plan: Option<PathBuf>,
    /// Print the equivalent shell commands and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Change an active shield even if programs in it lose all their CPUs; they get the new ones
    #[arg(long, conflicts_with = "dry_run")]
    move_programs: bool,
    /// The shield
    #[command(flatten)]
    request: RequestArgs,
}

/// Runs the subcommand.
///
/// # Errors
/// The request or the plan is wrong, or the shield could not be applied and was undone.
pub fn run(ui: &Ui, global: &GlobalArgs, args: &ApplyArgs) -> Result<(), Failure> {
    let work = match args.dry_run {
        true => global.open(ui)?,
        false => global.open_live(ui)?,
    };
    let source = match &args.plan {
        Some(file) => PlanSource::File(file.clone()),
        None => PlanSource::Options(args.request.options()),
    };
    if args.dry_run {
        let plan = preview_source(&work, &source)?;
        return ui.show(&plan, || shell_script(&plan));
    }
    let programs = match args.move_programs {
        true => ProgramsInTheWay::Move,
        false => ProgramsInTheWay::Refuse,
    };
    let (applied, plan) = apply_source(&work, &source, programs)?;
    ui.show(&applied, || on_terminal(ui, &applied_blocks(&applied, &plan)))
}

/// The equivalent commands, for `sh`.
fn shell_script(plan: &Plan) -> String {
    let mut text = format!("# shields CPU {}; dry run: nothing was changed\n", plan.shield.cpus);
    for step in plan.steps.iter().filter(|step| step.is_runtime()) {
        text.push_str(&step.change.shell());
        text.push('\n');
    }
    text
}
