//! What apply and undo did: [`AppliedPlan`] and [`UndoneShield`], with the result of each step.
//! Plain data.

mod drift;
mod policy;
mod shield_note;
pub(crate) mod step_note;
mod step_result;

pub use drift::{DriftedValue, DroppedLine};
pub use policy::{AppliedPolicy, AppliedShield, ShieldEffect};
pub use shield_note::ShieldNote;
pub use step_note::StepNote;
pub use step_result::{ChangeFate, MovedTasks, StayedTasks, StepDone};

use crate::documents::plan::Shield;
use crate::with_text;
use cpushield_linux::{CpuSet, TaskId};
use serde::Serialize;

/// The version of the format of [`AppliedPlan`].
pub(crate) const SCHEMA: u32 = 1;

/// An applied plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AppliedPlan {
    /// The version of this format.
    pub schema: u32,
    /// The shield.
    pub shield: Shield,
    /// The result of each runtime step.
    pub steps: Vec<AppliedStep>,
    /// The journal's file.
    pub journal: String,
    /// Notes, for example about an archived old journal.
    #[serde(with = "with_text::TextList::<ShieldNote>")]
    pub notes: Vec<ShieldNote>,
}

impl AppliedPlan {
    /// A plan of this shield, before its first step.
    #[must_use]
    pub fn new(shield: Shield, journal: String) -> AppliedPlan {
        AppliedPlan { schema: SCHEMA, shield, steps: Vec::new(), journal, notes: Vec::new() }
    }
}

/// The result of one step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AppliedStep {
    /// The tunable that the change belongs to.
    pub tunable: String,
    /// The subject of the change, as text.
    pub subject: String,
    /// Its outcome.
    #[serde(flatten)]
    pub done: StepDone,
}

/// The result of an amendment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AmendedShield {
    /// The outcome of each step that was made.
    pub steps: Vec<AppliedStep>,
    /// Why it stopped before the last step.
    pub halted: Option<String>,
}

/// The result of an undo.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UndoneShield {
    /// The shield; `None` when none was active.
    pub shield: Option<Shield>,
    /// The shield was applied in another boot, so nothing of it is left in the kernel.
    pub other_boot: bool,
    /// The result of every step that had changed something.
    pub steps: Vec<UndoneStep>,
    /// Tasks that keep an affinity that another process set under the shield.
    pub drifted_tasks: Vec<TaskId>,
    /// Tasks that keep exactly the CPUs that the shield left them, because they requested these
    /// CPUs while it was active. Kernels before 6.2 do not remember the request and widen the
    /// affinity.
    pub requested_tasks: Vec<TaskId>,
    /// Programs that were in the shield and continue on other CPUs.
    pub left: Vec<LeftProgram>,
    /// The number of tasks whose affinity was restored.
    pub restored_tasks: usize,
    /// The journal's path: archived, or still active when something could not be restored.
    pub journal: Option<String>,
    /// Notes.
    #[serde(with = "with_text::TextList::<ShieldNote>")]
    pub notes: Vec<ShieldNote>,
}

/// A program that was in a shield.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LeftProgram {
    /// Its process number.
    pub pid: i32,
    /// Its name.
    pub comm: String,
    /// The CPUs that it may use now.
    pub cpus: CpuSet,
}

/// The result of undoing one step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UndoneStep {
    /// The index of the step in the plan.
    pub step: usize,
    /// The tunable that the change belongs to.
    pub tunable: String,
    /// The subject of the change, as text.
    pub subject: String,
    /// The fate of the change.
    #[serde(flatten)]
    pub fate: ChangeFate,
    /// A note.
    #[serde(with = "crate::with_text::option")]
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Option<crate::with_text::WithText<StepNote>>")
    )]
    pub note: Option<StepNote>,
}

/// What happens to the record of changes that cannot be undone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnrestoredChanges {
    /// The journal keeps them for another undo.
    Keep,
    /// A copy of the journal is archived. The journal of the shields that stay names them no more.
    Forget,
}

impl UndoneShield {
    /// The result without an active shield.
    #[must_use]
    pub fn nothing() -> UndoneShield {
        UndoneShield {
            shield: None,
            other_boot: false,
            steps: Vec::new(),
            drifted_tasks: Vec::new(),
            requested_tasks: Vec::new(),
            left: Vec::new(),
            restored_tasks: 0,
            journal: None,
            notes: Vec::new(),
        }
    }

    /// The steps that could not be restored.
    pub fn failed(&self) -> impl Iterator<Item = &UndoneStep> {
        self.steps.iter().filter(|step| matches!(step.fate, ChangeFate::Failed { .. }))
    }

    /// Whether everything that was still ours is restored.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.failed().next().is_none()
    }

    /// Whether the shield is gone: everything is restored, and no journal names it.
    #[must_use]
    pub fn is_removed(&self) -> bool {
        let stays = |note: &ShieldNote| matches!(note, ShieldNote::JournalStays { .. });
        self.is_complete() && !self.notes.iter().any(stays)
    }
}
