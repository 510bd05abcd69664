//! `cpushield disable`: stops applying a shield at every boot.

use super::undo::UnrestoredChanges;
use super::{GlobalArgs, undo};
use crate::apply::{self, UndoneShield};
use crate::boot::{Enabled, early};
use crate::failure::Failure;
use crate::plan::{Shield, named};
use crate::report::undone_text;
use crate::ui::Ui;
use serde::Serialize;

/// Stop shielding CPUs at every boot
///
/// Removes the file that `cpushield enable` wrote. The active shield stays, unless `--now` is
/// given.
#[derive(Debug, clap::Args)]
pub struct DisableArgs {
    /// Also take the active shield down now, as `cpushield undo` does
    #[arg(long)]
    now: bool,
}

/// What `--json` prints.
#[derive(Debug, Serialize)]
struct DisableDocument {
    /// What was removed; `None` when nothing was enabled.
    disabled: Option<Enabled>,
    /// The shield that stays active.
    active: Option<Shield>,
    /// Why it is unknown whether a shield is active.
    active_unknown: Option<String>,
    /// What `--now` undid.
    undone: Option<UndoneShield>,
}

/// Runs the subcommand.
///
/// # Errors
/// The file cannot be removed, or the shield cannot be undone.
pub fn run(ui: &Ui, global: &GlobalArgs, args: &DisableArgs) -> Result<(), Failure> {
    let host = global.host()?;
    if !host.is_live() {
        return Err(Failure::usage("a recorded machine cannot boot").hint("omit --root"));
    }
    let store = global.store();
    undo::catch_stops()?;
    let disabled = early::remove(&host, &store).map_err(|error| match args.now {
        true => Failure::from(error).hint("undo the active shield: cpushield undo"),
        false => Failure::from(error),
    })?;
    let undone =
        args.now.then(|| undo::take_down(&host, &store, UnrestoredChanges::Keep)).transpose()?;
    let (active, active_unknown) = match args.now {
        true => (None, None),
        false => match apply::active(&host, &store) {
            Ok(plan) => (plan.map(|plan| plan.shield), None),
            Err(error) => (None, Some(error.to_string())),
        },
    };
    let document = DisableDocument { disabled, active, active_unknown, undone };
    ui.show(&document, || text(&document))?;
    document.undone.as_ref().map_or(Ok(()), undo::check_complete)
}

fn text(document: &DisableDocument) -> String {
    let mut text = match &document.disabled {
        Some(disabled) => {
            format!("Disabled: {} is removed, so the next boot shields no CPU\n", disabled.path)
        }
        None => "Not enabled: no boot applies a shield\n".to_owned(),
    };
    if let Some(shield) = &document.active {
        text.push_str(&format!(
            "Shield {} on {} stays active until `cpushield undo` or a reboot\n",
            shield.name,
            named(&shield.cpus)
        ));
    }
    if let Some(why) = &document.active_unknown {
        text.push_str(&format!("Active shield: unknown: {why}\n"));
    }
    text.extend(document.undone.as_ref().map(undone_text));
    text
}
