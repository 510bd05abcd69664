//! `cpushield enable`: applies a shield at every boot, with a systemd unit or an init script.

use super::GlobalArgs;
use super::help::{BUG, HelpTail, USAGE};
use super::paint::show_done;
use crate::failure::Failure;
use crate::report::{enabled_blocks, enabled_policy_blocks};
use crate::ui::Ui;
use crate::workflow::absolute_path;
use crate::workflow::every_boot::{
    ApplyTime, EnabledPolicy, EnabledShield, enable_policy, enable_shield,
};
use crate::workflow::shield_options::{DisturbArgs, ONE_SHIELD, ShieldOptions};
use std::path::Path;

/// Shield CPUs at every boot, before services start
///
/// Writes a systemd unit or an init script that applies this shield at every boot. The running
/// system does not change, unless `--now` is given. `cpushield disable` removes the file.
#[derive(Debug, clap::Args)]
pub struct EnableArgs {
    /// Also apply the shield now
    #[arg(long)]
    now: bool,
    /// Apply every shield of the policy file
    #[arg(long, conflicts_with_all = ONE_SHIELD)]
    all: bool,
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
        ("cpushield enable --cpus 3", "shield CPU 3 at every boot"),
        ("cpushield enable --now --cpus 3", "also shield it now"),
        ("cpushield enable --all", "apply every shield of the policy at every boot"),
    ],
    exit_codes: &[
        ("0", "success: the file is written; with --now: the shield is also active"),
        USAGE,
        ("3", "failure: the shield cannot be planned or applied, or the file cannot be written"),
        BUG,
    ],
};

/// Runs the subcommand.
///
/// # Errors
/// The request cannot be planned, the shield cannot be applied, or the file cannot be written.
pub fn run(ui: &Ui, global: &GlobalArgs, args: &EnableArgs) -> Result<(), Failure> {
    let work = global.open_live(ui)?;
    let when = if args.now { ApplyTime::NowToo } else { ApplyTime::NextBoot };
    if args.all {
        let document = enable_policy(&work, &args.disturb.policy_options(&args.request), when)?;
        let EnabledPolicy { enabled, applied, .. } = &document;
        return show_done(ui, &document, || enabled_policy_blocks(enabled, applied.as_ref()));
    }
    let mut words = apply_arguments(&args.request);
    words.extend(args.disturb.disturb.then(|| "--disturb".to_owned()));
    let options = args.disturb.options(&args.request);
    let (document, plan) = enable_shield(&work, &options, words, when)?;
    let EnabledShield { enabled, applied, .. } = &document;
    show_done(ui, &document, || enabled_blocks(enabled, applied.as_ref().zip(plan.as_ref())))
}

/// The arguments of `cpushield` that apply this request, independent of the working directory.
#[must_use]
pub fn apply_arguments(request: &ShieldOptions) -> Vec<String> {
    let policy = request.policy.as_ref().map(|path| absolute_path(Path::new(path)));
    let request = ShieldOptions { policy, ..request.clone() };
    ["apply".to_owned()].into_iter().chain(request.to_arguments()).collect()
}
