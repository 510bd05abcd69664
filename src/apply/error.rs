//! Why an apply or an undo stopped: [`ApplyError`] and [`UndoError`].

use super::hogs::BlockedBy;
use super::journal::JournalError;
use super::load::JournalLoadError;
use crate::change::{ChangeFault, Refusal, RefusalKind};
use crate::documents::applied::UndoneShield;
use crate::documents::plan::Shield;
use cpushield_linux::sys::signal::StopSignal;
use cpushield_linux::{CpuSet, Error};
use std::fmt;

/// The progress of an apply.
#[derive(Debug, Clone, Copy)]
pub struct ApplyProgress<'a> {
    /// Steps done.
    pub done: usize,
    /// Steps in all.
    pub total: usize,
    /// The tunable of the current step.
    pub what: &'a str,
}

/// Why a plan was not applied.
#[derive(Debug)]
pub enum ApplyError {
    /// The state directory or `/proc` cannot be used, or another process has the lock.
    Access(Error),
    /// The file in the state directory is not a journal.
    Journal {
        /// The file.
        path: String,
        /// What is wrong.
        error: JournalError,
    },
    /// A shield is active already.
    Active {
        /// The active shield.
        shield: Box<Shield>,
        /// Its journal.
        path: String,
    },
    /// An apply or an undo of an active shield did not finish.
    Unfinished {
        /// The shield.
        shield: String,
    },
    /// CPUs of the plan are in another shield.
    Overlap {
        /// The CPUs.
        cpus: CpuSet,
        /// The other shield.
        other: String,
    },
    /// A step of the plan is not allowed.
    Plan {
        /// The step, from 1.
        step: usize,
        /// What is wrong with it.
        why: ChangeFault,
    },
    /// A real-time task would block the kernel forever; nothing was written.
    Hog(BlockedBy),
    /// The plan was made in another boot, for other CPUs or with another schema.
    Stale {
        /// Why.
        why: String,
    },
    /// A required step failed; everything was undone.
    Failed {
        /// The subject of the change.
        subject: String,
        /// The kernel's answer.
        refusal: Refusal,
        /// A hint, where one is known.
        hint: Option<String>,
        /// The result of undoing the steps before it.
        undone: Box<Result<UndoneShield, UndoError>>,
    },
    /// A signal asked to stop; everything was undone.
    Stopped {
        /// The signal.
        signal: StopSignal,
        /// The result of undoing the steps before it.
        undone: Box<Result<UndoneShield, UndoError>>,
    },
    /// The new version of a shield is in force, but not everything of the old one was undone.
    OldRemains {
        /// The shield.
        shield: String,
        /// The result of undoing the old version.
        undone: Box<Result<UndoneShield, UndoError>>,
    },
    /// A test killed the host; nothing more was done.
    Killed,
}

/// Why an undo stopped. Changes before that may be undone; the journal has those.
#[derive(Debug)]
pub enum UndoError {
    /// Several shields are active, and none was named.
    Several {
        /// Their names.
        names: Vec<String>,
    },
    /// No active shield has this name.
    NoSuchShield {
        /// The name.
        name: String,
        /// The names of the active ones.
        names: Vec<String>,
    },
    /// An apply or undo of another shield did not finish.
    OtherUnfinished {
        /// The other shield.
        other: String,
    },
    /// The state directory or `/proc` cannot be used, or another process has the lock.
    Access(Error),
    /// The file in the state directory is not a journal.
    Journal {
        /// The file.
        path: String,
        /// What is wrong.
        error: JournalError,
    },
    /// A real-time task would block the kernel forever; nothing was written.
    Hog(BlockedBy),
    /// A test killed the host; nothing more was done.
    Killed,
}

impl From<Error> for ApplyError {
    fn from(error: Error) -> ApplyError {
        if error.is_stop() { ApplyError::Killed } else { ApplyError::Access(error) }
    }
}

impl From<JournalLoadError> for ApplyError {
    fn from(error: JournalLoadError) -> ApplyError {
        match error {
            JournalLoadError::Access(error) => error.into(),
            JournalLoadError::Journal { path, error } => ApplyError::Journal { path, error },
        }
    }
}

