//! `cargo xtask vm`: guests with real kernels in QEMU's plain emulation. `run` boots one guest,
//! `test` runs the scenarios of `vm/scenarios`, `lab` makes the table of
//! `docs/measurements/lab.md`. The scripts of `vm/` make the kernels, roots and disks of the
//! guests; what runs in a guest is shell and Python in `vm/guest` and `vm/scenarios`.

mod boot;
mod claims;
mod guest_options;
mod lab;
mod passes;
mod places;
mod qemu_command;
mod scenario;
mod shared_dir;
mod shuffle;
mod stop;
mod suite;

use clap::Subcommand;
use std::process::ExitCode;

/// What every task of this module returns. An error is one message for the terminal.
pub type VmResult<T> = Result<T, Box<dyn std::error::Error>>;

#[derive(Debug, Subcommand)]
pub enum VmTask {
    /// Boot a guest, run a script in it as root, and print its output
    Run(Box<boot::GuestRunArgs>),
    /// Run all scenarios, or the named ones, in their guests
    Test(suite::TestArgs),
    /// Provoke interruptions and compare what cpushield, rtla osnoise and the awk recipe report
    Lab(lab::LabArgs),
}

/// Runs a task. Its exit status says how it ended: see `GuestEnd` for `run`.
pub fn run(task: &VmTask) -> VmResult<ExitCode> {
    stop::watch_signals()?;
    match task {
        VmTask::Run(args) => boot::run(args),
        VmTask::Test(args) => suite::run(args),
        VmTask::Lab(args) => lab::run(args),
    }
}

/// Prints a message about the guest itself, not from it.
fn say(message: impl std::fmt::Display) {
    eprintln!("vm: {message}");
}
