//! The documents of this stage: [`AppliedPlan`] and [`UndoneShield`].

use super::hogs::BlockedBy;
use super::journal::{ChangeFate, JournalError, StepDone};
use crate::change::{Refusal, RefusalKind};
use crate::plan::Shield;
use cpushield_linux::{Error, TaskId};
use serde::Serialize;
use std::fmt;

/// What is being done, for a progress bar.
#[derive(Debug, Clone, Copy)]
pub struct ApplyProgress<'a> {
    /// Steps done.
    pub done: usize,
    /// Steps in all.
    pub total: usize,
    /// The tunable at work.
    pub what: &'a str,
}

/// A plan that is in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AppliedPlan {
    /// The shield.
    pub shield: Shield,
    /// What came of each runtime step.
    pub steps: Vec<AppliedStep>,
    /// The journal's file.
    pub journal: String,
    /// What happened by the way, an old journal put away for instance.
    pub notes: Vec<String>,
}

/// What came of one step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AppliedStep {
    /// The tunable that wanted it.
    pub tunable: String,
    /// What was to be changed, for people.
    pub subject: String,
    /// What came of it.
    #[serde(flatten)]
    pub done: StepDone,
}

/// What became of a shield that was taken down.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UndoneShield {
    /// The shield; `None` when none was up.
    pub shield: Option<Shield>,
    /// It was applied in another boot: the kernel forgot everything by itself.
    pub other_boot: bool,
    /// What became of every step that had changed something.
    pub steps: Vec<UndoneStep>,
    /// Tasks whose affinity was changed by somebody else meanwhile, and kept.
    pub drifted_tasks: Vec<TaskId>,
    /// Tasks that keep exactly the CPUs that the shield had left them, because they asked for these
    /// while it was up. Kernels before 6.2 do not remember that, and widen them.
    pub asked_tasks: Vec<TaskId>,
    /// Tasks that were given their affinity again.
    pub restored_tasks: usize,
    /// Where the journal is: put away, or still active when something could not be put back.
    pub journal: Option<String>,
    /// What happened by the way.
    pub notes: Vec<String>,
}

/// What became of one step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UndoneStep {
    /// Which step of the plan.
    pub step: usize,
    /// The tunable that wanted it.
    pub tunable: String,
    /// What was changed, for people.
    pub subject: String,
    /// What became of it.
    #[serde(flatten)]
    pub fate: ChangeFate,
    /// What else there is to tell.
    pub note: Option<String>,
}

impl UndoneShield {
    /// Nothing was up.
    #[must_use]
    pub fn nothing() -> UndoneShield {
        UndoneShield {
            shield: None,
            other_boot: false,
            steps: Vec::new(),
            drifted_tasks: Vec::new(),
            asked_tasks: Vec::new(),
            restored_tasks: 0,
            journal: None,
            notes: Vec::new(),
        }
    }

    /// The steps that could not be put back.
    pub fn failed(&self) -> impl Iterator<Item = &UndoneStep> {
        self.steps.iter().filter(|step| matches!(step.fate, ChangeFate::Failed { .. }))
    }

    /// Whether everything that was still ours is as it was.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.failed().next().is_none()
    }
}

/// Why a plan is not in force.
#[derive(Debug)]
pub enum ApplyError {
    /// The state directory or `/proc` cannot be used, or another process is at work.
    Access(Error),
    /// The file in the state directory is not a journal.
    Journal {
        /// The file.
        path: String,
        /// What is wrong.
        error: JournalError,
    },
    /// A shield is up already.
    Active {
        /// It.
        shield: Box<Shield>,
        /// Its journal.
        path: String,
    },
    /// The plan asks for what no plan may ask for.
    Plan {
        /// The step, from 1.
        step: usize,
        /// What is wrong with it.
        why: String,
    },
    /// A real-time task keeps the kernel from ever ending what a shield needs; nothing was written.
    Hog(BlockedBy),
    /// The plan was made in another boot, for other CPUs or for another form of plans.
    Stale {
        /// Why.
        why: String,
    },
    /// A step without which the shield is worthless failed; what was done was undone.
    Failed {
        /// What was to be changed.
        subject: String,
        /// The kernel's answer.
        refusal: Refusal,
        /// What to do about it, where that is known.
        hint: Option<String>,
        /// What became of the steps before it.
        undone: Box<Result<UndoneShield, UndoError>>,
    },
    /// A signal asked to stop; what was done was undone.
    Stopped {
        /// The signal's number.
        signal: i32,
        /// What became of the steps before it.
        undone: Box<Result<UndoneShield, UndoError>>,
    },
    /// A test killed the host; nothing more was done.
    Killed,
}

/// Why nothing was undone.
#[derive(Debug)]
pub enum UndoError {
    /// The state directory or `/proc` cannot be used, or another process is at work.
    Access(Error),
    /// The file in the state directory is not a journal.
    Journal {
        /// The file.
        path: String,
        /// What is wrong.
        error: JournalError,
    },
    /// A real-time task keeps the kernel from ever ending what undo needs; nothing was written.
    Hog(BlockedBy),
    /// A test killed the host; nothing more was done.
    Killed,
}

impl From<Error> for ApplyError {
    fn from(error: Error) -> ApplyError {
        if error.is_stop() { ApplyError::Killed } else { ApplyError::Access(error) }
    }
}

impl From<Error> for UndoError {
    fn from(error: Error) -> UndoError {
        if error.is_stop() { UndoError::Killed } else { UndoError::Access(error) }
    }
}

impl ApplyError {
    /// The kernel's answer where it made no partition because CPUs of it are those of `isolcpus=`
    /// (`PERR_HKEEPING` in kernel/cgroup/cpuset.c, 6.7), and everything is as it was before.
    #[must_use]
    pub fn no_partition(&self) -> Option<&str> {
        let ApplyError::Failed { refusal, undone, .. } = self else { return None };
        let complete = undone.as_ref().as_ref().is_ok_and(UndoneShield::is_complete);
        (refusal.kind == RefusalKind::IsolatedAtBoot && complete).then_some(&refusal.reason)
    }
}

impl fmt::Display for ApplyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ApplyError::Access(error) => error.fmt(f),
            ApplyError::Journal { path, error } => write!(f, "{path}: {error}"),
            ApplyError::Active { shield, .. } => {
                write!(f, "a shield is in force already: {} on CPU {}", shield.name, shield.cpus)
            }
            ApplyError::Plan { step, why } => write!(f, "step {step} of the plan: {why}"),
            ApplyError::Stale { why } => f.write_str(why),
            ApplyError::Hog(hog) => f.write_str(&hog.why),
            ApplyError::Failed { subject, refusal, .. } => {
                write!(f, "cannot change {subject}\n  cause: {}", refusal.reason)
            }
            ApplyError::Stopped { signal, .. } => write!(f, "stopped by signal {signal}"),
            ApplyError::Killed => f.write_str("killed"),
        }
    }
}

impl std::error::Error for ApplyError {}

impl fmt::Display for UndoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UndoError::Access(error) => error.fmt(f),
            UndoError::Journal { path, error } => write!(f, "{path}: {error}"),
            UndoError::Hog(hog) => f.write_str(&hog.why),
            UndoError::Killed => f.write_str("killed"),
        }
    }
}

impl std::error::Error for UndoError {}
