//! The command line: one file per subcommand, with its `Args` (their docs are the help) and `run`.
//!
//! It takes the words that the user typed and returns the exit code. It reads no machine; a
//! workflow does that. Every file has the same parts: see `apply.rs`.

mod active;
pub mod add;
pub mod apply;
pub mod boot;
pub mod compare;
pub mod completions;
pub mod disable;
pub mod enable;
pub mod experiment;
pub mod explain;
pub mod help;
mod inner;
pub mod latency;
mod man;
pub mod mask;
mod other_words;
mod paint;
pub mod plan;
pub mod remove;
pub mod report;
pub mod run;
pub mod status;
pub mod survey;
pub mod try_shield;
pub mod undo;
pub mod verify;
pub mod watch;

use crate::failure::{Failure, FailureKind};
use crate::ui::{OutputFormat, StatusLines, Ui};
use crate::workflow::WorkContext;
use crate::workflow::run_program::fail_before_start;
use clap::error::{ContextKind, ContextValue};
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use cpushield_linux::processes::{open_files, process};
use cpushield_linux::{EventLog, Host, UserFiles, sys::signal};
use help::HelpTail;
use other_words::with_other_words;
use std::ffi::OsString;
use std::path::PathBuf;
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
    /// Hide progress and status lines; print results, warnings and errors
    #[arg(long, short, global = true)]
    pub quiet: bool,
    /// Use a machine recorded by `survey --record` instead of this one
    #[arg(long, global = true, value_name = "DIR")]
    pub root: Option<PathBuf>,
    /// Directory of the journal [default: /var/lib/cpushield, or var/lib/cpushield in the --root
    /// directory]
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
    #[arg(skip)]
    prepare: Option<PrepareMachine>,
}

/// What happens to a recorded machine that was opened: a test gives it a kernel.
pub type PrepareMachine = fn(Host) -> Host;

impl GlobalArgs {
    /// Whether status lines are shown.
    const fn status_lines(&self) -> StatusLines {
        match self.quiet {
            true => StatusLines::Suppressed,
            false => StatusLines::Shown,
        }
    }

    /// Opens the `--log` file and logs the command line.
    fn open_log(&mut self) -> Result<(), Failure> {
        let Some(path) = &self.log else { return Ok(()) };
        let log = EventLog::open(path)?;
        log.note("start", &process::command_line());
        self.event_log = Some(log);
        Ok(())
    }

    /// The files that the user names, for a subcommand that needs no machine.
    fn user_files(&self) -> UserFiles {
        UserFiles::new(self.event_log.clone())
    }

    /// Opens the machine to work on: the active one, or the recorded one of `--root`.
    ///
    /// # Errors
    /// The recording cannot be read, or the directory is not a recording.
    fn open<'a>(&self, ui: &'a Ui) -> Result<WorkContext<'a>, Failure> {
        let (root, state) = (self.root.as_deref(), self.state.as_deref());
        let mut work = WorkContext::open(ui, root, state, self.event_log.as_ref())?;
        if let Some(prepare) = self.prepare.filter(|_| root.is_some()) {
            work.host = prepare(work.host);
        }
        Ok(work)
    }

    /// Opens the live machine, for a subcommand that changes or measures it.
    ///
    /// # Errors
    /// There is a `--root`, or the machine cannot be opened.
    fn open_live<'a>(&self, ui: &'a Ui) -> Result<WorkContext<'a>, Failure> {
        match self.root {
            Some(_) => Err(refuse_recorded()),
            None => self.open(ui),
        }
    }

    /// Opens the machine to change.
    ///
    /// # Errors
    /// The machine is recorded, or it cannot be opened.
    fn open_to_change<'a>(&self, ui: &'a Ui) -> Result<WorkContext<'a>, Failure> {
        let work = self.open(ui)?;
        if work.host.can_change() { Ok(work) } else { Err(refuse_recorded()) }
    }
}

