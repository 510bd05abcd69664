//! What a user should know about a shield that was applied, changed or undone. Pure.

use super::journal::DroppedLine;
use crate::documents::process_note::ProcessNote;
use crate::with_text;
use cpushield_linux::CpuSet;
use serde::Serialize;
use std::fmt;

/// What a user should know about a shield that was applied, changed or undone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "note", rename_all = "kebab-case")]
pub enum ShieldNote {
    /// Its CPUs or its classes of protection were changed.
    Changed {
        /// The shield.
        shield: String,
        /// CPUs that it got.
        added: CpuSet,
        /// CPUs that it no longer has.
        released: CpuSet,
    },
    /// It was in force already.
    Unchanged {
        /// The shield.
        shield: String,
    },
    /// It was in force, but lacked settings.
    Repaired {
        /// The shield.
        shield: String,
    },
    /// A repair did not do everything.
    RepairHalted {
        /// Why.
        why: String,
    },
    /// A shield of another boot is gone, and its journal was archived.
    Rebooted {
        /// The shield; `None` if its journal does not name it.
        shield: Option<String>,
        /// The archived journal.
        journal: String,
    },
    /// The summary for users other than root could not be written.
    NotPublished {
        /// The error.
        error: String,
    },
    /// A line of the journal could not be read.
    JournalLineDropped {
        /// The line.
        line: DroppedLine,
    },
    /// The journal of another boot could not be read completely.
    JournalIncomplete {
        /// What is wrong.
        error: String,
    },
    /// The journal could not be written during undo.
    JournalNotWritten {
        /// The answer of the kernel.
        answer: String,
    },
    /// The journal was removed, because it could not be archived.
    JournalRemoved {
        /// Why it could not be archived.
        answer: String,
    },
    /// The journal could neither be archived nor removed.
    JournalStays {
        /// Why it could not be archived.
        answer: String,
    },
    /// A kernel tracer of a killed measurement was stopped.
    TracerStopped,
    /// The settings of a kernel tracer could not be restored.
    TracerNotRestored {
        /// The error.
        error: String,
    },
    /// Traces of killed watches were removed.
    TracesRemoved {
        /// How many.
        traces: usize,
    },
    /// A program that was added is back where it was.
    ProgramMovedBack {
        /// Its name.
        comm: String,
        /// Its number.
        tid: i32,
    },
    /// A real-time program continues as an ordinary one.
    ProgramMadeOrdinary {
        /// Its name, number and former policy.
        program: String,
    },
    /// The programs in the shield could not be released.
    ProgramsNotReleased {
        /// The error.
        error: String,
    },
    /// The new CPUs of the programs in the shield could not be recorded.
    ProgramsNotRecorded {
        /// The error.
        error: String,
    },
    /// About one process.
    Process {
        /// The note.
        #[serde(with = "with_text")]
        process: ProcessNote,
    },
}

impl From<ProcessNote> for ShieldNote {
    fn from(process: ProcessNote) -> ShieldNote {
        ShieldNote::Process { process }
    }
}

impl fmt::Display for ShieldNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ShieldNote::Changed { shield, added, released } => {
                write!(f, "shield {shield} was changed: ")?;
                match (added.is_empty(), released.is_empty()) {
                    (false, false) => {
                        write!(f, "CPU {added} was added, CPU {released} was released")
                    }
                    (false, true) => write!(f, "CPU {added} was added"),
                    (true, false) => write!(f, "CPU {released} was released"),
                    (true, true) => f.write_str("its CPUs are the same"),
                }
            }
            ShieldNote::Unchanged { shield } => {
                write!(f, "shield {shield} is in force already; nothing was changed")
            }
            ShieldNote::Repaired { shield } => {
                write!(f, "shield {shield} was in force, but lacked some of its settings")
            }
            ShieldNote::RepairHalted { why } => f.write_str(why),
            ShieldNote::Rebooted { shield, journal } => {
                f.write_str("the machine was rebooted since ")?;
                match shield {
                    Some(shield) => write!(f, "shield {shield}")?,
                    None => f.write_str("a shield")?,
                }
                write!(f, " was applied, so nothing of it is left; its journal is now {journal}")
            }
            ShieldNote::NotPublished { error } => {
                write!(f, "`status` of other users does not show this: {error}")
            }
            ShieldNote::JournalLineDropped { line } => line.fmt(f),
            ShieldNote::JournalIncomplete { error } => {
                write!(f, "the journal is incomplete: {error}")
            }
            ShieldNote::JournalNotWritten { answer } => write!(
                f,
                "the journal could not be written ({answer}), so undo continued without it"
            ),
            ShieldNote::JournalRemoved { answer } => {
                write!(f, "the journal could not be archived ({answer}) and was removed")
            }
            ShieldNote::JournalStays { answer } => write!(
                f,
                "the journal could not be archived ({answer}): run `cpushield undo` again when its \
                 directory is writable"
            ),
            ShieldNote::TracerStopped => f.write_str(
                "a killed measurement left a kernel tracer running; cpushield stopped it and \
                 restored its settings",
            ),
            ShieldNote::TracerNotRestored { error } => {
                write!(f, "could not restore the tracer settings of a killed measurement: {error}")
            }
            ShieldNote::TracesRemoved { traces } => {
                write!(f, "removed the traces of killed watches: {traces}")
            }
            ShieldNote::ProgramMovedBack { comm, tid } => {
                write!(f, "{comm} ({tid}) is back in its previous place")
            }
            ShieldNote::ProgramMadeOrdinary { program } => {
                write!(f, "{program} continues as an ordinary program")
            }
            ShieldNote::ProgramsNotReleased { error } => {
                write!(f, "programs in the shield: {error}")
            }
            ShieldNote::ProgramsNotRecorded { error } => {
                write!(f, "could not record the new CPUs of programs in the shield: {error}")
            }
            ShieldNote::Process { process } => process.fmt(f),
        }
    }
}
