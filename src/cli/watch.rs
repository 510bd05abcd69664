//! `cpushield watch`: shows a live view of all CPUs.

use super::GlobalArgs;
use super::active::ActiveArgs;
use super::help::{HelpTail, READING};
use crate::cpu_selection::CpuSelection;
use crate::failure::Failure;
use crate::input;
use crate::ui::Ui;
use crate::workflow::cpu_names::select_cpus;
use crate::workflow::live_view::{LiveRequest, show_live_view};
use std::time::Duration;

/// Show a live view of all CPUs
///
/// Shows which CPUs are shielded and what enters the kernel there. The rates come from kernel
/// counters, which rarely name a culprit. The view itself never runs on a shielded CPU.
///
/// On a terminal, `q` quits, `s` shows only shielded CPUs, and the arrow keys scroll. Without a
/// terminal, the command prints one frame. With --json, it prints one line per interval until it is
/// stopped.
#[derive(Debug, clap::Args)]
pub struct WatchArgs {
    /// Time between updates
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = interval)]
    interval: Duration,
    /// Print one frame and exit
    #[arg(long)]
    once: bool,
    /// Treat these CPUs as shielded [default: the CPUs of the active shield]
    #[arg(long, value_name = "LIST", value_parser = input::cpu_selection)]
    cpus: Option<CpuSelection>,
    /// Trace the CPUs that are shielded when the view starts, to name culprits; starting and
    /// stopping the trace interrupts every CPU
    #[arg(long)]
    trace: bool,
    /// Trace even if that interrupts other active shields
    #[arg(long)]
    disturb: bool,
    /// The active shield
    #[command(flatten)]
    active: ActiveArgs,
}

/// The end of its help.
pub(super) const HELP: HelpTail = HelpTail {
    examples: &[
        ("cpushield watch", "show all CPUs, updated once a second"),
        ("cpushield watch --trace", "also name what interrupts the shield"),
        ("cpushield watch --once --json", "print one frame as JSON, for programs"),
    ],
    exit_codes: READING,
};

/// Runs the subcommand.
///
/// # Errors
/// The machine cannot be read, or the terminal cannot be used.
pub fn run(ui: &Ui, global: &GlobalArgs, args: &WatchArgs) -> Result<(), Failure> {
    let mut work = global.open_live(ui)?;
    args.active.select(&mut work)?;
    let WatchArgs { interval, once, cpus, trace, .. } = args;
    let cpus = select_cpus(&work.host, cpus.as_ref())?;
    let disturbance = args.disturb.into();
    let request =
        LiveRequest { interval: *interval, once: *once, cpus, trace: *trace, disturbance };
    show_live_view(&work, &request)
}

/// Parses an interval of at least 50 ms. With a shorter one, the view would mostly show itself.
fn interval(text: &str) -> Result<Duration, String> {
    match input::time(text)? {
        time if time < Duration::from_millis(50) => Err("the minimum is 50ms".to_owned()),
        time => Ok(time),
    }
}
