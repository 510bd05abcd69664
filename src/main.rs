//! Passes the command line to [`cli::run_command_line`] and returns its exit code.
#![forbid(unsafe_code)]

use cpushield::cli;
use cpushield_linux::{processes::open_files, sys::signal};
use std::process::ExitCode;

// musl's own asks the kernel for memory, and gives it back, at every second file that is read: a
// third of all system calls of an undo.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: dlmalloc::GlobalDlmalloc = dlmalloc::GlobalDlmalloc;

fn main() -> ExitCode {
    // Without it only the message of a limit is lost.
    drop(signal::survive_file_size_limit());
    open_files::raise_limit();
    cli::run_command_line(&cpushield_linux::processes::process::arguments())
}
