//! `cpushield survey`: shows the machine, its isolated CPUs and the obstacles to isolation.

use super::GlobalArgs;
use super::help::{BUG, HelpTail, USAGE};
use super::paint::show;
use crate::failure::{Failure, FailureKind};
use crate::report::{command_line_blocks, machine as report};
use crate::ui::Ui;
use crate::workflow::machine_survey::{
    ShieldKnowledge, SurveyResult, lint_command_line, survey_and_record,
};
use std::path::PathBuf;
use std::process::ExitCode;

/// Show the machine, its isolated CPUs and the obstacles to isolation
///
/// The survey changes nothing. As root, it rewrites each interrupt's current affinity to find out
/// which interrupts can be moved. At the end, it lists what it could not read, with the reasons.
#[derive(Debug, clap::Args)]
pub struct SurveyArgs {
    /// Also save the files that the survey reads to DIR, without private data
    ///
    /// Use the recording for bug reports, or with `--root DIR` to try plans on another machine. It
    /// contains no names of user programs, command lines, host names, hardware addresses or serial
    /// numbers.
    #[arg(long, value_name = "DIR")]
    record: Option<PathBuf>,
    /// Only check the kernel command line; exit code 0: no findings, 1: at least one finding
    #[arg(long, conflicts_with = "record")]
    lint: bool,
}

/// The end of its help.
pub(super) const HELP: HelpTail = HelpTail {
    examples: &[
        ("cpushield survey", "show this machine and its isolated CPUs"),
        ("cpushield survey --record machine", "save a recording of this machine"),
        ("cpushield survey --root machine", "read that recording on another computer"),
    ],
    exit_codes: &[
        ("0", "success; with --lint: no findings"),
        ("1", "with --lint: at least one finding"),
        USAGE,
        ("3", "failure: the machine or the recording cannot be read or written"),
        BUG,
    ],
};

/// Runs the subcommand.
///
/// # Errors
/// The recording cannot be read or created, or the command line is unknown.
pub fn run(ui: &Ui, global: &GlobalArgs, args: &SurveyArgs) -> Result<ExitCode, Failure> {
    let work = global.open(ui)?;
    if args.lint {
        let lint = lint_command_line(&work.host)?;
        show(ui, &lint, || command_line_blocks(&lint))?;
        return Ok(match lint.findings.is_empty() {
            true => ExitCode::SUCCESS,
            false => ExitCode::from(FailureKind::DoesNotHold.code()),
        });
    }
    let SurveyResult { machine, shield, findings, unrecorded } =
        survey_and_record(work, args.record.as_deref())?;
    show(ui, &machine, || match &shield {
        ShieldKnowledge::Absent => report::blocks_with_readiness(&machine, &findings),
        ShieldKnowledge::Present(cpus) => report::blocks_with_shield(&machine, &findings, cpus),
        ShieldKnowledge::Unknown(why) => report::blocks_without_verdict(&machine, &findings, why),
    })?;
    if let Some(dir) = &args.record {
        match unrecorded {
            Some(failure) => ui.warn(&format!("the recording is incomplete: {failure}")),
            None => ui.status(&format!("recorded in {}", dir.display())),
        }
    }
    Ok(ExitCode::SUCCESS)
}
