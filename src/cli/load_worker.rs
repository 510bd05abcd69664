//! The internal subcommand that runs the load of `try`.

use crate::failure::Failure;
use crate::load;
use cpushield_linux::{CpuSet, Error, Operation};
use std::time::Duration;

/// Keep CPUs modestly busy
#[derive(Debug, clap::Args)]
pub struct BusyArgs {
    /// The CPUs
    cpus: CpuSet,
    /// Exit when this process exits
    parent: i32,
    /// Exit after this many seconds
    seconds: u64,
}

/// Runs the subcommand.
///
/// # Errors
/// The load cannot run.
pub fn run(args: &BusyArgs) -> Result<(), Failure> {
    load::serve(&args.cpus, args.parent, Duration::from_secs(args.seconds))
        .map_err(|e| Error::io(Operation::Call, "the load", e).into())
}
