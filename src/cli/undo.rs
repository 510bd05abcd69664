//! `cpushield undo`: takes a shield down, or all of them.

use super::GlobalArgs;
use super::active::ActiveArgs;
use super::paint::on_terminal;
use crate::apply::UndoneShield;
use crate::failure::{Failure, FailureKind};
use crate::report::table::many;
use crate::report::undone_blocks;
use crate::ui::Ui;
use crate::workflow::catch_stops;
use crate::workflow::every_boot::shuts_down;
use crate::workflow::take_down::UnrestoredChanges;
use crate::workflow::undo_shields::{UndoDocument, UndoTarget, undo_shields};

/// Take a shield down and restore the original settings
///
/// With several shields, --shield names one of them. The others stay, and keep the settings that
/// they need.
///
/// Settings that another process has changed since are reported and left as they are. After a
/// crash, undo completes an interrupted operation. After a reboot there is nothing to undo. A
/// shield that `cpushield enable` makes at every boot stays enabled.
#[derive(Debug, clap::Args)]
pub struct UndoArgs {
    /// Take all shields down, the last one first
    #[arg(long, conflicts_with = "shield")]
    all: bool,
    /// With --all, take only the shields of this policy file down
    #[arg(long, value_name = "FILE", requires = "all")]
    policy: Option<String>,
    /// Forget settings that cannot be restored, or an unreadable journal
    #[arg(long)]
    forget: bool,
    /// Change nothing while systemd shuts the system down, or without the shield: for units
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

/// Runs the subcommand.
///
/// # Errors
/// The journal cannot be used, or a change could not be undone.
pub fn run(ui: &Ui, global: &GlobalArgs, args: &UndoArgs) -> Result<(), Failure> {
    let mut work = global.open_to_change(ui)?;
    if args.unless_shutdown && shuts_down(&work) {
        work.ui.status("the system shuts down, so the shield stays");
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
    ui.show(&document, || text(ui, &document))?;
    match args.forget {
        true => Ok(()),
        false => document.shields.iter().try_for_each(check_complete),
    }
}

fn text(ui: &Ui, document: &UndoDocument) -> String {
    let shields = document.shields.iter();
    let mut text: String = shields.map(|undone| on_terminal(ui, &undone_blocks(undone))).collect();
    if document.shields.is_empty() {
        text.push_str("nothing to undo: no shield of the policy is in force\n");
    }
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
