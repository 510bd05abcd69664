//! `cpushield latency`: measures the wake-up latency of threads on shielded CPUs.

use super::GlobalArgs;
use super::active::ActiveArgs;
use super::help::{BUG, HelpTail, USAGE};
use super::paint::show;
use crate::failure::Failure;
use crate::report::latency as report;
use crate::ui::{OutputFormat, Ui};
use crate::workflow::latency_check;
use crate::workflow::measure_latency::{LatencyRequest, measure_latency, write_files};

/// Measure wake-up latency on the shielded CPUs
///
/// A thread on each CPU repeatedly waits for an event and reads the clock when it runs. The latency
/// is the time from when the event was due until the thread ran. Ctrl-C ends the measurement and
/// shows its results so far.
///
/// Exit code 0: the measurement is complete, and every limit holds. Exit code 1: a limit does not
/// hold, or it is unknown whether it holds.
#[derive(Debug, clap::Args)]
#[command(override_usage = "cpushield latency [OPTIONS] <INSTRUMENT>")]
pub struct LatencyArgs {
    /// The measurement
    #[command(flatten)]
    request: LatencyRequest,
    /// The active shield
    #[command(flatten)]
    active: ActiveArgs,
}

/// The end of its help.
pub(super) const HELP: HelpTail = HelpTail {
    examples: &[
        ("cpushield latency timer", "measure the shielded CPUs as cyclictest does"),
        ("cpushield latency timer --for 1h --max 50us", "check a limit"),
        ("cpushield latency spin --cpus 3 --load all", "measure with a load on the other CPUs"),
        (
            "cpushield latency timer --why -o after.json",
            "report what ran during the worst latencies; save the results",
        ),
    ],
    exit_codes: &[
        ("0", "success: measured; every limit is met"),
        ("1", "a limit is exceeded, or it is unknown whether it is met"),
        USAGE,
        ("3", "failure: no shield, or the CPUs cannot be measured"),
        BUG,
    ],
};

/// Runs the subcommand.
///
/// # Errors
/// The CPUs cannot be measured, or the limit does not hold.
pub fn run(ui: &Ui, global: &GlobalArgs, args: &LatencyArgs) -> Result<(), Failure> {
    let mut work = global.open_live(ui)?;
    args.active.select(&mut work)?;
    let LatencyArgs { request, active } = args;
    let (latency, save_error) = measure_latency(&work, request, active.shield.as_deref())?;
    show(ui, &latency, || report::blocks(&latency))?;
    write_files(&work, request, &latency)?;
    if let Some(failure) = save_error {
        if ui.format == OutputFormat::Text {
            ui.line(&latency)?;
        }
        return Err(failure);
    }
    latency_check::check(&latency)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    #[test]
    fn contradictory_options_are_refused() {
        let args = |line: &str| {
            let words = format!("cpushield latency {line}");
            let cli = super::super::Cli::try_parse_from(words.split(' ')).ok()?;
            let super::super::CliCommand::Latency(args) = cli.command else { panic!("latency") };
            Some(args)
        };
        for line in ["sundial", "timer --thread 0us", "timer --thread 5", "timer --fifo 99"] {
            assert!(args(line).is_none(), "{line}");
        }
        assert!(args("timer --other --fifo 3").is_none());
        assert!(args("timer --other").is_some());
    }
}
