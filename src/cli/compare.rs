//! `cpushield compare`: compares repeated measurements and tells differences from chance.

use super::GlobalArgs;
use super::help::{HelpTail, READING};
use super::paint::show;
use crate::failure::Failure;
use crate::report::compare as report;
use crate::ui::Ui;
use crate::workflow::comparison::compare_groups;

/// Compare measurements and tell which differences are significant
///
/// A file is the output of `latency --json` or `verify --json`. The first file or group is the
/// baseline. Only repeated runs can distinguish a real difference from chance. Six interleaved
/// runs of each configuration (before, after, before, after, …) are best.
#[derive(Debug, clap::Args)]
pub struct CompareArgs {
    /// A file, or repeated runs of one configuration: before=a1.json,a2.json
    #[arg(required = true, value_name = "GROUP")]
    groups: Vec<String>,
}

/// The end of its help.
pub(super) const HELP: HelpTail = HelpTail {
    examples: &[
        ("cpushield compare before.json after.json", "two runs"),
        (
            "cpushield compare off=a1.json,a2.json,a3.json,a4.json \
                 on=b1.json,b2.json,b3.json,b4.json",
            "repeated runs, to distinguish real differences from chance",
        ),
    ],
    exit_codes: READING,
};

/// Runs the subcommand.
///
/// # Errors
/// A file is not a measurement, or the groups cannot be compared.
pub fn run(ui: &Ui, global: &GlobalArgs, args: &CompareArgs) -> Result<(), Failure> {
    let comparison = compare_groups(&global.user_files(), &args.groups)?;
    show(ui, &comparison, || report::blocks(&comparison))
}
