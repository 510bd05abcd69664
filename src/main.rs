//! Passes the command line to [`cli::run_command_line`] and returns its exit code.
#![forbid(unsafe_code)]

use cpushield::cli;
use cpushield::failure::FailureKind;
use cpushield_linux::processes::process;
use std::process::ExitCode;

// musl's own asks the kernel for memory, and gives it back, at every second file that is read: a
// third of all system calls of an undo.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: dlmalloc::GlobalDlmalloc = dlmalloc::GlobalDlmalloc;

fn main() -> ExitCode {
    process::exit_on_panic(FailureKind::Bug.code());
    cli::run_command_line(&process::arguments(), None)
}
