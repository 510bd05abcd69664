//! The subcommands that only cpushield itself calls. They have a separate command line, so no
//! help, completion, list or suggestion shows them.

use super::{GlobalArgs, load_worker, sampler_worker, undo_watchdog};
use crate::failure::Failure;
use clap::{Parser, Subcommand};
use cpushield_linux::Host;
use std::ffi::OsString;

/// Internal subcommands
#[derive(Debug, Parser)]
#[command(name = "cpushield", disable_help_subcommand = true)]
pub struct InternalArgs {
    #[command(flatten)]
    global: GlobalArgs,
    #[command(subcommand)]
    command: InternalCommand,
}

#[derive(Debug, Subcommand)]
enum InternalCommand {
    #[command(name = undo_watchdog::HIDDEN)]
    Guard(undo_watchdog::GuardArgs),
    #[command(name = crate::load::HIDDEN)]
    Load(load_worker::BusyArgs),
    /// A load of `latency`
    #[command(name = crate::load::WORKER)]
    Work,
    /// The gap sampler of `verify`
    #[command(name = crate::verify::SAMPLER)]
    Sample,
    /// The threads of `latency`
    #[command(name = crate::latency::HIDDEN)]
    Measure,
}

/// Whether the command line calls an internal subcommand, whose name always comes first.
pub(super) fn is_internal(args: &[OsString]) -> bool {
    let names = [
        undo_watchdog::HIDDEN,
        crate::load::HIDDEN,
        crate::load::WORKER,
        crate::verify::SAMPLER,
        crate::latency::HIDDEN,
    ];
    args.get(1).is_some_and(|arg| names.iter().any(|name| arg == name))
}

/// Runs the subcommand.
///
/// # Errors
/// The subcommand failed.
pub(super) fn run(inner: &InternalArgs) -> Result<(), Failure> {
    match &inner.command {
        InternalCommand::Guard(args) => undo_watchdog::run(&inner.global, args),
        InternalCommand::Load(args) => load_worker::run(args),
        InternalCommand::Work => {
            crate::load::serve_kind(&Host::live());
            Ok(())
        }
        InternalCommand::Sample => {
            sampler_worker::run();
            Ok(())
        }
        InternalCommand::Measure => {
            crate::latency::serve(&Host::live());
            Ok(())
        }
    }
}
