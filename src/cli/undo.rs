//! `cpushield undo`: takes a shield down, or all of them.

use super::GlobalArgs;
use super::active::ActiveArgs;
use super::help::{BUG, HelpTail, USAGE};
use super::paint::show_done;
use crate::documents::applied::UnrestoredChanges;
use crate::failure::{Failure, FailureKind};
use crate::report::undo_blocks;
use crate::ui::Ui;
use crate::workflow::catch_stops;
use crate::workflow::every_boot::shuts_down;
use crate::workflow::take_down::check_restored;
use crate::workflow::undo_shields::{UndoDocument, UndoTarget, undo_shields};
use clap::builder::NonEmptyStringValueParser;

/// Take a shield down and restore the original settings
///
/// If several shields are active, select one with --shield. The other shields stay active and keep
/// the settings that they need.
///
/// If another process has changed a setting in the meantime, undo reports the setting and leaves it
/// as it is. After a crash, undo reverts the changes of an interrupted `apply`, and completes an
/// interrupted `undo`. After a reboot, there is nothing to undo. A shield that `cpushield enable`
/// applies at every boot stays enabled.
#[derive(Debug, clap::Args)]
pub struct UndoArgs {
    /// Take all shields down, the newest first
    #[arg(long, conflicts_with = "shield")]
    all: bool,
    /// With --all: take down only the shields of this policy file
    #[arg(long, value_name = "FILE", requires = "all")]
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    policy: Option<String>,
    /// Forget settings that cannot be restored; move an unreadable journal away
    #[arg(long)]
    forget: bool,
    /// Change nothing while systemd shuts the system down, or if the shield is not active (for
    /// systemd units)
    #[arg(long)]
    unless_shutdown: bool,
    /// The active shield
    #[command(flatten)]
    active: ActiveArgs,
}

impl UndoArgs {
    fn unrestored_changes(&self) -> UnrestoredChanges {
        if self.forget { UnrestoredChanges::Forget } else { UnrestoredChanges::Keep }
    }
}

/// The end of its help.
pub(super) const HELP: HelpTail = HelpTail {
    examples: &[("cpushield undo", "take the shield down and restore the original settings")],
    exit_codes: &[
        ("0", "success: every change is undone, or no shield is active"),
        USAGE,
        ("3", "failure: no shield has this name, or a change cannot be undone"),
        BUG,
    ],
};

/// Runs the subcommand.
///
/// # Errors
/// The journal cannot be used, or a change could not be undone.
pub fn run(ui: &Ui, global: &GlobalArgs, args: &UndoArgs) -> Result<(), Failure> {
    let mut work = global.open_to_change(ui)?;
    if args.unless_shutdown && shuts_down(&work) {
        work.ui.status("the system is shutting down, so the shield stays");
        return Ok(());
    }
    match args.active.select(&mut work) {
        // A unit can be stopped after its shield was undone.
        Err(failure) if args.unless_shutdown && failure.kind == FailureKind::Machine => {
            work.ui.status(&failure.message);
            return Ok(());
        }
        selected => selected?,
    }
    catch_stops()?;
    let target = match (&args.policy, args.all) {
        (Some(policy), _) => UndoTarget::Policy(policy),
        (None, true) => UndoTarget::All,
        (None, false) => UndoTarget::One,
    };
    let document = undo_shields(&work, target, args.unrestored_changes())?;
    let UndoDocument { shields, at_every_boot, .. } = &document;
    show_done(ui, &document, || undo_blocks(shields, at_every_boot))?;
    if args.forget { Ok(()) } else { check_restored(shields) }
}
