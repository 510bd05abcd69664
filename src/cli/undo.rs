//! `cpushield undo`: the active shield is taken down.

use super::Global;
use crate::apply::{self, UndoError, Undone, undo};
use crate::boot::early;
use crate::failure::{Failure, Kind};
use crate::latency;
use crate::report::table::many;
use crate::report::undone_text;
use crate::run;
use crate::ui::Ui;
use cpushield_linux::{sched, signal, tracefs};

/// Take the shield down and restore the original settings
///
/// Settings that another process has changed since are reported and left as they are. After a
/// crash, undo completes an interrupted operation. After a reboot there is nothing to undo.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Forget settings that cannot be restored, or an unreadable journal
    #[arg(long)]
    forget: bool,
}

/// Runs it.
///
/// # Errors
/// The journal cannot be used, or something could not be put back.
pub fn run(ui: &Ui, global: &Global, args: &Args) -> Result<(), Failure> {
    let host = global.host()?;
    let store = global.store();
    // It ends by itself soon, and half a shield helps nobody: neither a key nor a connection that
    // is lost stops it on its way.
    signal::catch_stops().map_err(|e| Failure::machine(format!("cannot catch signals: {e}")))?;
    let _hurry = sched::hurry();
    let tracer = latency::recovered(&host, &store);
    let swept = tracefs::sweep(&host);
    let released = run::release(&host, &store);
    let mut undone = match undo(&host, &store) {
        Err(UndoError::Journal { .. }) if args.forget => {
            Undone { journal: apply::forget(&store)?, ..Undone::nothing() }
        }
        answer => answer?,
    };
    undone.notes.extend(tracer);
    match released {
        Ok(released) => {
            let back = released
                .back
                .iter()
                .map(|m| format!("{} ({}) is back where it was", m.comm, m.tid));
            let disarmed = released.disarmed.iter();
            let disarmed = disarmed.map(|it| format!("{it} runs on as an ordinary program"));
            undone.notes.extend(back.chain(disarmed).chain(released.notes));
        }
        Err(error) => undone.notes.push(format!("programs in the shield: {error}")),
    }
    let kept = if host.is_live() { early::remove(&host, &store) } else { Ok(None) };
    match kept {
        Ok(Some(kept)) => undone
            .notes
            .push(format!("the next boot does not shield CPUs any more: {} is removed", kept.path)),
        Ok(None) => {}
        Err(error) => undone.notes.push(format!("the shield at boot: {error}")),
    }
    if swept > 0 {
        undone.notes.push(format!("removed the trace of {swept} watches that were killed"));
    }
    let complete = undone.is_complete();
    if !complete && args.forget {
        undone.journal = apply::forget(&store)?;
    }
    ui.show(&undone, || undone_text(&undone))?;
    if complete || args.forget {
        return Ok(());
    }
    let failed = undone.failed().count();
    let message = format!("{} could not be restored", many(failed, "change"));
    Err(Failure::new(Kind::NotUndone, message)
        .hint("call `cpushield undo` again; `cpushield undo --forget` gives up what is left"))
}
