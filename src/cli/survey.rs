//! `cpushield survey`: the machine, what is isolated, what stands in the way.

use super::Global;
use crate::failure::Failure;
use crate::report::machine_text;
use crate::survey::survey;
use crate::tunables;
use crate::ui::Ui;
use std::path::PathBuf;

/// The machine, what is isolated, what stands in the way
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Also save the files that are read below DIR, with nothing private in them
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
    let machine = survey(&host, &tunables::reads());
    ui.show(&machine, || machine_text(&machine))?;
    if let Some(dir) = &args.record {
        match host.recording_failure() {
            Some(failure) => ui.warn(&format!("the recording is not complete: {failure}")),
            None => ui.status(&format!("recorded in {}", dir.display())),
        }
    }
    Ok(())
}
