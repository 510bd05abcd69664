//! `cpushield run`: runs a program in the shield.

use super::GlobalArgs;
use super::active::ActiveArgs;
use super::help::HelpTail;
use crate::failure::Failure;
use crate::input;
use crate::ui::Ui;
use crate::workflow::run_program::{
    ProgramCpus, ProgramRequest, fail_before_start, parse_deadline, run_program,
};
use cpushield_linux::SchedPolicy;
use std::ffi::OsString;
use std::process::ExitCode;

/// Run a program in the shield
///
/// By default, the program runs under SCHED_OTHER on the shielded CPU with the fewest programs.
/// Programs outside the shield do not compete with it there. A real-time priority therefore helps
/// only if threads in the shield compete with each other. The command forwards signals to the
/// program and returns its exit status (128+n for signal n).
///
/// With --fifo or --rr, the kernel threads of the program's CPU (rcuc, ktimers, ksoftirqd and
/// others) run at a higher priority until the program ends. The kernel hangs if they cannot run, so
/// the highest priority of a program is 98.
///
/// The environment variable CPUSHIELD_CPUS lists the program's CPUs. LinuxCNC reads its CPU from
/// RTAPI_CPU_NUMBER. Unless you have set that variable, cpushield sets it to the highest of the
/// program's CPUs.
#[derive(Debug, clap::Args)]
pub struct RunArgs {
    /// The active shield
    #[command(flatten)]
    active: ActiveArgs,
    /// The shielded CPU to run on
    #[arg(long, value_name = "N", conflicts_with = "spread",
          value_parser = input::cpu_number)]
    cpu: Option<usize>,
    /// Spread the program's threads over the shielded CPUs as they start, one per CPU
    ///
    /// A shield has no load balancing, so threads stay on the CPU where they start. Do not use this
    /// for programs that place their threads themselves.
    #[arg(long)]
    spread: bool,
    /// SCHED_FIFO with this priority, 1 to 99; 99 becomes 98, because kernel threads need a higher
    /// priority
    #[arg(long, value_name = "P", group = "policy", value_parser = input::priority)]
    fifo: Option<u32>,
    /// SCHED_RR with this priority, 1 to 99; 99 becomes 98, because kernel threads need a higher
    /// priority
    #[arg(long, value_name = "P", group = "policy", value_parser = input::priority)]
    rr: Option<u32>,
    /// SCHED_DEADLINE: RUNTIME/DEADLINE/PERIOD, for example 300us/1ms/1ms
    #[arg(long, value_name = "R/D/P", group = "policy", value_parser = parse_deadline)]
    deadline: Option<SchedPolicy>,
    /// Highest priority that the program itself sets, 1 to 98; the kernel threads of the shield's
    /// CPUs get a higher priority
    #[arg(long, value_name = "P", group = "policy", value_parser = input::lower_priority)]
    own_priority: Option<u32>,
    /// Nice value under SCHED_OTHER, -20 to 19
    #[arg(long, value_name = "N", group = "policy", allow_negative_numbers = true,
          value_parser = input::nice)]
    nice: Option<i32>,
    /// User and group of the program, by name or number
    #[arg(long, value_name = "USER[:GROUP]")]
    user: Option<String>,
    /// Remove the limit on locked memory; after one second, report whether the program has locked
    /// memory
    #[arg(long)]
    lock_memory: bool,
    /// `verify` watches the program
    #[arg(long, hide = true)]
    watched: bool,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// The end of its help.
pub(super) const HELP: HelpTail = HelpTail {
    examples: &[
        (
            "cpushield run -- ./control --rate 1000",
            "run it on the shielded CPU with the fewest programs",
        ),
        (
            "cpushield run --cpu 3 --fifo 80 -- ./control",
            "run it on CPU 3 with a real-time priority",
        ),
        ("cpushield run --spread --user ada -- ./solver", "run one thread per CPU, as user ada"),
    ],
    exit_codes: &[
        ("125", "cpushield failed before it started the program"),
        ("126", "the program cannot be executed"),
        ("127", "the program was not found"),
        ("*", "the program's own status, or 128 + N when signal N ended it"),
    ],
};

/// Runs the subcommand. Returns only if the program could not be started, or if this process stayed
/// as its parent.
///
/// # Errors
/// There is no shield, or the program cannot be started with these options.
pub fn run(ui: &Ui, global: &GlobalArgs, args: &RunArgs) -> Result<ExitCode, Failure> {
    run_in_shield(ui, global, args).map_err(fail_before_start)
}

fn run_in_shield(ui: &Ui, global: &GlobalArgs, args: &RunArgs) -> Result<ExitCode, Failure> {
    let mut work = global.open_live(ui)?;
    args.active.select(&mut work)?;
    let request = ProgramRequest {
        cpus: if args.spread { ProgramCpus::Spread } else { ProgramCpus::One(args.cpu) },
        policy: requested_policy(args),
        own_priority: args.own_priority,
        is_watched: args.watched,
        user: args.user.clone(),
        lock_memory: args.lock_memory,
        command: args.command.clone(),
    };
    run_program(&work, &request)
}

/// The scheduling policy that an option requests.
fn requested_policy(args: &RunArgs) -> Option<SchedPolicy> {
    let fifo = args.fifo.map(|priority| SchedPolicy::Fifo { priority });
    let rr = args.rr.map(|priority| SchedPolicy::Rr { priority });
    let nice = args.nice.map(|nice| SchedPolicy::Other { nice });
    fifo.or(rr).or(args.deadline).or(nice)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[test]
    fn policies_exclude_each_other_and_the_program_keeps_its_dashes() {
        let parse = |line: &str| super::super::Cli::try_parse_from(line.split(' '));
        assert!(parse("cpushield run --fifo 50 --rr 50 -- true").is_err());
        assert!(parse("cpushield run --fifo 100 -- true").is_err());
        assert!(parse("cpushield run --own-priority 99 -- true").is_err());
        assert!(parse("cpushield run --cpu 3 --spread -- true").is_err());
        let cli = parse("cpushield run --nice -5 ls --color -l").unwrap();
        let super::super::CliCommand::Run(args) = cli.command else { panic!("run") };
        assert_eq!(args.command, ["ls", "--color", "-l"]);
        assert_eq!(requested_policy(&args), Some(SchedPolicy::Other { nice: -5 }));
    }
}
