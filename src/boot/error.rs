//! The errors of planning, writing and removing boot parameters.

use crate::documents::boot::{FaultyWord, LintFinding, SkippedParameter};
use crate::documents::command_line_fault::CommandLineFault;
use crate::plan::PlanRefusal;
use cpushield_linux::{CpuSet, Error};
use std::fmt;

/// Why boot parameters cannot be planned, written or removed.
#[derive(Debug)]
pub enum BootError {
    /// A file or a program of the machine failed.
    Access(Error),
    /// The CPUs cannot be shielded.
    Refused(PlanRefusal),
    /// The boot CPU is among them.
    BootCpu {
        /// The requested CPUs.
        cpus: CpuSet,
    },
    /// A file of the loader is not understood, so nothing is written.
    Unparsable {
        /// The file.
        path: String,
        /// Where and what, `line 3: …`.
        why: String,
    },
    /// A pattern or a word with characters that are special to a boot loader.
    NotPlain {
        /// What it is, `--kernels`.
        what: String,
        /// The text.
        text: String,
    },
    /// A kernel parameter that the user wrote cannot be written.
    FaultyWord(Box<FaultyWord>),
    /// No parameter of this name.
    NoSuchParameter {
        /// The name.
        name: String,
        /// Similar names.
        near: Vec<String>,
    },
    /// A parameter that this tool does not write.
    Never {
        /// The name.
        name: String,
        /// Why.
        why: &'static str,
    },
    /// No kernel of the menu matches.
    NoKernel {
        /// The requested kernels.
        asked: String,
        /// The versions in the menu.
        known: Vec<String>,
    },
    /// No boot menu can be read, and the running kernel does not match.
    NotRunning {
        /// The requested kernels.
        asked: String,
        /// The version of the running kernel.
        running: String,
    },
    /// The chosen kernels cannot get the same parameters.
    MixedKernels {
        /// A kernel that has `nohz_full=`.
        with: String,
        /// A kernel that does not have it.
        without: String,
    },
    /// It is unknown whether one of the chosen kernels has parameters that another one has.
    UndecidedKernel {
        /// A kernel that has one of them.
        with: String,
        /// The other kernel.
        undecided: String,
        /// The names of the parameters, for `--on`.
        parameters: Vec<&'static str>,
    },
    /// The parameters contradict those that a kernel already has.
    Conflict {
        /// The kernel.
        version: String,
        /// The file, and the line if known, that has the contradicting parameter.
        place: String,
        /// What contradicts.
        why: String,
    },
    /// The kernel would ignore a parameter that it already has, because the lists differ.
    ListsDiffer {
        /// The kernel.
        version: String,
        /// The file, and the line if known, that has the contradicting parameter.
        place: String,
        /// What the kernel would do.
        fault: Box<CommandLineFault>,
        /// CPUs that are outside the scheduling domains now.
        isolcpus: CpuSet,
    },
    /// A kernel would ignore words, or start without CPUs that they name.
    Defeated {
        /// The kernel.
        version: String,
        /// The planned words that it is about, each with the reason why it is planned.
        words: Vec<String>,
        /// The file, and the line if known, with the other word, or of the kernel's entry; `None`
        /// without a menu.
        place: Option<String>,
        /// What is wrong with the line that the kernel would get.
        finding: Box<LintFinding>,
    },
    /// None of the parameters applies to the chosen kernels.
    NothingApplies {
        /// Parameters that are always proposed, each with the reason why it does not apply.
        skipped: Vec<SkippedParameter>,
    },
    /// Nothing can be written here.
    ByHand {
        /// Why.
        why: String,
        /// The steps for the user.
        instructions: Vec<String>,
    },
    /// Other parameters are written already.
    Active {
        /// The words.
        words: Vec<String>,
    },
    /// A trial was written and has not been concluded.
    TrialPending {
        /// The words of the trial.
        words: Vec<String>,
    },
    /// A trial has no word that is not already written, so its boot looks like any other one.
    TrialOfPart {
        /// The words of the trial.
        words: Vec<String>,
        /// The words that are written.
        written: Vec<String>,
    },
    /// An earlier apply or undo was interrupted.
    Unfinished,
    /// The journal of boot files is invalid.
    Journal {
        /// The file.
        path: String,
        /// What is wrong.
        why: String,
    },
    /// A file has the name of a file of cpushield, but cpushield did not make it.
    Foreign {
        /// The file.
        path: String,
    },
    /// Too little free space, or a read-only file system.
    NoRoom {
        /// The directory.
        path: String,
        /// Why.
        why: String,
    },
    /// The loader's files or its menu are not as expected.
    Wrong {
        /// Why.
        why: String,
        /// The steps for the user.
        hint: Option<String>,
    },
    /// No trial is under way.
    NoTrial,
    /// The machine was not rebooted since the trial was armed.
    NotBooted {
        /// The entry that boots once.
        entry: String,
    },
    /// A step failed after the first write.
    Failed {
        /// Why.
        why: String,
        /// What was being written.
        written: WrittenFiles,
        /// The error while the files were restored; `None`: every file is as it was.
        undone: Option<String>,
        /// The steps for the user.
        hint: Option<String>,
    },
    /// A test stopped it, as a kill would.
    Killed,
}

