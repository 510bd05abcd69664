//! `cpushield disable`: stops applying a shield at every boot.

use super::paint::on_terminal;
use super::{GlobalArgs, undo};
use crate::failure::Failure;
use crate::plan::named;
use crate::report::undone_blocks;
use crate::ui::Ui;
use crate::workflow::every_boot::{ActiveShieldFate, DisabledShield, disable_shield};

/// Stop shielding CPUs at every boot
///
/// Removes the file that `cpushield enable` wrote. The active shield stays, unless `--now` is
/// given.
#[derive(Debug, clap::Args)]
pub struct DisableArgs {
    /// Also take down now what every boot applied, as `cpushield undo` does
    #[arg(long)]
    now: bool,
}

/// Runs the subcommand.
///
/// # Errors
/// The file cannot be removed, or the shield cannot be undone.
pub fn run(ui: &Ui, global: &GlobalArgs, args: &DisableArgs) -> Result<(), Failure> {
    let work = global.open_live(ui)?;
    let fate = if args.now { ActiveShieldFate::TakenDown } else { ActiveShieldFate::Kept };
    let document = disable_shield(&work, fate)?;
    ui.show(&document, || text(ui, &document))?;
    document.undone.iter().try_for_each(undo::check_complete)
}

fn text(ui: &Ui, document: &DisabledShield) -> String {
    let mut text = match &document.disabled {
        Some(disabled) => {
            format!("Disabled: {} is removed, so the next boot shields no CPU\n", disabled.path)
        }
        None => "Not enabled: no boot applies a shield\n".to_owned(),
    };
    for shield in &document.active {
        text.push_str(&format!(
            "Shield {0} on {1} stays active until `cpushield undo --shield {0}` or a reboot\n",
            shield.name,
            named(&shield.cpus)
        ));
    }
    if let Some(why) = &document.active_unknown {
        text.push_str(&format!("Active shield: unknown: {why}\n"));
    }
    text.extend(document.undone.iter().map(|undone| on_terminal(ui, &undone_blocks(undone))));
    text
}
