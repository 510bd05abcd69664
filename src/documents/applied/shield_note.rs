//! What a user should know about a shield that was applied, changed or undone. Pure.

use super::{DriftedValue, DroppedLine};
use crate::documents::count_text::joined;
use crate::documents::plan::{Disturbance, NamedShield, VersionSettings, list_shields};
use crate::documents::process_note::ProcessNote;
use crate::with_text;
use cpushield_linux::{CpuSet, TaskId};
use cpushield_sentence::Sentence;
use serde::Serialize;
use std::fmt;

/// What a user should know about a shield that was applied, changed or undone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Sentence)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "note", rename_all = "kebab-case")]
pub enum ShieldNote {
    /// shield {shield} was changed: {added}.
    #[with(added = describe_cpus(added, released))]
    Changed {
        /// The shield.
        shield: String,
        /// CPUs that it got.
        added: CpuSet,
        /// CPUs that it no longer has.
        released: CpuSet,
    },
    /// settings {0}.
    Settings(VersionSettings),
    /// restoring {tunable} interrupted {shields}: {effect}.
    #[with(shields = disturbance.named_shields(), effect = &disturbance.effect)]
    Interrupted {
        /// The tunable.
        tunable: String,
        /// The cost.
        disturbance: Disturbance,
    },
    /// also active: {shields}.
    #[with(shields = list_shields(shields))]
    OtherShields {
        /// The shields.
        shields: Vec<NamedShield>,
    },
    /// shield {shield} is already active; nothing was changed.
    Unchanged {
        /// The shield.
        shield: String,
    },
    /// shield {shield} was active, but some of its settings were missing.
    Repaired {
        /// The shield.
        shield: String,
    },
    /// {why}.
    RepairHalted {
        /// Why.
        why: String,
    },
    /// {subject}; undo restores that new value.
    ///
    /// Undo restores the value of that process.
    #[with(subject = ForeignValue(subject, drift))]
    ForeignValue {
        /// What the change is about.
        subject: String,
        /// The value that cpushield left, and the value that the other process set.
        drift: DriftedValue,
    },
    /// Other processes had changed the affinity of tasks. Undo restores those masks.
    #[print(write_foreign_affinities(f, tasks))]
    ForeignAffinities {
        /// The tasks.
        tasks: Vec<TaskId>,
    },
    /// {subject}; that value stays.
    ///
    /// Its value stays.
    #[with(subject = ForeignValue(subject, drift))]
    ForeignValueKept {
        /// What the change is about.
        subject: String,
        /// The value that cpushield left, and the value that the other process set.
        drift: DriftedValue,
    },
    /// A shield of another boot is gone, and its journal was archived.
    #[print(write_rebooted(f, shield, journal))]
    Rebooted {
        /// The shield; `None` if its journal does not name it.
        shield: Option<String>,
        /// The archived journal.
        journal: String,
    },
    /// `status` cannot show the shield to other users: {error}.
    NotPublished {
        /// The error.
        error: String,
    },
    /// A line of the journal could not be read.
    #[delegate]
    JournalLineDropped {
        /// The line.
        line: DroppedLine,
    },
    /// cannot read the journal, so its changes are not listed: {error}.
    JournalIncomplete {
        /// What is wrong.
        error: String,
    },
    /// the journal could not be written ({answer}), so undo continued without it.
    JournalNotWritten {
        /// The answer of the kernel.
        answer: String,
    },
    /// the journal could not be archived ({answer}) and was removed.
    JournalRemoved {
        /// Why it could not be archived.
        answer: String,
    },
    /// the journal still names the shield ({answer}): run `cpushield undo` again when the journal's
    /// directory is writable.
    JournalStays {
        /// The answer of the kernel.
        answer: String,
    },
    /// {TRACER_STOPPED}.
    TracerStopped,
    /// could not restore the tracer settings of a killed measurement: {error}.
    TracerNotRestored {
        /// The error.
        error: String,
    },
    /// removed traces left behind by killed cpushield processes: {traces}.
    TracesRemoved {
        /// How many.
        traces: usize,
    },
    /// {comm} ({tid}) is back in its previous place.
    ProgramMovedBack {
        /// Its name.
        comm: String,
        /// Its number.
        tid: i32,
    },
    /// {program} continues as an ordinary program.
    ProgramMadeOrdinary {
        /// Its name, number and former policy.
        program: String,
    },
    /// could not release the programs in the shield: {error}.
    ProgramsNotReleased {
        /// The error.
        error: String,
    },
    /// could not record the new CPUs of programs in the shield: {error}.
    ProgramsNotRecorded {
        /// The error.
        error: String,
    },
    /// About one process.
    #[delegate(from)]
    Process {
        /// The note.
        #[serde(with = "with_text::WithText::<ProcessNote>")]
        process: ProcessNote,
    },
}

fn write_foreign_affinities(f: &mut fmt::Formatter<'_>, tasks: &[TaskId]) -> fmt::Result {
    let tasks = comma_numbers(tasks);
    write!(f, "other processes changed the affinity of tasks ({tasks}); ")?;
    f.write_str("undo restores these new masks")
}

fn write_rebooted(
    f: &mut fmt::Formatter<'_>,
    shield: &Option<String>,
    journal: &str,
) -> fmt::Result {
    let named = shield.as_ref().map(|name| format!("shield {name}"));
    let shield = named.as_deref().unwrap_or("a shield");
    write!(f, "the machine was rebooted after {shield} was applied, ")?;
    write!(f, "{REBOOTED} {journal}")
}

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