impl BootError {
    /// The loader's files or its menu are not as expected.
    pub(super) fn wrong(why: String, hint: Option<&str>) -> BootError {
        BootError::Wrong { why, hint: hint.map(str::to_owned) }
    }

    /// The loader cannot boot an entry just once.
    pub(super) fn cannot_boot_once(why: impl fmt::Display) -> BootError {
        BootError::Wrong {
            why: format!("this machine cannot boot a trial: {why}"),
            hint: Some(
                "bypass the loader: --trial --kexec; or omit the trial and keep the current \
                 default entry: cpushield boot apply --keep-default"
                    .to_owned(),
            ),
        }
    }
}

impl From<Error> for BootError {
    fn from(error: Error) -> BootError {
        if error.is_stop() { BootError::Killed } else { BootError::Access(error) }
    }
}

impl From<PlanRefusal> for BootError {
    fn from(refused: PlanRefusal) -> BootError {
        BootError::Refused(refused)
    }
}

impl fmt::Display for BootError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BootError::Access(error) => error.fmt(f),
            BootError::Refused(refused) => refused.fmt(f),
            BootError::BootCpu { cpus } => write!(f, "CPU {cpus} {BOOT_CPU}"),
            BootError::Unparsable { path, why } => {
                write!(f, "cannot parse {path}; nothing was written\n  cause: {why}")
            }
            BootError::NotPlain { what, text } => {
                write!(f, "{what} {text:?} {NOT_PLAIN}")
            }
            BootError::FaultyWord(word) => word.fmt(f),
            BootError::NoSuchParameter { name, .. } => {
                write!(f, "there is no boot parameter {name:?}")
            }
            BootError::Never { name, why } => write!(f, "cpushield never writes {name}: {why}"),
            BootError::NoKernel { asked, known } => write!(
                f,
                "no kernel in the boot menu matches {asked}; the menu has {}",
                if known.is_empty() { "none".to_owned() } else { known.join(", ") }
            ),
            BootError::NotRunning { asked, running } => write_not_running(f, asked, running),
            BootError::MixedKernels { with, without } => write_mixed(f, with, without),
            BootError::UndecidedKernel { with, undecided, parameters } => {
                write_undecided(f, with, undecided, parameters)
            }
            BootError::Conflict { version, place, why } => {
                write!(f, "kernel {version}: {why}\n  file:  {place}")
            }
            BootError::ListsDiffer { version, place, fault, .. } => {
                write!(f, "kernel {version}: {fault}\n  file:  {place}")
            }
            BootError::Defeated { version, words, place, finding } => {
                write!(f, "kernel {version}: {finding}")?;
                write_places(f, words, place.as_deref())
            }
            BootError::NothingApplies { skipped } => write_nothing_applies(f, skipped),
            BootError::ByHand { why, instructions } => {
                write!(f, "{why}; nothing was written. By hand:")?;
                instructions.iter().try_for_each(|line| write!(f, "\n  {line}"))
            }
            BootError::Active { words } => {
                write!(f, "other boot parameters are already written: {}", words.join(" "))
            }
            BootError::TrialPending { words } => write!(f, "{TRIAL_PENDING}: {}", words.join(" ")),
            BootError::TrialOfPart { words, written } => write_part(f, words, written),
            BootError::Unfinished => {
                f.write_str("an earlier `boot apply` or `boot undo` was interrupted")
            }
            BootError::Journal { path, why } => write!(f, "{path}: {why}"),
            BootError::Foreign { path } => {
                write!(f, "{path} exists and was not made by cpushield; nothing was written")
            }
            BootError::NoRoom { path, why } => write!(f, "cannot write to {path}: {why}"),
            BootError::Wrong { why, .. } => f.write_str(why),
            BootError::NoTrial => f.write_str("no trial boot is pending"),
            BootError::NotBooted { entry } => {
                write!(f, "cannot conclude the trial of {entry}: the machine was not rebooted yet")
            }
            BootError::Failed { why, undone: None, .. } => {
                write!(f, "{why}\n  undone: every file is as it was")
            }
            BootError::Failed { why, undone: Some(error), .. } => {
                write!(f, "{why}\n  not undone: {error}")
            }
            BootError::Killed => f.write_str("killed by a test"),
        }
    }
}

