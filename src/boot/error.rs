//! Why boot parameters are not planned, written or taken back.

use super::document::SkippedParameter;
use crate::plan::PlanRefusal;
use crate::survey::CommandLineFault;
use cpushield_linux::{CpuSet, Error};
use std::fmt;

/// Why boot parameters are not planned, written or taken back.
#[derive(Debug)]
pub enum BootError {
    /// The machine's answer.
    Access(Error),
    /// The CPUs cannot be shielded.
    Refused(PlanRefusal),
    /// The boot CPU is among them.
    BootCpu {
        /// The wished CPUs.
        cpus: CpuSet,
    },
    /// A file of the loader is not understood, so nothing is written.
    Unparsable {
        /// The file.
        path: String,
        /// Where and what, `line 3: …`.
        why: String,
    },
    /// A pattern or a word with characters that loaders take for something else.
    NotPlain {
        /// What it is, `--kernels`.
        what: String,
        /// The text.
        text: String,
    },
    /// No parameter of this name.
    NoSuchParameter {
        /// The name.
        name: String,
        /// Names that are near.
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
        /// What was asked for.
        asked: String,
        /// The versions there are.
        known: Vec<String>,
    },
    /// The parameters contradict what a kernel is given already.
    Conflict {
        /// The kernel.
        version: String,
        /// The file and the line where that stands, as far as is known.
        place: String,
        /// What contradicts.
        why: String,
    },
    /// The kernel would ignore a parameter that it is given already, because its list is another.
    ListsDiffer {
        /// The kernel.
        version: String,
        /// The file and the line where that stands, as far as is known.
        place: String,
        /// What the kernel would do.
        fault: Box<CommandLineFault>,
        /// CPUs that are out of the scheduling domains now.
        isolcpus: CpuSet,
    },
    /// None of the parameters applies to the chosen kernels.
    NothingApplies {
        /// Parameters that would be given, each with the reason why not.
        skipped: Vec<SkippedParameter>,
    },
    /// Nothing can be written here.
    ByHand {
        /// Why.
        why: String,
        /// What to do.
        instructions: Vec<String>,
    },
    /// Other parameters are written already.
    Active {
        /// The words.
        words: Vec<String>,
    },
    /// An apply or undo did not come to its end.
    Unfinished,
    /// The journal of boot files is not one.
    Journal {
        /// The file.
        path: String,
        /// What is wrong.
        why: String,
    },
    /// A file of our name is there that is not ours.
    Foreign {
        /// The file.
        path: String,
    },
    /// There is no room, or nothing can be written.
    NoRoom {
        /// The directory.
        path: String,
        /// Why.
        why: String,
    },
    /// What the loader makes is not what it must be.
    Wrong {
        /// Why.
        why: String,
        /// What to do.
        hint: Option<String>,
    },
    /// No trial is under way.
    NoTrial,
    /// The machine was not booted since the trial was armed.
    NotBooted {
        /// The entry that is to boot once.
        entry: String,
    },
    /// It failed after the first write.
    Failed {
        /// Why.
        why: String,
        /// What else went wrong while everything was put back; `None`: it is as it was.
        undone: Option<String>,
        /// What to do.
        hint: Option<String>,
    },
    /// A test stopped it, as a kill would.
    Killed,
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
            BootError::BootCpu { cpus } => write!(
                f,
                "CPU {cpus} cannot be prepared at boot: CPU 0 starts the others and keeps time for \
                 them"
            ),
            BootError::Unparsable { path, why } => {
                write!(f, "{path} is not understood, so nothing was written\n  cause: {why}")
            }
            BootError::NotPlain { what, text } => {
                write!(f, "{what} {text:?} contains characters that are special to a boot loader")
            }
            BootError::NoSuchParameter { name, .. } => {
                write!(f, "there is no boot parameter {name:?}")
            }
            BootError::Never { name, why } => write!(f, "{name} is not written: {why}"),
            BootError::NoKernel { asked, known } => write!(
                f,
                "no kernel of the boot menu matches {asked}; there are {}",
                if known.is_empty() { "none".to_owned() } else { known.join(", ") }
            ),
            BootError::Conflict { version, place, why } => {
                write!(f, "kernel {version}: {why}\n  file:  {place}")
            }
            BootError::ListsDiffer { version, place, fault, .. } => {
                write!(f, "kernel {version}: {fault}\n  file:  {place}")
            }
            BootError::NothingApplies { skipped } => {
                f.write_str(
                    "no kernel parameter applies to the chosen kernels: nothing is written",
                )?;
                skipped.iter().try_for_each(|it| write!(f, "\n  {}: {}", it.name, it.reason))
            }
            BootError::ByHand { why, instructions } => {
                write!(f, "{why}; nothing was written. By hand:")?;
                instructions.iter().try_for_each(|line| write!(f, "\n  {line}"))
            }
            BootError::Active { words } => {
                write!(f, "other boot parameters are written already: {}", words.join(" "))
            }
            BootError::Unfinished => {
                f.write_str("an earlier `boot apply` or `boot undo` did not come to its end")
            }
            BootError::Journal { path, why } => write!(f, "{path}: {why}"),
            BootError::Foreign { path } => {
                write!(f, "{path} is there and was not made by cpushield; nothing was written")
            }
            BootError::NoRoom { path, why } => {
                write!(f, "nothing can be written to {path}: {why}")
            }
            BootError::Wrong { why, .. } => f.write_str(why),
            BootError::NoTrial => f.write_str("no trial boot is under way"),
            BootError::NotBooted { entry } => {
                write!(f, "the trial of {entry} begins with the next boot")
            }
            BootError::Failed { why, undone: None, .. } => {
                write!(f, "{why}\n  undone: every boot file is as it was")
            }
            BootError::Failed { why, undone: Some(error), .. } => {
                write!(f, "{why}\n  not undone: {error}")
            }
            BootError::Killed => f.write_str("killed by a test"),
        }
    }
}

impl std::error::Error for BootError {}
