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
use crate::ui::{OutputFormat, Ui};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use cpushield_linux::{EventLog, Host, Store, process};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Give a workload CPUs of its own, and prove that nothing interrupts it
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
    /// What all subcommands know
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

/// The state directory of a machine.
const STATE: &str = "var/lib/cpushield";

impl GlobalArgs {
    /// The state directory: the one that was named, else that of the machine. A recorded machine
    /// has its own, so that nothing of the live machine's shield is looked at.
    #[must_use]
    pub fn state_dir(&self) -> PathBuf {
        let root = self.root.as_deref().unwrap_or(Path::new("/"));
        self.state.clone().unwrap_or_else(|| root.join(STATE))
    }

    /// What is kept in the state directory.
    #[must_use]
    pub fn store(&self) -> Store {
        Store::new(&self.state_dir()).logging(self.event_log.clone())
    }

    /// Opens the log that was asked for, and notes what was called.
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
    /// The recording cannot be read.
    pub fn host(&self) -> Result<Host, Failure> {
        match &self.root {
            None => Ok(Host::live().logging(self.event_log.clone())),
            Some(dir) => {
                let host = match Host::recorded(dir) {
                    Err(error) if error.is_absent() => {
                        let why = format!(
                            "{} does not exist, so it is not a recorded machine",
                            dir.display()
                        );
                        let hint = "`cpushield survey --record DIR` makes one";
                        return Err(Failure::usage(why).hint(hint));
                    }
                    host => host?.logging(self.event_log.clone()),
                };
                // Of what a loader has written the boot commands need no more than these.
                if ["/proc", "/sys", "/boot"].iter().any(|dir| host.exists(dir)) {
                    return Ok(host);
                }
                let name = dir.display();
                let failure = Failure::usage(format!(
                    "{name} is not a recorded machine: it has no proc, sys or boot"
                ));
                Err(failure.hint(if host.exists("/root/proc") {
                    format!("its files are one level below: --root {}", dir.join("root").display())
                } else {
                    "`cpushield survey --record DIR` makes one".to_owned()
                }))
            }
        }
    }
}

/// The machine as it is. While a shield is up, or a part of one, what would interrupt its CPUs is
/// not looked at.
pub(crate) fn surveyed(host: &Host, store: &Store) -> Machine {
    surveyed_under(host, store, crate::apply::active(host, store).ok().flatten().as_ref())
}

/// The same where it is known which shield is up.
fn surveyed_under(host: &Host, store: &Store, active: Option<&Plan>) -> Machine {
    match active {
        Some(plan) if host.is_live() => beside(host, store, plan),
        _ => crate::survey::survey(host, &tunables::reads()),
    }
}

/// The machine while this shield is up, with what the shield's journal knows of interrupts.
pub(crate) fn beside(host: &Host, store: &Store, plan: &Plan) -> Machine {
    let mut machine = survey_with_shield(host, &tunables::reads(), &plan.shield.cpus);
    // A journal without outcomes leaves the plan.
    let outcomes = crate::apply::outcomes(host, store).unwrap_or_default();
    tunables::complete_survey(&mut machine, plan, &outcomes);
    machine
}

/// The subcommands; the help of each is what its `Args` say: docs here would take their place
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

/// Parses these words, runs what they ask for, and shows what went wrong.
#[must_use]
pub fn run_words(words: &[OsString]) -> ExitCode {
    if inner::is_inner(words) {
        let ui = Ui::new(OutputFormat::Text, false);
        return ended(
            &ui,
            inner::run(&inner::InternalArgs::parse_from(words)).map(|()| ExitCode::SUCCESS),
        );
    }
    match parse(words) {
        Ok(cli) => {
            let format = if cli.global.json { OutputFormat::Json } else { OutputFormat::Text };
            let ui = Ui::new(format, cli.global.quiet);
            ended(&ui, dispatch(&ui, cli))
        }
        // Words behind `--` are another program's.
        Err(error)
            if error.use_stderr()
                && words.iter().take_while(|word| *word != "--").any(|word| word == "--json") =>
        {
            let failure = Failure::from(error);
            let failure = if is_run(words) { run::before_start(failure) } else { failure };
            ended(&Ui::new(OutputFormat::Json, false), Err(failure))
        }
        Err(error) if error.use_stderr() && is_run(words) => {
            // As `env` has it: all others are the program's own.
            let _ = error.print();
            ExitCode::from(FailureKind::NotStarted.code())
        }
        Err(error) => {
            // Nowhere is left to report that standard error is closed.
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

fn parse(words: &[OsString]) -> Result<Cli, clap::Error> {
    let mut matches = command().try_get_matches_from(words)?;
    Cli::from_arg_matches_mut(&mut matches)
}

/// Whether these words, which are not understood, are meant for `run`.
fn is_run(words: &[OsString]) -> bool {
    let mut words = words.iter().skip(1);
    while let Some(word) = words.next() {
        match word.to_str() {
            Some("--root" | "--state") => drop(words.next()),
            Some(option) if option.starts_with('-') => {}
            word => return word == Some("run"),
        }
    }
    false
}

fn ended(ui: &Ui, end: Result<ExitCode, Failure>) -> ExitCode {
    end.unwrap_or_else(|failure| {
        ui.show_failure(&failure);
        failure.exit_code()
    })
}

/// Runs the subcommand. The exit code is 0, or the status of the program that `run` started.
///
/// # Errors
/// Whatever went wrong, with its exit code and hints.
fn dispatch(ui: &Ui, mut cli: Cli) -> Result<ExitCode, Failure> {
    cli.global.open_log()?;
    let log = cli.global.event_log.clone();
    let ended = run_command(ui, cli);
    if let Some(log) = log {
        let failure = ended.as_ref().err().map(ToString::to_string);
        log.note("end", failure.as_deref().unwrap_or("without an error"));
    }
    ended
}

fn run_command(ui: &Ui, cli: Cli) -> Result<ExitCode, Failure> {
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
            return run::run(ui, &cli.global, &args).map_err(run::before_start);
        }
        CliCommand::Status(args) => return status::run(ui, &cli.global, &args),
        CliCommand::Boot(args) => return boot::run(ui, &cli.global, &args),
    }?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests;
