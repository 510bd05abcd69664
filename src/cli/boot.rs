//! `cpushield boot`: plans, writes, shows and removes kernel parameters for the next boot.

use super::GlobalArgs;
use super::help::{BUG, HelpTail, USAGE};
use super::paint::show;
use crate::failure::{Failure, FailureKind};
use crate::input::span;
use crate::report::{
    boot_plan_blocks, boot_recipe_blocks, boot_status_blocks, boot_trial_blocks,
    boot_undone_blocks, boot_written_blocks,
};
use crate::ui::Ui;
use crate::workflow::boot_parameters::{
    BootOptions, BootOrder, DefaultEntry, EntryStart, ParameterTerm, TrialDeadline, TrialGoal,
    TrialWait, plan_boot, preview_boot, read_boot_status, start_kernel, undo_boot, write_boot,
};
use crate::workflow::conclude::{conclude_trial, reboot_unless_reached};
use crate::workflow::shield_options::ShieldOptions;
use std::process::ExitCode;
use std::time::Duration;

/// Plan, write, show and remove kernel parameters for the next boot
///
/// Kernel parameters remove interruptions that `cpushield apply` cannot remove from the running
/// kernel: the timer tick, RCU callbacks, managed interrupts. They take effect at the next boot.
#[derive(Debug, clap::Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub struct BootArgs {
    /// The action
    #[command(subcommand)]
    command: BootCommand,
}

#[derive(Debug, clap::Subcommand)]
enum BootCommand {
    /// Show the kernel parameters and which kernels would get them
    ///
    /// The command changes nothing. `cpushield boot apply` writes the parameters.
    Plan(BootPlanArgs),
    /// Write the kernel parameters into the boot loader's files
    ///
    /// The original of every changed file is saved first; `cpushield boot undo` restores it.
    Apply(BootApplyArgs),
    /// Show which kernel parameters are requested, written, booted and in force
    Status,
    /// Remove the kernel parameters that `boot apply` wrote
    Undo,
    /// Conclude a trial boot: keep the parameters if the shield holds, otherwise remove them
    #[command(hide = true)]
    Conclude(ConcludeArgs),
}

#[derive(Debug, clap::Args)]
struct ConcludeArgs {
    /// Reboot into the old entry unless this comes up in time
    #[arg(long, value_name = "WHAT", requires = "within")]
    reboot_unless: Option<UntilArg>,
    /// The time limit, counted from the start of the kernel
    #[arg(long, value_name = "TIME", value_parser = span)]
    within: Option<Duration>,
}

/// What must come up in the trial's boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum UntilArg {
    /// A program that accepts logins: a getty, sshd, a display manager
    Login,
    /// A login, and a default route over an interface that is up
    Network,
    /// Nothing: the machine does not fall back automatically
    None,
}

impl UntilArg {
    fn goal(self) -> Option<TrialGoal> {
        match self {
            UntilArg::Login => Some(TrialGoal::Login),
            UntilArg::Network => Some(TrialGoal::Network),
            UntilArg::None => None,
        }
    }
}

#[derive(Debug, clap::Args)]
struct BootPlanArgs {
    /// The kernels
    #[command(flatten)]
    kernels: BootOptions,
    /// The shield
    #[command(flatten)]
    request: ShieldOptions,
}

#[derive(Debug, clap::Args)]
struct BootApplyArgs {
    /// Print the files that would be written and change nothing
    #[arg(long)]
    dry_run: bool,
    /// The kernels
    #[command(flatten)]
    kernels: BootOptions,
    /// Add the new entries after all others, so that the default entry does not change
    #[arg(long)]
    keep_default: bool,
    /// Boot with the parameters once; keep them if they are in force and `verify` finds that the
    /// shield holds, otherwise reboot into the old entry
    #[arg(long)]
    trial: bool,
    /// With `--trial`: what must come up in the trial boot; otherwise the machine reboots into the
    /// old entry [default: what is up now]
    #[arg(long, value_name = "WHAT", requires = "trial")]
    until: Option<UntilArg>,
    /// With `--trial`: time limit for `--until`, counted from the start of the kernel
    #[arg(long, value_name = "TIME", value_parser = span, requires = "trial")]
    #[arg(default_value = "5m")]
    within: Duration,
    /// Start the chosen kernel immediately with kexec, bypassing firmware and boot loader; running
    /// programs end as in a reboot
    #[arg(long)]
    kexec: bool,
    /// The shield
    #[command(flatten)]
    request: ShieldOptions,
}

