//! `cpushield undo`: takes the active shield down.

use super::GlobalArgs;
use super::active::ActiveArgs;
use super::paint::on_terminal;
use crate::apply::UndoneShield;
use crate::failure::{Failure, FailureKind};
use crate::report::table::many;
use crate::report::undone_blocks;
use crate::ui::Ui;
use crate::workflow::catch_stops;
use crate::workflow::every_boot::{AtEveryBoot, shuts_down};
use crate::workflow::take_down::{UnrestoredChanges, take_down};
use serde::Serialize;

/// Take the shield down and restore the original settings
///
/// Settings that another process has changed since are reported and left as they are. After a
/// crash, undo completes an interrupted operation. After a reboot there is nothing to undo. A
/// shield that `cpushield enable` makes at every boot stays enabled.
#[derive(Debug, clap::Args)]
pub struct UndoArgs {
    /// Forget settings that cannot be restored, or an unreadable journal
    #[arg(long)]
    forget: bool,
    /// Change nothing while systemd shuts the system down: for units
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

/// What `--json` prints.
#[derive(Serialize)]
struct UndoDocument {
    #[serde(flatten)]
    undone: UndoneShield,
    #[serde(flatten)]
    at_every_boot: AtEveryBoot,
}

/// Runs the subcommand.
///
/// # Errors
/// The journal cannot be used, or a change could not be undone.
pub fn run(ui: &Ui, global: &GlobalArgs, args: &UndoArgs) -> Result<(), Failure> {
    let work = global.open_to_change(ui)?;
    if args.unless_shutdown && shuts_down(&work) {
        work.ui.status("the system shuts down, so the shield stays");
        return Ok(());
    }
    args.active.check(&work)?;
    catch_stops()?;
    let undone = take_down(&work, args.unrestored_changes())?;
    let document = UndoDocument { undone, at_every_boot: AtEveryBoot::read(&work.store) };
    ui.show(&document, || text(ui, &document))?;
    if args.forget { Ok(()) } else { check_complete(&document.undone) }
}

fn text(ui: &Ui, document: &UndoDocument) -> String {
    let mut text = on_terminal(ui, &undone_blocks(&document.undone));
    match &document.at_every_boot.enabled {
        Some(enabled) => text.push_str(&format!(
            "Still enabled at every boot ({}); to disable it: cpushield disable\n",
            enabled.path
        )),
        None => text.push_str(&document.at_every_boot.text()),
    }
    text
}

/// Checks that every change was undone.
///
/// # Errors
/// A change could not be undone.
pub(super) fn check_complete(undone: &UndoneShield) -> Result<(), Failure> {
    if undone.is_complete() {
        return Ok(());
    }
    let failed = undone.failed().count();
    let message = format!("{} could not be restored", many(failed, "change"));
    Err(Failure::new(FailureKind::NotUndone, message)
        .hint("try again: cpushield undo")
        .hint("or forget the changes that remain: cpushield undo --forget"))
}
