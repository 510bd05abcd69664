//! `cpushield survey`: the machine, what is isolated, what stands in the way.

use super::Global;
use crate::failure::Failure;
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
        host = host.recording(dir)?;
    }
    let machine = survey(&host, &tunables::reads());
    ui.show(&machine, || format!("{machine:#?}"))
}
