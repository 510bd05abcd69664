//! Why an apply or an undo stopped: [`ApplyError`] and [`UndoError`].

use super::hogs::BlockedBy;
use super::journal::{INVALID_JOURNAL, JournalError};
use super::load::JournalLoadError;
use crate::change::{ChangeFault, Refusal, RefusalKind};
use crate::documents::applied::{ChangeFate, UndoneShield};
use crate::documents::plan::Shield;
use crate::refusal::FailureKind;
use cpushield_linux::sys::signal::StopSignal;
use cpushield_linux::{CpuSet, Error};
use cpushield_sentence::Sentence;

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
#[derive(Debug, Sentence)]
#[kind(Machine)]
#[tagged]
#[message(self.message_with_rollback())]
pub enum ApplyError {
    /// The state directory or `/proc` cannot be used, or another process has the lock.
    #[delegate(from)]
    Access(Error),
    /// {path}: {error}.
    #[hint(INVALID_JOURNAL)]
    Journal {
        /// The file.
        path: String,
        /// What is wrong.
        error: JournalError,
    },
    /// shield {name} is already active on CPU {cpus}.
    #[with(name = &shield.name, cpus = &shield.cpus)]
    #[hint("show it: cpushield status; or take it down: cpushield undo --shield {name}")]
    Active {
        /// The active shield.
        shield: Box<Shield>,
        /// Its journal.
        path: String,
    },
    /// shield {shield} is incomplete: an apply or undo did not finish.
    #[hint("restore the original settings: cpushield undo --shield {shield}")]
    Unfinished {
        /// The shield.
        shield: String,
    },
    /// CPU {cpus} is already in shield {other}.
    #[kind(Usage)]
    #[hint("choose other CPUs, or take that shield down: cpushield undo --shield {other}")]
    Overlap {
        /// The CPUs.
        cpus: CpuSet,
        /// The other shield.
        other: String,
    },
    /// step {step} of the plan: {why}.
    #[kind(Usage)]
    Plan {
        /// The step, from 1.
        step: usize,
        /// What is wrong with it.
        why: ChangeFault,
    },
    /// {why}.
    #[with(why = &_0.why)]
    #[hint([&_0.hint])]
    Hog(BlockedBy),
    /// {why}.
    #[kind(Usage)]
    #[hint("make a new plan: cpushield plan -o FILE")]
    Stale {
        /// Why.
        why: String,
    },
    /// cannot change {subject}.
    #[line("cause: {}", refusal.reason)]
    #[kind(kind_of_rollback(undone))]
    #[hint(retry(undone))]
    #[hint(hint)]
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
    /// stopped by {signal}.
    #[kind(kind_of_rollback(undone))]
    #[hint(retry(undone))]
    Stopped {
        /// The signal.
        signal: StopSignal,
        /// The result of undoing the steps before it.
        undone: Box<Result<UndoneShield, UndoError>>,
    },
    /// the change to shield {shield} is incomplete.
    #[kind(kind_of_rollback(undone))]
    #[hint(retry(undone))]
    OldRemains {
        /// The shield.
        shield: String,
        /// The result of undoing the old version.
        undone: Box<Result<UndoneShield, UndoError>>,
    },
}

/// Why an undo stopped. Changes before that may be undone; the journal has those.
#[derive(Debug, Sentence)]
#[kind(Machine)]
#[tagged]
pub enum UndoError {
    /// several shields are active: {active}.
    #[with(active = names.join(", "))]
    #[kind(Usage)]
    #[hint([name_a_shield(names)])]
    #[hint("or undo all of them: cpushield undo --all")]
    Several {
        /// Their names.
        names: Vec<String>,
    },
    /// no active shield is named {name:?}; active: {active}.
    #[with(active = names.join(", "))]
    #[hint([name_a_shield(names)])]
    NoSuchShield {
        /// The name.
        name: String,
        /// The names of the active ones.
        names: Vec<String>,
    },
    /// an apply or undo of shield {other} did not finish.
    #[hint("first complete that operation: cpushield undo --shield {other}")]
    OtherUnfinished {
        /// The other shield.
        other: String,
    },
    /// The state directory or `/proc` cannot be used, or another process has the lock.
    #[delegate(from)]
    Access(Error),
    /// {path}: {error}.
    #[hint(INVALID_JOURNAL)]
    Journal {
        /// The file.
        path: String,
        /// What is wrong.
        error: JournalError,
    },
    /// {why}.
    #[with(why = &_0.why)]
    #[kind(NotUndone)]
    #[hint([format!("{}; then run `cpushield undo` again", _0.hint)])]
    Hog(BlockedBy),
}

impl From<JournalLoadError> for ApplyError {
    fn from(error: JournalLoadError) -> ApplyError {
        match error {
            JournalLoadError::Access(error) => error.into(),
            JournalLoadError::Journal { path, error } => ApplyError::Journal { path, error },
        }
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

impl std::error::Error for ApplyError {}

impl std::error::Error for UndoError {}

impl ApplyError {
    /// A failed apply also says whether the changes before it were undone.
    fn message_with_rollback(&self) -> String {
        let lines = match self {
            ApplyError::Failed { undone, .. }
            | ApplyError::Stopped { undone, .. }
            | ApplyError::OldRemains { undone, .. } => rollback_lines(undone),
            _ => String::new(),
        };
        format!("{self}{lines}")
    }
}

/// The hint to name one of several shields.
pub fn name_a_shield(names: &[String]) -> String {
    format!("name one: --shield {}", names.first().map_or("NAME", String::as_str))
}

fn kind_of_rollback(undone: &Result<UndoneShield, UndoError>) -> FailureKind {
    match undone {
        Ok(undone) if undone.is_removed() => FailureKind::Undone,
        _ => FailureKind::NotUndone,
    }
}

/// How to undo what a rollback has left.
fn retry(undone: &Result<UndoneShield, UndoError>) -> Option<&'static str> {
    let remains = kind_of_rollback(undone) == FailureKind::NotUndone;
    remains.then_some("restore the remaining changes: cpushield undo")
}

/// Whether the changes before a failure were undone, as lines.
fn rollback_lines(undone: &Result<UndoneShield, UndoError>) -> String {
    match undone {
        Ok(undone) if undone.is_removed() => "\n  undone: every change".to_owned(),
        Ok(undone) => {
            let failed = undone.failed().filter_map(|step| match &step.fate {
                ChangeFate::Failed { reason } => {
                    Some(format!("\n  not undone: {}: {reason}", step.subject))
                }
                _ => None,
            });
            let journal = undone.journal.as_deref().unwrap_or_default();
            format!("{}\n  journal: {journal}", failed.collect::<String>())
        }
        Err(error) => format!("\n  not undone: {error}"),
    }
}
