//! `cpushield apply`: applies a saved plan, or plans a request and applies that plan.

use super::GlobalArgs;
use super::help::{BUG, ExitCode, HelpTail, USAGE};
use super::paint::{show, show_done};
use crate::failure::Failure;
use crate::report::{applied_blocks, applied_policy_blocks, script_blocks};
use crate::ui::Ui;
use crate::workflow::WorkContext;
use crate::workflow::apply_policy::apply_policy;
use crate::workflow::apply_shield::{PlanSource, ProgramsInTheWay, apply_source, preview_source};
use crate::workflow::policy_shields::plan_policy_shields;
use crate::workflow::shield_options::{DisturbArgs, ONE_SHIELD, ShieldOptions};
use std::path::PathBuf;

/// Shield CPUs: apply a plan
///
/// All original values are saved to disk before the first change. If an essential change fails, or
/// the command is stopped (Ctrl-C, kill), the originals are restored immediately.
///
/// If a shield of this name is active, apply changes it: what the command does not repeat is
/// undone.
#[derive(Debug, clap::Args)]
pub struct ApplyArgs {
    /// A plan saved with `cpushield plan -o FILE` (`-` is standard input)
    ///
    /// Its steps are shown first. A plan with a step that its setting never makes is refused.
    #[arg(value_name = "PLAN", conflicts_with_all = ONE_SHIELD)]
    #[arg(conflicts_with_all = ["policy", "all", "disturb"])]
    plan: Option<PathBuf>,
    /// Apply every shield of the policy file; if one cannot be applied, undo the others
    #[arg(long, conflicts_with_all = ONE_SHIELD)]
    all: bool,
    /// Print the equivalent shell commands and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Change an active shield even if programs in it lose all their CPUs; these programs get new
    /// CPUs
    #[arg(long, conflicts_with = "dry_run")]
    move_programs: bool,
    /// What the shield may do to others
    #[command(flatten)]
    disturb: DisturbArgs,
    /// The shield
    #[command(flatten)]
    request: ShieldOptions,
}

/// The end of its help.
pub(super) const HELP: HelpTail = HelpTail {
    examples: &[
        ("cpushield apply --cpus 3", "shield CPU 3"),
        ("cpushield apply --cpus 2-3", "change the active shield: CPU 2 is added"),
        ("cpushield apply shield.json", "apply a saved plan"),
        ("cpushield apply --cpus 3 --dry-run", "only print the shell commands"),
        ("cpushield apply --all", "apply every shield of the policy"),
    ],
    exit_codes: APPLY_EXIT_CODES,
};

const APPLY_EXIT_CODES: &[ExitCode] = &[
    ("0", "success: the shield is active; optional settings that the kernel refused are listed"),
    USAGE,
    ("3", "failure: the shield cannot be planned or applied; the message says what was undone"),
    BUG,
];

/// Runs the subcommand.
///
/// # Errors
/// The request or the plan is wrong, or the shield could not be applied and was undone.
pub fn run(ui: &Ui, global: &GlobalArgs, args: &ApplyArgs) -> Result<(), Failure> {
    let work = match args.dry_run {
        true => global.open(ui)?,
        false => global.open_live(ui)?,
    };
    let programs = match args.move_programs {
        true => ProgramsInTheWay::Move,
        false => ProgramsInTheWay::Refuse,
    };
    if args.all {
        return run_all(&work, args, programs);
    }
    let source = match &args.plan {
        Some(file) => PlanSource::File(file.clone()),
        None => PlanSource::Options(args.disturb.options(&args.request)),
    };
    if args.dry_run {
        let plan = preview_source(&work, &source)?;
        return show(ui, &plan, || script_blocks(&plan));
    }
    let (applied, plan) = apply_source(&work, &source, programs)?;
    show_done(ui, &applied, || applied_blocks(&applied, &plan))
}

/// Applies every shield of the policy.
fn run_all(
    work: &WorkContext<'_>,
    args: &ApplyArgs,
    programs: ProgramsInTheWay,
) -> Result<(), Failure> {
    let options = args.disturb.policy_options(&args.request);
    if args.dry_run {
        let plans = plan_policy_shields(work, &options)?.document();
        return show(work.ui, &plans, || plans.plans.iter().flat_map(script_blocks).collect());
    }
    let applied = apply_policy(work, &options, programs)?;
    show_done(work.ui, &applied, || applied_policy_blocks(&applied))
}
