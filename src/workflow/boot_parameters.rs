//! Plans and writes kernel parameters for the next boot, and starts a kernel with them.

use super::machine_survey::survey_machine;
use super::measured_row;
use super::root_files::{RootFile, warn_of_other_users};
use super::shield_options::{ONE_SHIELD, ShieldOptions};
use super::{WorkContext, absolute_path};
use crate::boot::WordSource;
use crate::boot::line::contradicts;
use crate::boot::loaders::BootFilePlan;
use crate::boot::plan::{BootRequest, plan};
pub use crate::boot::write::{DefaultEntry, EntryStart, ParameterTerm};
pub use crate::boot::{TrialDeadline, TrialGoal};
use crate::boot::{UnknownWords, earlier, goal_of_this_boot, kexec, status, write};
use crate::change::EffectTime;
use crate::documents::boot::{BootPlan, BootStatus, UndoneParameters, WrittenParameters};
use crate::documents::machine::Machine;
use crate::failure::Failure;
use crate::policy::RequestedParameter;
use cpushield_linux::Host;
use std::path::PathBuf;
use std::time::Duration;

/// The kernels that get the parameters, and parameters of the user's own
#[derive(Debug, Clone, Default, PartialEq, Eq, clap::Args)]
pub struct BootOptions {
    /// Kernels to configure, as a version glob: `*-rt-*` [default: all real-time kernels, or the
    /// default kernel if there are none]
    #[arg(long, value_name = "GLOB")]
    pub kernels: Option<String>,
    /// Add a kernel parameter of your own: `nohlt`, `radeon.modeset=0`; repeatable
    #[arg(long, value_name = "WORD[=VALUE]")]
    pub parameter: Vec<String>,
    /// Accept parameters that are neither in the kernel's documentation nor parameters of its
    /// modules
    #[arg(long)]
    pub allow_unknown: bool,
    /// Take the kernel parameters from a row of this experiment (`experiment -o`) instead of a
    /// shield; they are written for the kernel of that measurement
    #[arg(long, value_name = "FILE", requires = "row", conflicts_with_all = ONE_SHIELD)]
    #[arg(conflicts_with_all = ["parameter", "allow_unknown", "policy"])]
    pub from: Option<PathBuf>,
    /// Name of the row in the --from file
    #[arg(long, value_name = "NAME", requires = "from")]
    pub row: Option<String>,
}

/// Plans the parameters that this shield and these options need.
///
/// # Errors
/// The request is wrong, unsafe or impossible, or the boot loader's files cannot be parsed.
pub fn plan_boot(
    work: &WorkContext<'_>,
    options: &ShieldOptions,
    boot: &BootOptions,
) -> Result<BootPlan, Failure> {
    plan_boot_of(work, &survey_machine(&work.host, &work.store), options, boot)
}

/// The same for this machine, which was surveyed before.
///
/// # Errors
/// As [`plan_boot`].
pub(super) fn plan_boot_of(
    work: &WorkContext<'_>,
    machine: &Machine,
    options: &ShieldOptions,
    boot: &BootOptions,
) -> Result<BootPlan, Failure> {
    let WorkContext { host, store, .. } = work;
    if let Some(name) = boot.from.as_deref().zip(boot.row.as_deref()) {
        let row = measured_row::read(host, machine, name, boot.kernels.as_deref())?;
        let menu = earlier::find_menu(host, store)?;
        return Ok(plan(host, machine, WordSource::Given(&row), menu.as_ref())?);
    }
    let mut shield = options.resolve(host, machine, EffectTime::Boot)?.request;
    // A word of the command line replaces that of the policy.
    shield.parameters.retain(|it| !boot.parameter.iter().any(|word| contradicts(&it.word, word)));
    shield.parameters.extend(
        boot.parameter
            .iter()
            .map(|word| RequestedParameter { word: word.clone(), place: "--parameter".to_owned() }),
    );
    let unknown_words = match boot.allow_unknown {
        true => UnknownWords::Accept,
        false => UnknownWords::Refuse,
    };
    let request = BootRequest { shield, kernels: boot.kernels.clone(), unknown_words };
    let menu = earlier::find_menu(host, store)?;
    Ok(plan(host, machine, WordSource::Request(&request), menu.as_ref())?)
}

/// How the parameters are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BootOrder {
    /// What becomes of the default entry of the boot loader.
    pub default_entry: DefaultEntry,
    /// Whether the machine boots with them only once at first.
    pub term: ParameterTerm,
    /// What starts the kernel.
    pub start: EntryStart,
    /// What must come up in the trial's boot.
    pub until: TrialWait,
    /// How long it may take, from the start of the kernel.
    pub within: Duration,
}

/// What must come up in a trial's boot, or else the machine falls back to the old entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrialWait {
    /// What this boot has: a login and a network, or a login, or nothing.
    AsThisBoot,
    /// This.
    For(TrialGoal),
    /// Nothing.
    Nothing,
}

