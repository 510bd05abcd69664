//! `cpushield remove`: moves processes out of the shield.

use super::GlobalArgs;
use super::active::ActiveArgs;
use super::help::{BUG, HelpTail, USAGE};
use super::paint::show_done;
use crate::failure::Failure;
use crate::input;
use crate::report::moved_blocks;
use crate::ui::Ui;
use crate::workflow::membership::remove_processes;

/// Move processes out of the shield
///
/// A process that `add` moved returns to its previous cgroup and CPUs. A program that `run` started
/// moves to the cgroup of this command and continues as an ordinary program on the housekeeping
/// CPUs.
///
/// Operators of a shield can move their own processes out (cgroup v2). A program that `run` started
/// then moves to the cgroup of its nearest ancestor outside the shield.
#[derive(Debug, clap::Args)]
pub struct RemoveArgs {
    /// The active shield
    #[command(flatten)]
    active: ActiveArgs,
    /// Process IDs, or IDs of threads that were added individually
    #[arg(required = true, value_name = "PID|TID", value_parser = input::process_number)]
    tids: Vec<i32>,
}

/// The end of its help.
pub(super) const HELP: HelpTail = HelpTail {
    examples: &[
        ("cpushield remove 4711", "move process 4711 out of the shield"),
        ("cpushield remove $(pidof control)", "move every process with this name"),
    ],
    exit_codes: &[
        ("0", "success: every process is out of the shield"),
        USAGE,
        (
            "3",
            "failure: no shield, or a process cannot be moved; processes that were already moved \
             stay outside",
        ),
        BUG,
    ],
};

/// Runs the subcommand.
///
/// # Errors
/// There is no shield, or a task is not in it or cannot be moved.
pub fn run(ui: &Ui, global: &GlobalArgs, args: &RemoveArgs) -> Result<(), Failure> {
    let mut work = global.open_to_change(ui)?;
    args.active.select(&mut work)?;
    let moved = remove_processes(&work, &args.tids)?;
    show_done(ui, &moved, || moved_blocks(&moved.processes, "out of the shield"))
}
