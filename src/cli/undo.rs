//! `cpushield undo`: takes the active shield down.

use super::GlobalArgs;
use super::enable::AtEveryBoot;
use super::standing::ActiveArgs;
use crate::apply::{self, UndoError, UndoneShield, undo};
use crate::failure::{Failure, FailureKind};
use crate::latency;
use crate::report::table::many;
use crate::report::undone_text;
use crate::run;
use crate::ui::Ui;
use cpushield_linux::{Host, Store, sched, signal, tracefs};
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
    /// The active shield
    #[command(flatten)]
    active: ActiveArgs,
}

impl UndoArgs {
    fn unrestored_changes(&self) -> UnrestoredChanges {
        if self.forget { UnrestoredChanges::Forget } else { UnrestoredChanges::Keep }
    }
}

/// What happens to the record of changes that cannot be undone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UnrestoredChanges {
    /// The journal keeps them for another undo.
    Keep,
    /// The journal is archived, even if it cannot be read.
    Forget,
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
    let host = global.host()?;
    let store = global.store();
    args.active.check(&host, &store)?;
    catch_stops()?;
    let undone = take_down(&host, &store, args.unrestored_changes())?;
    let document = UndoDocument { undone, at_every_boot: AtEveryBoot::read(&store) };
    ui.show(&document, || text(&document))?;
    if args.forget { Ok(()) } else { check_complete(&document.undone) }
}

fn text(document: &UndoDocument) -> String {
    let mut text = undone_text(&document.undone);
    match &document.at_every_boot.enabled {
        Some(enabled) => text.push_str(&format!(
            "Still enabled at every boot ({}); to disable it: cpushield disable\n",
            enabled.path
        )),
        None => text.push_str(&document.at_every_boot.text()),
    }
    text
}

/// Catches stop signals. A command that ends soon by itself completes its changes: neither Ctrl-C
/// nor a lost connection leaves half of them.
///
/// # Errors
/// The kernel refuses the signal handlers.
pub(super) fn catch_stops() -> Result<(), Failure> {
    signal::catch_stops().map_err(|e| Failure::machine(format!("cannot catch signals: {e}")))
}

/// Takes the shield down, releases the programs in it, and removes leftover traces.
///
/// # Errors
/// The journal cannot be used.
pub(super) fn take_down(
    host: &Host,
    store: &Store,
    unrestored: UnrestoredChanges,
) -> Result<UndoneShield, Failure> {
    let _hurry = sched::boost_priority();
    let tracer_note = latency::restore_tracer_settings(host, store);
    let swept = tracefs::remove_stale_instances(host);
    let released = run::release(host, store);
    let mut undone = match undo(host, store) {
        Err(UndoError::Journal { .. }) if unrestored == UnrestoredChanges::Forget => {
            UndoneShield { journal: apply::forget(store)?, ..UndoneShield::nothing() }
        }
        result => result?,
    };
    undone.notes.extend(tracer_note);
    match released {
        Ok(released) => {
            undone.notes.extend(released.back.iter().map(|moved| {
                format!("{} ({}) is back in its previous place", moved.comm, moved.tid)
            }));
            undone.notes.extend(
                released
                    .disarmed
                    .iter()
                    .map(|program| format!("{program} continues as an ordinary program")),
            );
            undone.notes.extend(released.notes);
        }
        Err(error) => undone.notes.push(format!("programs in the shield: {error}")),
    }
    if swept > 0 {
        undone.notes.push(format!("removed the traces of killed watches: {swept}"));
    }
    if unrestored == UnrestoredChanges::Forget && !undone.is_complete() {
        undone.journal = apply::forget(store)?;
    }
    Ok(undone)
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
