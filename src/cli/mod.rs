//! The command line: one file per subcommand, with its `Args` (their docs are the help) and `run`.

pub mod add;
pub mod apply;
mod apply_with_fallback;
pub mod boot;
mod checkpoint;
pub mod compare;
pub mod completions;
mod conclude;
pub mod disable;
pub mod enable;
pub mod exit_status;
pub mod experiment;
mod experiment_machine;
pub mod explain;
pub mod fix;
pub mod help;
mod inner;
mod input;
pub mod latency;
pub mod load_worker;
mod loads;
pub mod mask;
mod paint;
pub mod plan;
mod price;
pub mod remove;
pub mod report;
pub mod request;
pub mod run;
pub mod sampler_worker;
pub mod saved_document;
pub mod standing;
pub mod status;
pub mod survey;
pub mod try_shield;
pub mod undo;
pub mod undo_watchdog;
pub mod verify;
pub mod watch;
mod watch_target;

use crate::failure::{Failure, FailureKind};
use crate::plan::Plan;
use crate::survey::{Machine, survey_with_shield};
use crate::tunables;
use crate::ui::{OutputFormat, StatusLines, Ui};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use cpushield_linux::{EventLog, Host, Store, process};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Isolate CPUs for a workload, and prove that nothing interrupts it
///
/// survey → plan → apply → run → verify → latency → report → undo. Start with `cpushield try`.
#[derive(Debug, Parser)]
#[command(
    name = "cpushield",
    version,
    long_version = concat!(env!("CARGO_PKG_VERSION"), "\nfor Linux on x86_64 only, so far"),
    propagate_version = true
)]
pub struct Cli {
    /// Options of every subcommand
    #[command(flatten)]
    pub global: GlobalArgs,
    /// The subcommand
    #[command(subcommand)]
    pub command: CliCommand,
}

/// Options of every subcommand
#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "Options of every subcommand")]
pub struct GlobalArgs {
    /// Print one JSON document instead of text
    #[arg(long, global = true)]
    pub json: bool,
    /// Print only results, warnings and errors
    #[arg(long, short, global = true)]
    pub quiet: bool,
    /// Use a machine recorded by `survey --record` instead of the live one
    #[arg(long, global = true, value_name = "DIR")]
    pub root: Option<PathBuf>,
    /// Directory of the journal [default: /var/lib/cpushield of the machine]
    #[arg(long, global = true, value_name = "DIR")]
    pub state: Option<PathBuf>,
    /// Log each file access and each command to this file
    ///
    /// Each line has the time, the process, the operation and the kernel's answer. Lines are
    /// written immediately, so the log of a killed run is complete.
    #[arg(long, global = true, value_name = "FILE")]
    pub log: Option<PathBuf>,
    #[arg(skip)]
    event_log: Option<EventLog>,
}

/// The default state directory, relative to the machine's root.
const STATE: &str = "var/lib/cpushield";

impl GlobalArgs {
    /// Whether status lines are shown.
    const fn status_lines(&self) -> StatusLines {
        match self.quiet {
            true => StatusLines::Suppressed,
            false => StatusLines::Shown,
        }
    }

    /// The state directory: `--state`, or the machine's own. A recorded machine has its own, so
    /// the live machine's shield is never read for it.
    #[must_use]
    pub fn state_dir(&self) -> PathBuf {
        let root = self.root.as_deref().unwrap_or(Path::new("/"));
        self.state.clone().unwrap_or_else(|| root.join(STATE))
    }

    /// The files in the state directory.
    #[must_use]
    pub fn store(&self) -> Store {
        Store::new(&self.state_dir()).logging(self.event_log.clone())
    }

    /// Opens the `--log` file and logs the command line.
    fn open_log(&mut self) -> Result<(), Failure> {
        let Some(path) = &self.log else { return Ok(()) };
        let log = EventLog::open(path)?;
        log.note("start", &process::command_line());
        self.event_log = Some(log);
        Ok(())
    }

