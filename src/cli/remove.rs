//! `cpushield remove`: moves processes out of the shield.

use super::standing::ActiveArgs;
use super::{GlobalArgs, add, input, undo};
use crate::failure::Failure;
use crate::run::{self, ShieldPlacement};
use crate::ui::Ui;

/// Move processes out of the shield
///
/// A process that `add` moved returns to its previous cgroup and CPUs. A program that `run` started
/// moves to the cgroup of this command, as an ordinary program on the housekeeping CPUs.
#[derive(Debug, clap::Args)]
pub struct RemoveArgs {
    /// The active shield
    #[command(flatten)]
    active: ActiveArgs,
    /// Processes, or threads that were added one by one
    #[arg(required = true, value_name = "PID|TID", value_parser = input::process_number)]
    tids: Vec<i32>,
}

/// Runs the subcommand.
///
/// # Errors
/// There is no shield, or a task is not in it or cannot be moved.
pub fn run(ui: &Ui, global: &GlobalArgs, args: &RemoveArgs) -> Result<(), Failure> {
    let host = global.host()?;
    let store = global.store();
    args.active.check(&host, &store)?;
    undo::catch_stops()?;
    let place = ShieldPlacement::new(&host, &run::shield(&host, &store)?);
    let mut moved = Vec::new();
    for tid in &args.tids {
        moved.push(run::remove(&host, &store, &place, *tid)?);
    }
    ui.show(&moved, || moved.iter().map(|m| add::describe_move(m, "out of the shield")).collect())
}
