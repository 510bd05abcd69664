//! `cpushield try`: shields a CPU for a few seconds, verifies the shield and undoes everything.

use super::GlobalArgs;
use super::help::{BUG, HelpTail, USAGE};
use super::paint::show;
use crate::failure::{Failure, FailureKind};
use crate::input;
use crate::ui::Ui;
use crate::workflow::shield_options::ShieldOptions;
use crate::workflow::try_shield;
use std::time::Duration;

/// Shield a CPU for a few seconds, verify the shield, then undo everything
///
/// Watches a busy CPU without a shield, shields it and watches it again. Then it undoes every
/// change and shows the results on one screen. If the command is interrupted or killed, every
/// change is undone as well.
#[derive(Debug, clap::Args)]
pub struct TryArgs {
    /// How long to watch the CPU each time (without and with the shield), 1s to 10m
    #[arg(long = "for", value_name = "TIME", default_value = "5s", value_parser = span)]
    pub time: Duration,
    /// Also measure the cost to the rest of the system: the throughput of a load without and with
    /// the shield [default: messages]
    #[arg(long, value_name = "KINDS", num_args = 0..=1, value_delimiter = ',',
          default_missing_value = "messages")]
    pub price: Vec<String>,
    /// The shield
    #[command(flatten)]
    pub request: ShieldOptions,
}

/// The end of its help.
pub(super) const HELP: HelpTail = HelpTail {
    examples: &[
        ("cpushield try", "watch for 5 seconds without and 5 seconds with a shield"),
        ("cpushield try --cpus 3 --for 1m", "shield CPU 3 and watch it for a minute each time"),
        ("cpushield try --price", "also measure the cost to all other programs"),
    ],
    exit_codes: &[
        ("0", "success: the result is shown, whether or not the shield held; all is undone"),
        USAGE,
        (
            "3",
            "failure: the CPU cannot be shielded or watched, or a change could not be undone; the \
                 message says which",
        ),
        BUG,
    ],
};

/// The limits of `--for`. A shorter watch shows nothing; `verify` is for longer ones.
const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(10 * 60);
/// Runs the subcommand.
///
/// # Errors
/// The machine cannot be shielded, or a change could not be undone.
pub fn run(ui: &Ui, global: &GlobalArgs, args: &TryArgs) -> Result<(), Failure> {
    let work = global.open_live(ui)?;
    let attempt = try_shield::try_options(&work, &args.request, args.time, &args.price)?;
    show(ui, &attempt, || attempt.blocks())?;
    if attempt.left.is_empty() && attempt.differences.is_empty() {
        return Ok(());
    }
    let message = "could not restore the original state completely (see above)";
    Err(Failure::new(FailureKind::NotUndone, message))
}

/// Parses the value of `--for`.
fn span(text: &str) -> Result<Duration, String> {
    let span = input::time(text)?;
    match (SHORTEST..=LONGEST).contains(&span) {
        true => Ok(span),
        false => Err("the time must be between 1s and 10m".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[test]
    fn a_time_has_a_unit() {
        let span = |line: &str| {
            let words = format!("cpushield try {line}");
            let cli = super::super::Cli::try_parse_from(words.split_whitespace()).ok()?;
            let super::super::CliCommand::Try(args) = cli.command else { panic!("try") };
            Some(args.time)
        };
        let seconds = |n| Some(Duration::from_secs(n));
        assert_eq!(span(""), seconds(5));
        assert_eq!(span("--for 2s"), seconds(2));
        assert_eq!(span("--for 1.5s"), Some(Duration::from_millis(1500)));
        assert_eq!((span("--for 10m"), span("--for 10min")), (seconds(600), seconds(600)));
        for wrong in
            ["--for 3", "--for 999ms", "--for 11min", "--for 99999999999999999999", "--seconds 3"]
        {
            assert_eq!(span(wrong), None, "{wrong}");
        }
    }
}