    /// The machine to work on: the live one, or the recorded one of `--root`.
    ///
    /// # Errors
    /// The recording cannot be read, or the directory is not a recording.
    pub fn host(&self) -> Result<Host, Failure> {
        match &self.root {
            None => Ok(Host::live().logging(self.event_log.clone())),
            Some(dir) => {
                let host = match Host::recorded(dir) {
                    Err(error) if error.is_absent() => {
                        let message = format!(
                            "{} does not exist, so it is not a recorded machine",
                            dir.display()
                        );
                        let hint = "record one: cpushield survey --record DIR";
                        return Err(Failure::usage(message).hint(hint));
                    }
                    host => host?.logging(self.event_log.clone()),
                };
                // The boot commands need nothing else of a recording.
                if ["/proc", "/sys", "/boot"].iter().any(|dir| host.exists(dir)) {
                    return Ok(host);
                }
                let name = dir.display();
                let failure = Failure::usage(format!(
                    "{name} is not a recorded machine: it has no proc, sys or boot"
                ));
                Err(failure.hint(if host.exists("/root/proc") {
                    format!("use the directory below it: --root {}", dir.join("root").display())
                } else {
                    "record one: cpushield survey --record DIR".to_owned()
                }))
            }
        }
    }
}

/// Surveys the machine. While a shield, or a part of one, is active, the survey skips everything
/// that would interrupt its CPUs.
pub(crate) fn survey_machine(host: &Host, store: &Store) -> Machine {
    survey_under(host, store, crate::apply::active(host, store).ok().flatten().as_ref())
}

/// Like [`survey_machine`], when the caller already knows the active shield.
fn survey_under(host: &Host, store: &Store, active: Option<&Plan>) -> Machine {
    match active {
        Some(plan) if host.is_live() => survey_shielded(host, store, plan),
        _ => crate::survey::survey(host, &tunables::reads()),
    }
}

/// Surveys the machine while this shield is active. The shield's journal supplies what is known
/// about interrupts.
pub(crate) fn survey_shielded(host: &Host, store: &Store, plan: &Plan) -> Machine {
    let mut machine = survey_with_shield(host, &tunables::reads(), &plan.shield.cpus);
    // Without outcomes in the journal, the plan is all that is known.
    let outcomes = crate::apply::outcomes(host, store).unwrap_or_default();
    tunables::complete_survey(&mut machine, plan, &outcomes);
    machine
}

/// The subcommands. The help of each is the doc of its `Args`; a doc here would replace it
#[derive(Debug, Subcommand)]
pub enum CliCommand {
    Try(try_shield::TryArgs),
    Survey(survey::SurveyArgs),
    Plan(plan::PlanArgs),
    Apply(apply::ApplyArgs),
    Enable(enable::EnableArgs),
    Disable(disable::DisableArgs),
    Boot(boot::BootArgs),
    Run(run::RunArgs),
    Add(add::AddArgs),
    Remove(remove::RemoveArgs),
    Status(status::StatusArgs),
    Verify(verify::VerifyArgs),
    Latency(latency::LatencyArgs),
    Compare(compare::CompareArgs),
    Experiment(experiment::ExperimentArgs),
    Watch(watch::WatchArgs),
    Report(report::ReportArgs),
    Undo(undo::UndoArgs),
    Explain(explain::ExplainArgs),
    Mask(mask::MaskArgs),
    Completions(completions::CompletionsArgs),
}

/// Parses the command line, runs the subcommand and shows a failure.
#[must_use]
pub fn run_command_line(args: &[OsString]) -> ExitCode {
    if inner::is_internal(args) {
        let ui = Ui::new(OutputFormat::Text, StatusLines::Shown);
        return show_and_exit(
            &ui,
            inner::run(&inner::InternalArgs::parse_from(args)).map(|()| ExitCode::SUCCESS),
        );
    }
    match parse(args) {
        Ok(cli) => {
            let format = if cli.global.json { OutputFormat::Json } else { OutputFormat::Text };
            let ui = Ui::new(format, cli.global.status_lines());
            show_and_exit(&ui, dispatch(&ui, cli))
        }
        // Arguments after `--` belong to another program.
        Err(error)
            if error.use_stderr()
                && args.iter().take_while(|arg| *arg != "--").any(|arg| arg == "--json") =>
        {
            let failure = Failure::from(error);
            let failure = if is_run(args) { run::fail_before_start(failure) } else { failure };
            show_and_exit(&Ui::new(OutputFormat::Json, StatusLines::Shown), Err(failure))
        }
        Err(error) if error.use_stderr() && is_run(args) => {
            // Like `env`: every other exit code belongs to the program.
            let _ = error.print();
            ExitCode::from(FailureKind::NotStarted.code())
        }
        Err(error) => {
            // If standard error is closed, there is no place to report that.
            let _ = error.print();
            ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(FailureKind::Usage.code()))
        }
    }
}

