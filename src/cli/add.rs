//! `cpushield add`: moves running processes into the shield.

use super::GlobalArgs;
use super::active::ActiveArgs;
use super::help::{BUG, HelpTail, USAGE};
use super::paint::show_done;
use crate::failure::Failure;
use crate::input;
use crate::report::moved_blocks;
use crate::ui::Ui;
use crate::workflow::membership::{CpuAssignment, add_processes};

/// Move running processes into the shield
///
/// All threads of a process move together. A single thread can be moved only if cpusets use cgroup
/// v1. The journal keeps the previous place of each thread; `remove` and `undo` restore it.
#[derive(Debug, clap::Args)]
pub struct AddArgs {
    /// The active shield
    #[command(flatten)]
    active: ActiveArgs,
    /// The shielded CPU to run on
    #[arg(long, value_name = "N", conflicts_with = "spread",
          value_parser = input::cpu_number)]
    cpu: Option<usize>,
    /// Spread the threads over all shielded CPUs, one per CPU
    #[arg(long)]
    spread: bool,
    /// Process or thread IDs
    #[arg(required = true, value_name = "PID|TID", value_parser = input::process_number)]
    tids: Vec<i32>,
}

/// The end of its help.
pub(super) const HELP: HelpTail = HelpTail {
    examples: &[
        ("cpushield add 4711", "move process 4711 into the shield"),
        ("cpushield add --cpu 3 $(pidof control)", "move the process onto shielded CPU 3"),
    ],
    exit_codes: &[
        ("0", "success: every process is in the shield"),
        USAGE,
        (
            "3",
            "failure: no shield, or a process cannot be moved; processes that were already moved \
             stay in the shield",
        ),
        BUG,
    ],
};

/// Runs the subcommand.
///
/// # Errors
/// There is no shield, or a task cannot be moved. Tasks that were moved before it stay in the
/// shield.
pub fn run(ui: &Ui, global: &GlobalArgs, args: &AddArgs) -> Result<(), Failure> {
    let mut work = global.open_to_change(ui)?;
    args.active.select(&mut work)?;
    let assignment = if args.spread { CpuAssignment::All } else { CpuAssignment::One(args.cpu) };
    let moved = add_processes(&work, &args.tids, assignment)?;
    show_done(ui, &moved, || moved_blocks(&moved.processes, "in the shield"))
}
