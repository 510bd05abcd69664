//! The subcommands that only cpushield itself and its Makefile call. They have a separate command
//! line, so no help, completion, list or suggestion shows them.

use super::{GlobalArgs, log_end, man};
use crate::failure::Failure;
use crate::ui::Ui;
use crate::workflow::internal::{self, NAMES, WorkerRole};
use clap::{Parser, Subcommand};
use cpushield_linux::TaskId;
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
    /// Undo a temporary shield if its process dies
    #[command(name = NAMES.watchdog)]
    Guard {
        /// The process to watch
        pid: i32,
        /// The start time of that process, in clock ticks since boot
        started: u64,
        /// The name of the shield to undo
        shield: String,
    },
    /// Exclude the shielded CPUs from an irqbalance that has just started
    #[command(name = NAMES.ban)]
    Ban,
    /// Answer a request of an operator on standard input
    #[command(name = NAMES.operator)]
    Operator {
        /// The only shield for which it answers
        #[arg(long, value_name = "NAME")]
        only_shield: Option<String>,
    },
    /// Put a light load on CPUs
    #[command(name = NAMES.gentle_load)]
    Load,
    /// A load of `latency`
    #[command(name = NAMES.load)]
    Work,
    /// The gap sampler of `verify`
    #[command(name = NAMES.sampler)]
    Sample,
    /// The threads of `latency`
    #[command(name = NAMES.measure)]
    Measure,
    /// Write the man pages and the examples of units
    #[command(name = "__pages")]
    Pages(man::ManArgs),
}

/// Whether the command line calls an internal subcommand, whose name always comes first.
pub(super) fn is_internal(args: &[OsString]) -> bool {
    let arg = args.get(1).and_then(|arg| arg.to_str());
    arg.is_some_and(InternalCommand::has_subcommand)
}

/// Runs the subcommand and logs how it ended.
///
/// # Errors
/// The subcommand failed.
pub(super) fn run(ui: &Ui, mut inner: InternalArgs) -> Result<(), Failure> {
    inner.global.open_log()?;
    let result = run_command(ui, &inner);
    log_end(inner.global.event_log.as_ref(), &result);
    result
}

fn run_command(ui: &Ui, inner: &InternalArgs) -> Result<(), Failure> {
    let log = inner.global.event_log.clone();
    match &inner.command {
        InternalCommand::Guard { pid, started, shield } => {
            let watched = TaskId { tid: *pid, started: *started };
            return internal::guard(&inner.global.open(ui)?, watched, shield);
        }
        InternalCommand::Ban => {
            return internal::ban_from_irqbalance(&inner.global.open_live(ui)?);
        }
        InternalCommand::Operator { only_shield } => {
            internal::answer_operator(&inner.global.open_live(ui)?, only_shield.clone());
        }
        InternalCommand::Pages(args) => return man::write(&inner.global.user_files(), args),
        InternalCommand::Load => internal::serve(WorkerRole::GentleLoad, log),
        InternalCommand::Work => internal::serve(WorkerRole::Load, log),
        InternalCommand::Sample => internal::serve(WorkerRole::Sampler, log),
        InternalCommand::Measure => internal::serve(WorkerRole::Measure, log),
    }
    Ok(())
}