/// The error of a subcommand that changes or measures a machine, with `--root`.
fn refuse_recorded() -> Failure {
    Failure::usage("a recorded machine cannot be changed or measured")
        .hint("omit --root")
        .hint("or show a plan for it: cpushield plan --root DIR, cpushield boot plan --root DIR")
}

/// Makes the subcommands of a row for each: its variant, and the module with its arguments, its
/// help and what it does.
macro_rules! subcommands {
    ($($variant:ident $module:ident::$args:ident,)+) => {
        /// The subcommands. The help of each is the doc of its `Args`; a doc here would replace it
        #[derive(Debug, Subcommand)]
        pub enum CliCommand {
            $($variant($module::$args),)+
        }

        /// The end of the help of each subcommand.
        const HELP_TAILS: &[(&str, &HelpTail)] = &[$((stringify!($variant), &$module::HELP),)+];

        fn run_subcommand(ui: &Ui, cli: Cli) -> Result<ExitCode, Failure> {
            match cli.command {
                $(CliCommand::$variant(args) => {
                    $module::run(ui, &cli.global, &args).map(SubcommandEnd::exit_code)
                })+
            }
        }
    };
}

subcommands! {
    Try try_shield::TryArgs,
    Survey survey::SurveyArgs,
    Plan plan::PlanArgs,
    Apply apply::ApplyArgs,
    Enable enable::EnableArgs,
    Disable disable::DisableArgs,
    Boot boot::BootArgs,
    Run run::RunArgs,
    Add add::AddArgs,
    Remove remove::RemoveArgs,
    Status status::StatusArgs,
    Verify verify::VerifyArgs,
    Latency latency::LatencyArgs,
    Compare compare::CompareArgs,
    Experiment experiment::ExperimentArgs,
    Watch watch::WatchArgs,
    Report report::ReportArgs,
    Undo undo::UndoArgs,
    Explain explain::ExplainArgs,
    Mask mask::MaskArgs,
    Completions completions::CompletionsArgs,
}

/// What a subcommand returns: an exit code, or nothing for success.
trait SubcommandEnd {
    fn exit_code(self) -> ExitCode;
}

impl SubcommandEnd for () {
    fn exit_code(self) -> ExitCode {
        ExitCode::SUCCESS
    }
}

impl SubcommandEnd for ExitCode {
    fn exit_code(self) -> ExitCode {
        self
    }
}

/// The end of the help of a subcommand, such as `boot plan`; the command itself has an empty name.
#[must_use]
pub fn help_tail(name: &str) -> &'static HelpTail {
    let mut all = HELP_TAILS.iter().chain(boot::HELP_TAILS);
    let own = all.find(|(subcommand, _)| subcommand.eq_ignore_ascii_case(name));
    own.map_or(&help::COMMAND, |(_, tail)| tail)
}

/// Parses the command line, runs the subcommand and shows a failure.
#[must_use]
pub fn run_command_line(args: &[OsString], prepare: Option<PrepareMachine>) -> ExitCode {
    // Without it only the message of a limit is lost.
    drop(signal::survive_file_size_limit());
    open_files::raise_limit();
    if inner::is_internal(args) {
        let ui = Ui::new(OutputFormat::Text, StatusLines::Shown);
        return show_and_exit(
            &ui,
            inner::run(&ui, inner::InternalArgs::parse_from(args)).map(|()| ExitCode::SUCCESS),
        );
    }
    match parse(args) {
        Ok(mut cli) => {
            cli.global.prepare = prepare;
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
            let failure = if is_run(args) { fail_before_start(failure) } else { failure };
            show_and_exit(&Ui::new(OutputFormat::Json, StatusLines::Shown), Err(failure))
        }
        Err(error) if error.use_stderr() && is_run(args) => {
            // Like `env`: every other exit code belongs to the program.
            let _ = error.print();
            ExitCode::from(FailureKind::NotStarted.code())
        }
        Err(error) if error.use_stderr() => {
            // If standard error is closed, there is no place to report that.
            let _ = error.print();
            ExitCode::from(FailureKind::Usage.code())
        }
        // A help or the version.
        Err(shown) => {
            let ui = Ui::new(OutputFormat::Text, StatusLines::Shown);
            let text = shown.render().ansi().to_string();
            show_and_exit(&ui, ui.text(&text).map(|()| ExitCode::SUCCESS))
        }
    }
}