impl BootApplyArgs {
    /// How the parameters are written.
    fn order(&self) -> BootOrder {
        let until = match self.until {
            None => TrialWait::AsThisBoot,
            Some(until) => until.goal().map_or(TrialWait::Nothing, TrialWait::For),
        };
        let default_entry = if self.keep_default { DefaultEntry::Kept } else { DefaultEntry::Ours };
        let term = if self.trial { ParameterTerm::Trial } else { ParameterTerm::Permanent };
        let start = if self.kexec { EntryStart::Kexec } else { EntryStart::BootLoader };
        BootOrder { default_entry, term, start, until, within: self.within }
    }
}

/// The end of its help.
pub(super) const HELP: HelpTail = HelpTail {
    examples: &[
        ("cpushield boot plan --cpus 2-3", "show the kernel parameters for the next boot"),
        (
            "cpushield boot apply --trial",
            "boot once with the parameters and keep them if the shield holds",
        ),
        (
            "cpushield boot status",
            "show which parameters are requested, written, booted and in force",
        ),
        ("cpushield boot undo", "remove the parameters"),
    ],
    exit_codes: &[
        ("0", "success"),
        ("1", "`boot status` only: a parameter is not written, not booted or not in force"),
        USAGE,
        ("3", "failure; the message says whether all files were restored"),
        BUG,
    ],
};

/// The ends of the help of the subcommands below it.
pub(super) const HELP_TAILS: &[(&str, &HelpTail)] = &[
    ("boot plan", &PLAN_HELP),
    ("boot apply", &APPLY_HELP),
    ("boot status", &STATUS_HELP),
    ("boot conclude", &CONCLUDE_HELP),
    ("boot undo", &UNDO_HELP),
];

/// The end of the help of `boot plan`.
const PLAN_HELP: HelpTail = HelpTail {
    examples: &[
        (
            "cpushield boot plan --cpus 2-3",
            "show the parameters for a boot with CPUs 2 and 3 shielded",
        ),
        ("cpushield boot plan --kernels '*-rt-*'", "only for real-time kernels"),
        (
            "cpushield boot plan --from results.json --row tickless",
            "use the parameters of a row of an experiment",
        ),
    ],
    exit_codes: &[
        ("0", "success: the parameters are listed"),
        USAGE,
        (
            "3",
            "failure: no parameter applies, one contradicts a kernel line, or a file is unreadable",
        ),
        BUG,
    ],
};

/// The end of the help of `boot apply`.
const APPLY_HELP: HelpTail = HelpTail {
    examples: &[
        ("cpushield boot apply --cpus 2-3 --dry-run", "only print the files"),
        ("cpushield boot apply --cpus 2-3", "add boot entries; reboot to use them"),
        (
            "cpushield boot apply --trial --until network --within 5m",
            "boot once; fall back to the old entry unless the network comes up in time",
        ),
        ("cpushield boot apply --parameter nohlt", "also add a parameter of your own"),
    ],
    exit_codes: &[
        ("0", "success: the parameters were written, or were already present"),
        USAGE,
        ("3", "failure; the message says whether all files were restored"),
        BUG,
    ],
};

/// The end of the help of `boot status`.
const STATUS_HELP: HelpTail = HelpTail {
    examples: &[
        (
            "cpushield boot status",
            "show which parameters are requested, written, booted and in force",
        ),
        ("cpushield boot status --json", "the same as JSON, for programs"),
    ],
    exit_codes: &[
        ("0", "every parameter is written, booted and in force"),
        ("1", "a parameter is not written, not booted or not in force"),
        USAGE,
        ("3", "failure: no parameters were written, or the operation failed"),
        BUG,
    ],
};

/// The end of the help of `boot conclude`.
const CONCLUDE_HELP: HelpTail = HelpTail {
    examples: &[(
        "cpushield boot conclude",
        "after a trial boot: keep the parameters if a shield holds (run automatically by systemd)",
    )],
    exit_codes: &[
        ("0", "success: the parameters are kept or removed"),
        USAGE,
        ("3", "failure: no trial boot is pending, or the boot files cannot be written"),
        BUG,
    ],
};

