//! The command line: one file per subcommand, with its `Args` (their docs are the help) and `run`.

pub mod add;
pub mod apply;
pub mod attempt;
pub mod boot;
pub mod busy;
pub mod compare;
pub mod ending;
pub mod explain;
pub mod fix;
pub mod guard;
mod kept;
mod lab;
pub mod latency;
mod loads;
pub mod mask;
pub mod plan;
mod price;
pub mod remove;
pub mod report;
pub mod run;
pub mod sample;
pub mod saved;
mod scene;
mod settle;
mod shielding;
pub mod status;
pub mod survey;
pub mod trial;
pub mod undo;
pub mod verify;
pub mod watch;
pub mod wish;

use crate::failure::Failure;
use crate::plan::Plan;
use crate::survey::{Machine, survey_beside};
use crate::tunables;
use crate::ui::{Format, Ui};
use clap::{Parser, Subcommand};
use cpushield_linux::{Host, Store};
use std::path::PathBuf;
use std::process::ExitCode;

/// CPUs that nothing interrupts, proven
///
/// survey → plan → apply → run → verify → latency → report → undo. Start with `cpushield try`.
#[derive(Debug, Parser)]
#[command(name = "cpushield", version, propagate_version = true)]
pub struct Cli {
    /// What all subcommands know
    #[command(flatten)]
    pub global: Global,
    /// The subcommand
    #[command(subcommand)]
    pub command: Command,
}

/// Options of every subcommand
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Options of every subcommand")]
pub struct Global {
    /// Print one JSON document instead of text
    #[arg(long, global = true)]
    pub json: bool,
    /// Print only results, warnings and errors
    #[arg(long, short, global = true)]
    pub quiet: bool,
    /// Work on a machine recorded by `survey --record` instead of the live one
    #[arg(long, global = true, value_name = "DIR")]
    pub root: Option<PathBuf>,
    /// Where the journal is kept
    #[arg(long, global = true, value_name = "DIR", default_value = "/var/lib/cpushield")]
    pub state: PathBuf,
}

impl Global {
    /// The machine to work on: the live one, or the recorded one of `--root`.
    ///
    /// # Errors
    /// The recording cannot be read.
    pub fn host(&self) -> Result<Host, Failure> {
        match &self.root {
            None => Ok(Host::live()),
            Some(dir) => {
                let host = match Host::recorded(dir) {
                    Err(error) if error.is_absent() => {
                        let why = format!("{} is not there: no recorded machine", dir.display());
                        let hint = "`cpushield survey --record DIR` makes one";
                        return Err(Failure::usage(why).hint(hint));
                    }
                    host => host?,
                };
                // Of what a loader has written the boot commands need no more than these.
                if ["/proc", "/sys", "/boot"].iter().any(|dir| host.exists(dir)) {
                    return Ok(host);
                }
                let name = dir.display();
                let failure = Failure::usage(format!(
                    "{name} is no recorded machine: it has no proc, sys or boot"
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

/// The machine as it is. While a shield is up, what would interrupt its CPUs is not looked at.
pub(crate) fn surveyed(host: &Host, store: &Store) -> Machine {
    match crate::run::active(host, store) {
        Ok(Some(plan)) if host.is_live() => beside(host, store, &plan),
        _ => crate::survey::survey(host, &tunables::reads()),
    }
}

/// The machine while this shield is up, with what the shield's journal knows of interrupts.
pub(crate) fn beside(host: &Host, store: &Store, plan: &Plan) -> Machine {
    let mut machine = survey_beside(host, &tunables::reads(), &plan.shield.cpus);
    // A journal without outcomes leaves the plan.
    let outcomes = crate::apply::outcomes(host, store).unwrap_or_default();
    tunables::recall(&mut machine, plan, &outcomes);
    machine
}

/// The subcommands; the help of each is what its `Args` say: docs here would take their place
#[derive(Debug, Subcommand)]
pub enum Command {
    Try(attempt::Args),
    Survey(survey::Args),
    Plan(plan::Args),
    Apply(apply::Args),
    Run(run::Args),
    Add(add::Args),
    Remove(remove::Args),
    Status(status::Args),
    Verify(verify::Args),
    Latency(latency::Args),
    Compare(compare::Args),
    Trial(trial::Args),
    Watch(watch::Args),
    Report(report::Args),
    Undo(undo::Args),
    Explain(explain::Args),
    Mask(mask::Args),
    #[command(name = guard::HIDDEN, hide = true)]
    Guard(guard::Args),
    #[command(name = crate::load::HIDDEN, hide = true)]
    Load(busy::Args),
    /// A load of `latency`; not for people
    #[command(name = crate::load::WORKER, hide = true)]
    Work,
    /// The gap sampler of `verify`; not for people
    #[command(name = crate::verify::SAMPLER, hide = true)]
    Sample,
    /// The threads of `latency`; not for people
    #[command(name = crate::latency::HIDDEN, hide = true)]
    Measure,
}

/// Runs the subcommand. The exit code is 0, or the status of the program that `run` started.
///
/// # Errors
/// Whatever went wrong, with its exit code and hints.
pub fn dispatch(cli: Cli) -> Result<ExitCode, Failure> {
    let format = if cli.global.json { Format::Json } else { Format::Text };
    let ui = Ui { format, quiet: cli.global.quiet };
    match cli.command {
        Command::Try(args) => attempt::run(&ui, &cli.global, &args),
        Command::Guard(args) => guard::run(&cli.global, &args),
        Command::Load(args) => busy::run(&args),
        Command::Survey(args) => survey::run(&ui, &cli.global, &args),
        Command::Plan(args) => plan::run(&ui, &cli.global, &args),
        Command::Apply(args) => apply::run(&ui, &cli.global, &args),
        Command::Undo(args) => undo::run(&ui, &cli.global, &args),
        Command::Explain(args) => explain::run(&ui, &args),
        Command::Mask(args) => mask::run(&ui, &args),
        Command::Verify(args) => verify::run(&ui, &cli.global, &args),
        Command::Watch(args) => watch::run(&ui, &cli.global, &args),
        Command::Report(args) => report::run(&ui, &cli.global, &args),
        Command::Latency(args) => latency::run(&ui, &cli.global, &args),
        Command::Compare(args) => compare::run(&ui, &args),
        Command::Trial(args) => trial::run(&ui, &cli.global, &args),
        Command::Sample => {
            sample::run();
            Ok(())
        }
        Command::Work => {
            crate::load::serve_kind(&Host::live());
            Ok(())
        }
        Command::Measure => {
            crate::latency::serve(&Host::live());
            Ok(())
        }
        Command::Add(args) => add::run(&ui, &cli.global, &args),
        Command::Remove(args) => remove::run(&ui, &cli.global, &args),
        Command::Run(args) => return run::run(&ui, &cli.global, &args),
        Command::Status(args) => status::run(&ui, &cli.global, &args),
    }?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests;
