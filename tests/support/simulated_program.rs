//! The program, except that recorded machines have a kernel and can be changed.

use cpushield::cli;
use cpushield_linux::processes::process;
use cpushield_simulator::Simulated;
use std::process::ExitCode;

fn main() -> ExitCode {
    cli::run_command_line(&process::arguments(), Some(Simulated::simulated))
}
