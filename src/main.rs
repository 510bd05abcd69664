//! Parse, dispatch, show the failure, exit code.
#![forbid(unsafe_code)]

use clap::Parser;
use cpushield::{cli, ui};
use std::process::ExitCode;

// musl's own asks the kernel for memory, and gives it back, at every second file that is read: a
// third of all system calls of an undo.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: dlmalloc::GlobalDlmalloc = dlmalloc::GlobalDlmalloc;

fn main() -> ExitCode {
    match cli::dispatch(cli::Cli::parse()) {
        Ok(status) => status,
        Err(failure) => {
            ui::show_failure(&failure);
            failure.exit_code()
        }
    }
}