/// The definition of the command line, with examples and exit codes.
#[must_use]
pub fn command() -> clap::Command {
    let command = Cli::command().after_long_help(help::tail(None));
    let names: Vec<String> =
        command.get_subcommands().map(|sub| sub.get_name().to_owned()).collect();
    names.into_iter().fold(command, |command, name| {
        let tail = help::tail(Some(&name));
        command.mut_subcommand(name, |sub| sub.after_long_help(tail))
    })
}

fn parse(args: &[OsString]) -> Result<Cli, clap::Error> {
    let mut matches = command().try_get_matches_from(args)?;
    Cli::from_arg_matches_mut(&mut matches)
}

/// Whether the subcommand of a command line that does not parse is `run`.
fn is_run(args: &[OsString]) -> bool {
    let mut args = args.iter().skip(1);
    while let Some(arg) = args.next() {
        match arg.to_str() {
            Some("--root" | "--state") => drop(args.next()),
            Some(option) if option.starts_with('-') => {}
            subcommand => return subcommand == Some("run"),
        }
    }
    false
}

/// Shows a failure and returns the exit code.
fn show_and_exit(ui: &Ui, result: Result<ExitCode, Failure>) -> ExitCode {
    result.unwrap_or_else(|failure| {
        ui.show_failure(&failure);
        failure.exit_code()
    })
}

/// Runs the subcommand and logs how it ended. The exit code is 0, or the status of the program
/// that `run` started.
///
/// # Errors
/// The subcommand failed.
fn dispatch(ui: &Ui, mut cli: Cli) -> Result<ExitCode, Failure> {
    cli.global.open_log()?;
    let log = cli.global.event_log.clone();
    let result = run_subcommand(ui, cli);
    if let Some(log) = log {
        let failure = result.as_ref().err().map(ToString::to_string);
        log.note("end", failure.as_deref().unwrap_or("without an error"));
    }
    result
}

fn run_subcommand(ui: &Ui, cli: Cli) -> Result<ExitCode, Failure> {
    match cli.command {
        CliCommand::Try(args) => try_shield::run(ui, &cli.global, &args),
        CliCommand::Survey(args) => survey::run(ui, &cli.global, &args),
        CliCommand::Plan(args) => plan::run(ui, &cli.global, &args),
        CliCommand::Apply(args) => apply::run(ui, &cli.global, &args),
        CliCommand::Enable(args) => enable::run(ui, &cli.global, &args),
        CliCommand::Disable(args) => disable::run(ui, &cli.global, &args),
        CliCommand::Undo(args) => undo::run(ui, &cli.global, &args),
        CliCommand::Explain(args) => explain::run(ui, &args),
        CliCommand::Mask(args) => mask::run(ui, &args),
        CliCommand::Completions(args) => completions::run(ui, &args),
        CliCommand::Verify(args) => verify::run(ui, &cli.global, &args),
        CliCommand::Watch(args) => watch::run(ui, &cli.global, &args),
        CliCommand::Report(args) => report::run(ui, &cli.global, &args),
        CliCommand::Latency(args) => latency::run(ui, &cli.global, &args),
        CliCommand::Compare(args) => compare::run(ui, &args),
        CliCommand::Experiment(args) => experiment::run(ui, &cli.global, &args),
        CliCommand::Add(args) => add::run(ui, &cli.global, &args),
        CliCommand::Remove(args) => remove::run(ui, &cli.global, &args),
        CliCommand::Run(args) => {
            return run::run(ui, &cli.global, &args).map_err(run::fail_before_start);
        }
        CliCommand::Status(args) => return status::run(ui, &cli.global, &args),
        CliCommand::Boot(args) => return boot::run(ui, &cli.global, &args),
    }?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests;