impl From<Error> for UndoError {
    fn from(error: Error) -> UndoError {
        if error.is_stop() { UndoError::Killed } else { UndoError::Access(error) }
    }
}

impl ApplyError {
    /// The kernel's answer where it refused a partition because its CPUs are in `isolcpus=`
    /// (`PERR_HKEEPING` in kernel/cgroup/cpuset.c, 6.7), and everything is restored.
    #[must_use]
    pub fn no_partition(&self) -> Option<&str> {
        let ApplyError::Failed { refusal, undone, .. } = self else { return None };
        let complete = undone.as_ref().as_ref().is_ok_and(UndoneShield::is_complete);
        (refusal.kind == RefusalKind::IsolatedAtBoot && complete).then_some(&refusal.reason)
    }
}

impl ApplyError {
    /// A short stable name of the reason, for programs.
    #[must_use]
    pub fn tag(&self) -> &'static str {
        match self {
            ApplyError::Access(_) => "access",
            ApplyError::Journal { .. } => "journal",
            ApplyError::Active { .. } => "active",
            ApplyError::Unfinished { .. } => "unfinished",
            ApplyError::Overlap { .. } => "overlap",
            ApplyError::Plan { .. } => "plan",
            ApplyError::Hog(_) => "hog",
            ApplyError::Stale { .. } => "stale",
            ApplyError::Failed { .. } => "failed",
            ApplyError::Stopped { .. } => "stopped",
            ApplyError::OldRemains { .. } => "old-remains",
            ApplyError::Killed => "killed",
        }
    }
}

impl fmt::Display for ApplyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ApplyError::Access(error) => error.fmt(f),
            ApplyError::Journal { path, error } => write!(f, "{path}: {error}"),
            ApplyError::Active { shield, .. } => {
                write!(f, "shield {} is already active on CPU {}", shield.name, shield.cpus)
            }
            ApplyError::Unfinished { shield } => {
                write!(f, "shield {shield} is incomplete: an apply or undo did not finish")
            }
            ApplyError::Overlap { cpus, other } => {
                write!(f, "CPU {cpus} is already in shield {other}")
            }
            ApplyError::Plan { step, why } => write!(f, "step {step} of the plan: {why}"),
            ApplyError::Stale { why } => f.write_str(why),
            ApplyError::Hog(hog) => f.write_str(&hog.why),
            ApplyError::Failed { subject, refusal, .. } => {
                write!(f, "cannot change {subject}\n  cause: {}", refusal.reason)
            }
            ApplyError::Stopped { signal, .. } => write!(f, "stopped by {signal}"),
            ApplyError::OldRemains { shield, .. } => {
                write!(f, "the change to shield {shield} is incomplete")
            }
            ApplyError::Killed => f.write_str("killed"),
        }
    }
}

impl std::error::Error for ApplyError {}

impl UndoError {
    /// A short stable name of the reason, for programs.
    #[must_use]
    pub fn tag(&self) -> &'static str {
        match self {
            UndoError::Several { .. } => "several",
            UndoError::NoSuchShield { .. } => "no-such-shield",
            UndoError::OtherUnfinished { .. } => "other-unfinished",
            UndoError::Access(_) => "access",
            UndoError::Journal { .. } => "journal",
            UndoError::Hog(_) => "hog",
            UndoError::Killed => "killed",
        }
    }
}

impl fmt::Display for UndoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UndoError::Access(error) => error.fmt(f),
            UndoError::Several { names } => {
                write!(f, "several shields are active: {}", names.join(", "))
            }
            UndoError::NoSuchShield { name, names } => {
                write!(f, "no active shield is named {name:?}; active: {}", names.join(", "))
            }
            UndoError::OtherUnfinished { other } => {
                write!(f, "an apply or undo of shield {other} did not finish")
            }
            UndoError::Journal { path, error } => write!(f, "{path}: {error}"),
            UndoError::Hog(hog) => f.write_str(&hog.why),
            UndoError::Killed => f.write_str("killed"),
        }
    }
}

impl std::error::Error for UndoError {}