/// The end of the help of `boot undo`.
const UNDO_HELP: HelpTail = HelpTail {
    examples: &[("cpushield boot undo", "remove the parameters; the next boot uses the old ones")],
    exit_codes: &[
        ("0", "success: the boot loader's files are restored, or there was nothing to undo"),
        USAGE,
        ("3", "failure: a file cannot be restored; the journal is kept"),
        BUG,
    ],
};

/// Runs the subcommand.
///
/// # Errors
/// The request is wrong, or the boot loader's files cannot be read or written.
pub fn run(ui: &Ui, global: &GlobalArgs, args: &BootArgs) -> Result<ExitCode, Failure> {
    match &args.command {
        BootCommand::Plan(args) => return plan(ui, global, args),
        BootCommand::Apply(args) => apply(ui, global, args),
        BootCommand::Status => return status(ui, global),
        BootCommand::Undo => undo(ui, global),
        BootCommand::Conclude(args) => conclude(ui, global, args),
    }?;
    Ok(ExitCode::SUCCESS)
}

/// Runs `boot plan`.
///
/// # Errors
/// The request is wrong, unsafe or impossible, or the boot loader's files cannot be parsed.
fn plan(ui: &Ui, global: &GlobalArgs, args: &BootPlanArgs) -> Result<ExitCode, Failure> {
    let work = global.open(ui)?;
    let plan = plan_boot(&work, &args.request, &args.kernels)?;
    show(ui, &plan, || boot_plan_blocks(&plan))?;
    Ok(match plan.parameters.as_slice() {
        [] => ExitCode::from(FailureKind::Machine.code()),
        _ => ExitCode::SUCCESS,
    })
}

/// Runs `boot apply`.
///
/// # Errors
/// As [`plan`], or the boot loader's files cannot be written.
fn apply(ui: &Ui, global: &GlobalArgs, args: &BootApplyArgs) -> Result<(), Failure> {
    let work = match args.dry_run {
        true => global.open(ui)?,
        false => global.open_live(ui)?,
    };
    let plan = plan_boot(&work, &args.request, &args.kernels)?;
    let order = args.order();
    if args.dry_run {
        let recipe = preview_boot(&work, &plan, &order)?;
        return show(ui, &plan, || boot_recipe_blocks(recipe.as_ref()));
    }
    let written = write_boot(&work, &plan, &order)?;
    show(ui, &written, || boot_written_blocks(&written))?;
    if args.kexec { start_kernel(&work, &written) } else { Ok(()) }
}

/// Runs `boot conclude`.
///
/// # Errors
/// There is no trial boot, or its end cannot be written.
fn conclude(ui: &Ui, global: &GlobalArgs, args: &ConcludeArgs) -> Result<(), Failure> {
    let work = global.open_live(ui)?;
    if let (Some(goal), Some(within)) = (args.reboot_unless.and_then(UntilArg::goal), args.within) {
        let until = TrialDeadline { goal, within_s: within.as_secs() };
        let Some(end) = reboot_unless_reached(&work, until)? else { return Ok(()) };
        return show(ui, &end, || boot_trial_blocks(&end.end));
    }
    let end = conclude_trial(&work)?;
    show(ui, &end, || boot_trial_blocks(&end.end))
}

/// Runs `boot undo`.
///
/// # Errors
/// A file could not be restored.
fn undo(ui: &Ui, global: &GlobalArgs) -> Result<(), Failure> {
    let work = global.open_live(ui)?;
    let undone = undo_boot(&work)?;
    show(ui, &undone, || boot_undone_blocks(undone.removed.as_ref()))
}

/// Runs `boot status`. The exit code is 0 when every parameter is in force, 1 when one is not,
/// and 3 when none was written.
///
/// # Errors
/// The journal or the loader's files cannot be read.
fn status(ui: &Ui, global: &GlobalArgs) -> Result<ExitCode, Failure> {
    let work = global.open(ui)?;
    let status = read_boot_status(&work)?;
    show(ui, &status, || boot_status_blocks(&status))?;
    // If the kernel does not show whether a parameter is in force, the booted line decides.
    let mut words = status.words.iter();
    let in_force = words.all(|word| word.written && word.booted && word.in_force != Some(false));
    Ok(match status.words.as_slice() {
        [] => ExitCode::from(FailureKind::Machine.code()),
        _ if in_force => ExitCode::SUCCESS,
        _ => ExitCode::from(FailureKind::DoesNotHold.code()),
    })
}
