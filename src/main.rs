//! Parse, dispatch, show the failure, exit code.
#![forbid(unsafe_code)]

use clap::Parser;
use cpushield::{cli, ui};
use std::process::ExitCode;

fn main() -> ExitCode {
    match cli::dispatch(cli::Cli::parse()) {
        Ok(status) => status,
        Err(failure) => {
            ui::show_failure(&failure);
            failure.exit_code()
        }
    }
}
