//! `cpushield disable`: stops applying a shield at every boot.

use super::GlobalArgs;
use super::help::{BUG, HelpTail, USAGE};
use super::paint::show_done;
use crate::failure::Failure;
use crate::report::disabled_blocks;
use crate::ui::Ui;
use crate::workflow::every_boot::{DisabledShield, RunningUnit, disable_shield};
use crate::workflow::take_down::check_restored;

/// Stop shielding CPUs at every boot
///
/// Removes the file that `cpushield enable` wrote. The active shield stays, unless `--now` is
/// given.
#[derive(Debug, clap::Args)]
pub struct DisableArgs {
    /// Also take the enabled shields down, as `cpushield undo` does
    #[arg(long)]
    now: bool,
}

/// The end of its help.
pub(super) const HELP: HelpTail = HelpTail {
    examples: &[
        ("cpushield disable", "no shield at the next boot"),
        ("cpushield disable --now", "also take the active shield down"),
    ],
    exit_codes: &[
        ("0", "success: no shield is applied at boot; with --now: all changes are also undone"),
        USAGE,
        ("3", "failure: the file cannot be removed, or a change cannot be undone"),
        BUG,
    ],
};

/// Runs the subcommand.
///
/// # Errors
/// The file cannot be removed, or the shield cannot be undone.
pub fn run(ui: &Ui, global: &GlobalArgs, args: &DisableArgs) -> Result<(), Failure> {
    let work = global.open_live(ui)?;
    let fate = if args.now { RunningUnit::Stopped } else { RunningUnit::Kept };
    let document = disable_shield(&work, fate)?;
    let DisabledShield { disabled, active, active_unknown, undone, .. } = &document;
    show_done(ui, &document, || {
        disabled_blocks(disabled.as_ref(), active, active_unknown.as_deref(), undone)
    })?;
    check_restored(undone)
}