/// The definition of the command line, with examples and exit codes.
#[must_use]
pub fn command() -> clap::Command {
    let tail = help::COMMAND.text(true) + help::RUN_EXIT_CODE;
    with_tails(Cli::command().after_long_help(tail), "")
}

/// Completes the definition of all subcommands. `parent` is the name of the command and a space.
fn with_tails(command: clap::Command, parent: &str) -> clap::Command {
    let names: Vec<String> =
        command.get_subcommands().map(|sub| sub.get_name().to_owned()).collect();
    names.into_iter().fold(command.mut_args(with_negative_values), |command, name| {
        let path = format!("{parent}{name}");
        let tail = help_tail(&path);
        let nested = format!("{path} ");
        command.mut_subcommand(name, |sub| {
            let text = tail.text(help::takes_time(&sub));
            with_tails(sub.after_long_help(text), &nested)
        })
    })
}

/// Passes negative values to the parsers of numbers and times, which refuse them. Otherwise clap
/// takes `-5s` for an option and suggests `-- -5s`, which some subcommands would run as a program.
fn with_negative_values(arg: clap::Arg) -> clap::Arg {
    let has = |names: &[&str]| {
        let mut values = arg.get_value_names().unwrap_or_default().iter();
        values.any(|value| names.contains(&value.as_str()))
    };
    match (has(&["TIME", "R/D/P"]), has(&["N", "P", "PRIORITY", "LIST", "PID|TID"])) {
        (true, _) => arg.allow_hyphen_values(true),
        (_, true) => arg.allow_negative_numbers(true),
        _ => arg,
    }
}

fn parse(args: &[OsString]) -> Result<Cli, clap::Error> {
    let mut command = command();
    let matches = command.try_get_matches_from_mut(args);
    let mut matches = matches
        .map_err(|error| with_other_words(without_hidden(error, &command), &command, args))?;
    Cli::from_arg_matches_mut(&mut matches)
}

/// Takes hidden subcommands out of an error. Where a subcommand is missing, clap lists all.
fn without_hidden(mut error: clap::Error, command: &clap::Command) -> clap::Error {
    if let Some(ContextValue::Strings(names)) = error.get(ContextKind::ValidSubcommand) {
        let hidden = hidden_subcommands(command);
        let shown = names.iter().filter(|name| !hidden.contains(&name.as_str()));
        let shown = ContextValue::Strings(shown.cloned().collect());
        error.insert(ContextKind::ValidSubcommand, shown);
    }
    error
}

fn hidden_subcommands(command: &clap::Command) -> Vec<&str> {
    let all = command.get_subcommands();
    all.flat_map(|sub| {
        let own = sub.is_hide_set().then_some(sub.get_name());
        own.into_iter().chain(hidden_subcommands(sub))
    })
    .collect()
}

/// Whether the subcommand of a command line that does not parse is `run`.
fn is_run(args: &[OsString]) -> bool {
    let global = GlobalArgs::augment_args(clap::Command::default());
    let takes_value = |word: &str| {
        let mut options = global.get_arguments().filter(|arg| arg.get_action().takes_values());
        options.any(|arg| arg.get_long().is_some_and(|long| word.strip_prefix("--") == Some(long)))
    };
    let mut args = args.iter().skip(1);
    while let Some(arg) = args.next() {
        match arg.to_str() {
            Some(option) if takes_value(option) => drop(args.next()),
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
    log_end(log.as_ref(), &result);
    result
}

fn log_end<T>(log: Option<&EventLog>, result: &Result<T, Failure>) {
    if let Some(log) = log {
        let failure = result.as_ref().err().map(ToString::to_string);
        log.note("end", failure.as_deref().unwrap_or("without an error"));
    }
}

#[cfg(test)]
mod tests;
