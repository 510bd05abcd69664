//! `cpushield plan`: chooses CPUs and lists the changes in order, without making them.

use super::GlobalArgs;
use super::help::{HelpTail, READING};
use super::paint::show;
use crate::failure::Failure;
use crate::input::is_standard_output;
use crate::json::to_json;
use crate::report::blocks::ReportBlock;
use crate::report::free_cpus;
use crate::report::plan::{self as report, PlanDetail, PlannedMachine};
use crate::ui::Ui;
use crate::workflow::WorkContext;
use crate::workflow::apply_shield::{find_free, plan_options};
use crate::workflow::other_tools::{ExportFormat, OtherTool, export_plan, import_policy};
use crate::workflow::policy_shields::plan_policy_shields;
use crate::workflow::shield_options::{DisturbArgs, ONE_SHIELD, ShieldOptions};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// Choose CPUs and show which settings would change, which would not, and why
///
/// The command changes nothing. `cpushield apply` carries the plan out.
#[derive(Debug, clap::Args)]
pub struct PlanArgs {
    /// Show every step with its command
    #[arg(long, short)]
    pub verbose: bool,
    /// Save the plan for `cpushield apply FILE`; with `--from`, save the policy; with `--export`,
    /// save the text; `-` is standard output
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Show a policy with the CPUs that another tool has isolated on this machine
    #[arg(long, value_name = "TOOL", value_enum, conflicts_with = "verbose")]
    pub from: Option<OtherTool>,
    /// List the CPUs that are in no shield, by NUMA node and cache
    #[arg(long, conflicts_with_all = ["from", "export", "output", "verbose"])]
    pub free: bool,
    /// Show the plan in the format of another tool
    #[arg(long, value_name = "FORMAT", value_enum, conflicts_with_all = ["from", "verbose"])]
    pub export: Option<ExportFormat>,
    /// Plan every shield of the policy file
    #[arg(long, conflicts_with_all = ONE_SHIELD, conflicts_with_all = ["from", "free", "export"])]
    pub all: bool,
    /// What the shield may do to others
    #[command(flatten)]
    pub disturb: DisturbArgs,
    /// The shield
    #[command(flatten)]
    pub request: ShieldOptions,
}

/// The end of its help.
pub(super) const HELP: HelpTail = HelpTail {
    examples: &[
        ("cpushield plan --count 2", "choose two CPUs and list the changes"),
        ("cpushield plan --cpus 2-3 -o shield.json", "save the plan for `apply`"),
        ("cpushield plan --near eth0 --workload cyclic -v", "show every command"),
        ("cpushield plan --from tuned -o policy.toml", "a policy with the CPUs of tuned"),
        ("cpushield plan --cpus 2-3 --export kernel-parameters", "for the boot loader"),
        ("cpushield plan --free", "CPUs in no shield, by NUMA node and cache"),
        ("cpushield plan --all --policy shields.toml", "plan every shield of a policy"),
    ],
    exit_codes: READING,
};

/// Runs the subcommand.
///
/// # Errors
/// The request is wrong, unsafe or impossible, or the plan cannot be saved.
pub fn run(ui: &Ui, global: &GlobalArgs, args: &PlanArgs) -> Result<(), Failure> {
    let work = global.open(ui)?;
    if args.free {
        refuse_request(&args.request, "--free")?;
        let found = find_free(&work)?;
        return show(ui, &found, || free_cpus::blocks(&found));
    }
    if let Some(tool) = args.from {
        refuse_request(&args.request, "--from")?;
        let imported = import_policy(&work, tool)?;
        return show_or_save(&work, args, &imported, &imported.policy);
    }
    if let Some(format) = args.export {
        let exported = export_plan(&work, &args.disturb.options(&args.request), format)?;
        return show_or_save(&work, args, &exported, &exported.text);
    }
    let detail = match args.verbose {
        true => PlanDetail::EveryChange,
        false => PlanDetail::Summary,
    };
    let on = match work.host.is_live() {
        true => PlannedMachine::Live,
        false => PlannedMachine::Recorded,
    };
    if args.all {
        let plans =
            plan_policy_shields(&work, &args.disturb.policy_options(&args.request))?.document();
        return save_and_show(&work, args, &plans, || report::policy_blocks(&plans, detail, on));
    }
    let (plan, _) = plan_options(&work, &args.disturb.options(&args.request))?;
    save_and_show(&work, args, &plan, || report::blocks(&plan, detail, on))
}

/// Refuses options that request a shield, where the CPUs come from elsewhere.
fn refuse_request(request: &ShieldOptions, option: &str) -> Result<(), Failure> {
    match request.to_arguments().first() {
        None => Ok(()),
        Some(given) => Err(Failure::usage(format!("{option} cannot be combined with {given}"))),
    }
}

/// Shows a document whose text is for a file, or saves that text.
fn show_or_save<T: Serialize>(
    work: &WorkContext<'_>,
    args: &PlanArgs,
    document: &T,
    text: &str,
) -> Result<(), Failure> {
    match &args.output {
        Some(file) if is_standard_output(file) => work.ui.text(text),
        Some(file) => save(work, file, text),
        None => work.ui.show(document, || text.to_owned()),
    }
}

/// Saves a document as JSON, if a file is given, and shows it. On standard output, JSON has no
/// text around it.
fn save_and_show<T: Serialize>(
    work: &WorkContext<'_>,
    args: &PlanArgs,
    document: &T,
    blocks: impl FnOnce() -> Vec<ReportBlock>,
) -> Result<(), Failure> {
    match &args.output {
        Some(file) if is_standard_output(file) => return work.ui.text(&to_json(document)?),
        Some(file) => save(work, file, &to_json(document)?)?,
        None => {}
    }
    show(work.ui, document, blocks)
}

fn save(work: &WorkContext<'_>, file: &Path, text: &str) -> Result<(), Failure> {
    work.host.user_files().write(file, text)?;
    work.ui.status(&format!("saved: {}", file.display()));
    Ok(())
}
