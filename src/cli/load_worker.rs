//! The hidden subcommand that makes this program the load of `try`.

use crate::failure::Failure;
use crate::load;
use cpushield_linux::{CpuSet, Error, Operation};
use std::time::Duration;

/// Keep CPUs modestly busy
#[derive(Debug, clap::Args)]
pub struct BusyArgs {
    /// The CPUs
    cpus: CpuSet,
    /// The process it is to end with
    parent: i32,
    /// The seconds it is to end after
    seconds: u64,
}

/// Runs it.
///
/// # Errors
/// The kernel's answer.
pub fn run(args: &BusyArgs) -> Result<(), Failure> {
    load::serve(&args.cpus, args.parent, Duration::from_secs(args.seconds))
        .map_err(|e| Error::io(Operation::Call, "the load", e).into())
}
