//! `cpushield survey`: the machine, what is isolated, what stands in the way.

use super::Global;
use crate::failure::Failure;
use crate::report::machine_text;
use crate::ui::Ui;
use std::path::PathBuf;

/// The machine, what is isolated, what stands in the way
///
/// Reads everything and changes nothing. To find out which interrupts can be moved it writes each
/// one's own mask back, which the kernel accepts or refuses as it would another one (as root only).
/// What cannot be read is listed at the end with the reason.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Also save the files that are read below DIR, with nothing private in them
    ///
    /// For reports of defects and for trying plans on another machine: `--root DIR` then works on
    /// it. Left out are names of user programs, command lines, host names, hardware addresses and
    /// serial numbers.
    #[arg(long, value_name = "DIR")]
    record: Option<PathBuf>,
}

/// Runs it.
///
/// # Errors
/// The recording cannot be read or begun.
pub fn run(ui: &Ui, global: &Global, args: &Args) -> Result<(), Failure> {
    let mut host = global.host()?;
    if let Some(dir) = &args.record {
        host = host.recording(dir).map_err(|error| {
            let failure = Failure::from(error);
            failure.hint("name a directory that is new or empty: `survey --record machine`")
        })?;
    }
    let machine = super::surveyed(&host, &global.store());
    ui.show(&machine, || machine_text(&machine, ui.width()))?;
    if let Some(dir) = &args.record {
        match host.recording_failure() {
            Some(failure) => ui.warn(&format!("the recording is not complete: {failure}")),
            None => ui.status(&format!("recorded in {}", dir.display())),
        }
    }
    Ok(())
}