impl BootOrder {
    /// A trial boot as `boot apply --trial` orders it.
    pub(super) fn trial() -> BootOrder {
        BootOrder {
            default_entry: DefaultEntry::Ours,
            term: ParameterTerm::Trial,
            start: EntryStart::BootLoader,
            until: TrialWait::AsThisBoot,
            within: Duration::from_secs(300),
        }
    }

    /// What the trial waits for on this machine; `None`: nothing.
    fn deadline(&self, host: &Host) -> Option<TrialDeadline> {
        let goal = match self.until {
            TrialWait::AsThisBoot => goal_of_this_boot(host),
            TrialWait::For(goal) => Some(goal),
            TrialWait::Nothing => None,
        };
        // A part of a second counts as a whole one.
        let within_s = self.within.as_millis().div_ceil(1000);
        let within_s = u64::try_from(within_s).unwrap_or(u64::MAX);
        let is_trial = self.term == ParameterTerm::Trial;
        goal.filter(|_| is_trial).map(|goal| TrialDeadline { goal, within_s })
    }
}

/// What [`write_boot`] would write; `None` if every parameter is already present.
///
/// # Errors
/// As [`write_boot`].
pub fn preview_boot(
    work: &WorkContext<'_>,
    plan: &BootPlan,
    order: &BootOrder,
) -> Result<Option<BootFilePlan>, Failure> {
    check_order(&work.host, plan, order)?;
    let recipe = write::preview(&work.host, &work.store, plan, &write_mode(work, order))?;
    Ok((!write::words(plan).is_empty()).then_some(recipe))
}

/// Writes the parameters into the boot loader's files.
///
/// # Errors
/// The files cannot be written, kexec is impossible, or a trial is to wait for what nothing checks.
pub fn write_boot(
    work: &WorkContext<'_>,
    plan: &BootPlan,
    order: &BootOrder,
) -> Result<WrittenParameters, Failure> {
    let WorkContext { ui, host, store, .. } = work;
    check_order(host, plan, order)?;
    ui.status("writing boot files …");
    let (mode, is_trial) = (write_mode(work, order), order.term == ParameterTerm::Trial);
    if let Some(run) = mode.program.as_ref().filter(|_| is_trial) {
        warn_of_other_users(work, RootFile::Program(&run.program), "the trial boot");
    }
    Ok(write::write(host, store, plan, &mode)?)
}

/// Checks that this machine can do what is ordered.
fn check_order(host: &Host, plan: &BootPlan, order: &BootOrder) -> Result<(), Failure> {
    if order.start == EntryStart::Kexec {
        kexec::possible(host, plan)?;
    }
    match order.until {
        TrialWait::For(goal) if !host.has_systemd() => Err(cannot_fall_back(goal)),
        _ => Ok(()),
    }
}

/// Why a trial that waits is refused: only units of systemd check what came up.
fn cannot_fall_back(goal: TrialGoal) -> Failure {
    Failure::machine(format!(
        "cannot check whether {goal} comes up in the trial boot: this machine does not use systemd"
    ))
    .hint("omit --until; if you cannot reach the machine during the trial boot, reset it")
}

/// How the parameters are written, on this machine.
fn write_mode(work: &WorkContext<'_>, order: &BootOrder) -> write::WriteMode {
    let WorkContext { host, state_dir, .. } = work;
    let program = host.read_link("/proc/self/exe").ok().filter(|_| host.has_systemd());
    let state_dir = absolute_path(state_dir);
    write::WriteMode {
        default_entry: order.default_entry,
        term: order.term,
        start: order.start,
        program: program.map(|program| write::TrialProgram { program, state_dir }),
        until: order.deadline(host),
    }
}

/// Starts the kernel that the parameters were written for, with kexec.
///
/// # Errors
/// The kernel cannot be loaded.
pub fn start_kernel(work: &WorkContext<'_>, written: &WrittenParameters) -> Result<(), Failure> {
    let started = kexec::start(&work.host, &work.store, written)?;
    work.ui.status(&match started.now {
        true => format!("starting {}", started.image.kernel),
        false => format!(
            "{} is loaded and starts when your init system reboots with kexec; or end all \
             programs, unmount all file systems and run `kexec -e`",
            started.image.kernel
        ),
    });
    Ok(())
}

/// Removes the parameters that [`write_boot`] wrote; `None` if there are none.
///
/// # Errors
/// A file could not be restored.
pub fn undo_boot(work: &WorkContext<'_>) -> Result<UndoneParameters, Failure> {
    Ok(write::undo(&work.host, &work.store)?.into())
}

/// Reads which parameters were requested, written and booted, and which are in force.
///
/// # Errors
/// The journal or the loader's files cannot be read.
pub fn read_boot_status(work: &WorkContext<'_>) -> Result<BootStatus, Failure> {
    Ok(status::status(&work.host, &work.store)?)
}