/// The files that were being written when a step failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WrittenFiles {
    /// Those of the boot loader.
    Loader,
    /// Those that `enable` writes for the init system.
    AtEveryBoot,
}

impl WrittenFiles {
    /// How to restore them when that failed.
    #[must_use]
    pub const fn undo_hint(self) -> &'static str {
        match self {
            WrittenFiles::Loader => "to restore the boot files: cpushield boot undo",
            WrittenFiles::AtEveryBoot => "to remove what is left: cpushield disable",
        }
    }
}

const BOOT_CPU: &str =
    "cannot be prepared at boot: CPU 0 starts the others and keeps time for them";
const TRIAL_PENDING: &str = "a trial of boot parameters has not been concluded yet";
const NOT_PLAIN: &str = "is empty or has characters that are special to a boot loader";

fn write_not_running(f: &mut fmt::Formatter<'_>, asked: &str, running: &str) -> fmt::Result {
    write!(
        f,
        "{asked} does not match {running}: without a boot menu that cpushield can read, the \
         parameters are for the running kernel"
    )
}

fn write_part(f: &mut fmt::Formatter<'_>, words: &[String], written: &[String]) -> fmt::Result {
    let (words, written) = (words.join(" "), written.join(" "));
    write!(
        f,
        "cannot try {words}: {written} is already written, so nothing would distinguish the trial \
         boot from any other boot"
    )
}

fn write_nothing_applies(f: &mut fmt::Formatter<'_>, skipped: &[SkippedParameter]) -> fmt::Result {
    f.write_str("no kernel parameter applies to the chosen kernels: nothing was written")?;
    skipped.iter().try_for_each(|it| write!(f, "\n  {}: {}", it.name, it.reason))
}

fn write_places(f: &mut fmt::Formatter<'_>, words: &[String], file: Option<&str>) -> fmt::Result {
    words.iter().try_for_each(|word| write!(f, "\n  word:  {word}"))?;
    file.map_or(Ok(()), |file| write!(f, "\n  file:  {file}"))
}

fn write_mixed(f: &mut fmt::Formatter<'_>, with: &str, without: &str) -> fmt::Result {
    write!(
        f,
        "kernel {with} supports nohz_full= but kernel {without} does not: they cannot get the same \
         parameters"
    )
}

fn write_undecided(
    f: &mut fmt::Formatter<'_>,
    with: &str,
    undecided: &str,
    parameters: &[&str],
) -> fmt::Result {
    write!(
        f,
        "kernel {with} supports {}, but it is unknown whether kernel {undecided} does",
        parameters.join(" and ")
    )
}

impl std::error::Error for BootError {}
