//! What a user should know about a shield that was applied, changed or undone. Pure.

use super::{DriftedValue, DroppedLine};
use crate::documents::count_text::joined;
use crate::documents::plan::{Disturbance, NamedShield, VersionSettings, list_shields};
use crate::documents::process_note::ProcessNote;
use crate::with_text;
use cpushield_linux::{CpuSet, TaskId};
use serde::Serialize;
use std::fmt;

/// What a user should know about a shield that was applied, changed or undone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
    /// Settings that only the new version has, or only the old one.
    Settings(VersionSettings),
    /// The restoration of settings interrupted other shields.
    Interrupted {
        /// The tunable.
        tunable: String,
        /// The cost.
        disturbance: Disturbance,
    },
    /// Other shields are active.
    OtherShields {
        /// The shields.
        shields: Vec<NamedShield>,
    },
    /// The shield was already in force.
    Unchanged {
        /// The shield.
        shield: String,
    },
    /// The shield was in force, but some of its settings were missing.
    Repaired {
        /// The shield.
        shield: String,
    },
    /// A repair is incomplete.
    RepairHalted {
        /// Why.
        why: String,
    },
    /// Another process had changed a setting that the shield changes too. Undo restores the value
    /// of that process.
    ForeignValue {
        /// What the change is about.
        subject: String,
        /// The value that cpushield left, and the value that the other process set.
        drift: DriftedValue,
    },
    /// Other processes had changed the affinity of tasks. Undo restores those masks.
    ForeignAffinities {
        /// The tasks.
        tasks: Vec<TaskId>,
    },
    /// Another process had changed a setting of the replaced version of the shield. Its value
    /// stays.
    ForeignValueKept {
        /// What the change is about.
        subject: String,
        /// The value that cpushield left, and the value that the other process set.
        drift: DriftedValue,
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
    /// The journal could not be archived, removed or rewritten, so it still names the shield.
    JournalStays {
        /// The answer of the kernel.
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
        #[serde(with = "with_text::WithText::<ProcessNote>")]
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
            Self::Changed { shield, added, released } => {
                write!(f, "shield {shield} was changed: {}", describe_cpus(added, released))
            }
            Self::Settings(settings) => write!(f, "settings {settings}"),
            Self::Interrupted { tunable, disturbance } => {
                let (shields, effect) = (disturbance.named_shields(), &disturbance.effect);
                write!(f, "restoring {tunable} interrupted {shields}: {effect}")
            }
            Self::OtherShields { shields } => {
                write!(f, "also active: {}", list_shields(shields))
            }
            Self::Unchanged { shield } => write!(f, "shield {shield} {UNCHANGED}"),
            Self::Repaired { shield } => write!(f, "shield {shield} {REPAIRED}"),
            Self::RepairHalted { why } => f.write_str(why),
            Self::ForeignValue { subject, drift } => {
                write!(f, "{}; undo restores that new value", ForeignValue(subject, drift))
            }
            Self::ForeignValueKept { subject, drift } => {
                write!(f, "{}; that value stays", ForeignValue(subject, drift))
            }
            Self::ForeignAffinities { tasks } => {
                let tasks = comma_numbers(tasks);
                write!(f, "other processes changed the affinity of tasks ({tasks}); ")?;
                f.write_str("undo restores these new masks")
            }
            Self::Rebooted { shield, journal } => {
                let named = shield.as_ref().map(|name| format!("shield {name}"));
                let shield = named.as_deref().unwrap_or("a shield");
                write!(f, "the machine was rebooted after {shield} was applied, ")?;
                write!(f, "{REBOOTED} {journal}")
            }
            Self::NotPublished { error } => {
                write!(f, "`status` cannot show the shield to other users: {error}")
            }
            Self::JournalLineDropped { line } => line.fmt(f),
            Self::JournalIncomplete { error } => write!(f, "{JOURNAL_UNREADABLE}: {error}"),
            Self::JournalNotWritten { answer } => {
                write!(f, "the journal could not be written ({answer}), {WITHOUT_JOURNAL}")
            }
            Self::JournalRemoved { answer } => {
                write!(f, "the journal could not be archived ({answer}) and was removed")
            }
            Self::JournalStays { answer } => {
                write!(f, "the journal still names the shield ({answer}): {UNDO_AGAIN}")
            }
            Self::TracerStopped => f.write_str(TRACER_STOPPED),
            Self::TracerNotRestored { error } => {
                write!(f, "could not restore the tracer settings of a killed measurement: {error}")
            }
            Self::TracesRemoved { traces } => {
                write!(f, "removed traces left behind by killed cpushield processes: {traces}")
            }
            Self::ProgramMovedBack { comm, tid } => {
                write!(f, "{comm} ({tid}) is back in its previous place")
            }
            Self::ProgramMadeOrdinary { program } => {
                write!(f, "{program} continues as an ordinary program")
            }
            Self::ProgramsNotReleased { error } => {
                write!(f, "could not release the programs in the shield: {error}")
            }
            Self::ProgramsNotRecorded { error } => {
                write!(f, "could not record the new CPUs of programs in the shield: {error}")
            }
            Self::Process { process } => process.fmt(f),
        }
    }
}

const UNCHANGED: &str = "is already active; nothing was changed";
const REPAIRED: &str = "was active, but some of its settings were missing";
const JOURNAL_UNREADABLE: &str = "cannot read the journal, so its changes are not listed";
const WITHOUT_JOURNAL: &str = "so undo continued without it";
const UNDO_AGAIN: &str = "run `cpushield undo` again when the journal's directory is writable";
const REBOOTED: &str = "so the shield no longer exists; its journal was moved to";
const TRACER_STOPPED: &str = "a killed measurement left a kernel tracer running; cpushield stopped it \
                              and restored its settings";

/// A value that another process has set.
struct ForeignValue<'a>(&'a str, &'a DriftedValue);

impl fmt::Display for ForeignValue<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ForeignValue(subject, DriftedValue { left, now }) = self;
        let now = now.as_deref().unwrap_or("nothing");
        write!(f, "another process changed {subject} from {left} to {now}")
    }
}

fn describe_cpus(added: &CpuSet, released: &CpuSet) -> String {
    match (added.is_empty(), released.is_empty()) {
        (false, false) => format!("CPU {added} was added and CPU {released} was released"),
        (false, true) => format!("CPU {added} was added"),
        (true, false) => format!("CPU {released} was released"),
        (true, true) => "its CPUs are the same".to_owned(),
    }
}

fn comma_numbers(tasks: &[TaskId]) -> String {
    joined(tasks.iter().map(|task| task.tid.to_string()), ", ")
}
