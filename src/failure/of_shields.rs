//! Errors of shields, their journal and their programs as [`Failure`]s, with hints.

use super::{Failure, FailureKind};
use serde::Serialize;

/// The reason of a failure in JSON, for stages whose facts are in the message only.
#[derive(Debug, Serialize)]
struct ReasonTag {
    tag: &'static str,
}

/// The hint to name one of several shields.
fn name_a_shield(names: &[String]) -> String {
    format!("name one: --shield {}", names.first().map_or("NAME", String::as_str))
}

/// A file that is not a valid journal. Nothing was written.
fn invalid_journal(path: &str, error: &crate::apply::JournalError) -> Failure {
    Failure::machine(format!("{path}: {error}"))
        .hint("nothing was written; to move the file away unchanged: cpushield undo --forget")
        .hint("then reboot, because a shield's changes remain until the next boot")
}

impl From<crate::apply::JournalLoadError> for Failure {
    fn from(error: crate::apply::JournalLoadError) -> Failure {
        match error {
            crate::apply::JournalLoadError::Access(error) => error.into(),
            crate::apply::JournalLoadError::Journal { path, error } => {
                invalid_journal(&path, &error)
            }
        }
    }
}

impl From<crate::apply::UndoError> for Failure {
    fn from(error: crate::apply::UndoError) -> Failure {
        use crate::apply::UndoError;
        let (message, reason) = (error.to_string(), ReasonTag { tag: error.tag() });
        let failure: Failure = match error {
            UndoError::Access(error) => error.into(),
            UndoError::Journal { path, error } => invalid_journal(&path, &error),
            UndoError::Several { ref names } => Failure::usage(message)
                .hint(name_a_shield(names))
                .hint("or undo all of them: cpushield undo --all"),
            UndoError::NoSuchShield { ref names, .. } => {
                Failure::machine(message).hint(name_a_shield(names))
            }
            UndoError::OtherUnfinished { ref other } => Failure::machine(message)
                .hint(format!("first complete that operation: cpushield undo --shield {other}")),
            UndoError::Hog(hog) => Failure::new(FailureKind::NotUndone, hog.why)
                .hint(format!("{}; then run `cpushield undo` again", hog.hint)),
            UndoError::Killed => Failure::new(FailureKind::Bug, "killed by a test"),
        };
        failure.reason(&reason)
    }
}

impl From<crate::apply::ApplyError> for Failure {
    fn from(error: crate::apply::ApplyError) -> Failure {
        use crate::apply::ApplyError;
        let (message, reason) = (error.to_string(), ReasonTag { tag: error.tag() });
        let failure: Failure = match error {
            ApplyError::Access(error) => error.into(),
            ApplyError::Journal { path, error } => invalid_journal(&path, &error),
            ApplyError::Active { shield, .. } => Failure::machine(message).hint(format!(
                "show it: cpushield status; or take it down: cpushield undo --shield {}",
                shield.name
            )),
            ApplyError::Unfinished { shield } => Failure::machine(message)
                .hint(format!("restore the original settings: cpushield undo --shield {shield}")),
            ApplyError::Overlap { other, .. } => Failure::usage(message).hint(format!(
                "choose other CPUs, or take that shield down: cpushield undo --shield {other}"
            )),
            ApplyError::Plan { .. } => Failure::usage(message),
            ApplyError::Hog(hog) => Failure::machine(message).hint(hog.hint),
            ApplyError::Stale { .. } => {
                Failure::usage(message).hint("make a new plan: cpushield plan -o FILE")
            }
            ApplyError::Failed { hint, undone, .. } => {
                let failure = describe_rollback(message, *undone);
                match hint {
                    Some(hint) => failure.hint(hint),
                    None => failure,
                }
            }
            ApplyError::Stopped { undone, .. } => describe_rollback(message, *undone),
            ApplyError::OldRemains { undone, .. } => describe_rollback(message, *undone),
            ApplyError::Killed => Failure::new(FailureKind::Bug, message),
        };
        failure.reason(&reason)
    }
}

impl From<crate::apply::AmendError> for Failure {
    fn from(error: crate::apply::AmendError) -> Failure {
        use crate::apply::AmendError;
        let message = error.to_string();
        match error {
            AmendError::Load(error) => error.into(),
            AmendError::NoShield => Failure::machine(message).hint("apply one: cpushield apply"),
            AmendError::Unfinished => Failure::machine(message)
                .hint("undo every change, then apply again: cpushield undo; cpushield apply"),
            AmendError::Step { .. } | AmendError::Killed => Failure::new(FailureKind::Bug, message),
            AmendError::Hog(hog) => Failure::machine(message).hint(hog.hint),
        }
    }
}

/// A failed apply, and whether the changes before it were undone. Both errors are reported.
fn describe_rollback(
    message: String,
    undone: Result<crate::documents::applied::UndoneShield, crate::apply::UndoError>,
) -> Failure {
    let retry = "restore the remaining changes: cpushield undo";
    match undone {
        Ok(undone) if undone.is_removed() => {
            Failure::new(FailureKind::Undone, format!("{message}\n  undone: every change"))
        }
        Ok(undone) => {
            let mut message = message;
            for step in undone.failed() {
                if let crate::documents::applied::ChangeFate::Failed { reason } = &step.fate {
                    message.push_str(&format!("\n  not undone: {}: {reason}", step.subject));
                }
            }
            let journal = undone.journal.unwrap_or_default();
            Failure::new(FailureKind::NotUndone, format!("{message}\n  journal: {journal}"))
                .hint(retry)
        }
        Err(error) => {
            Failure::new(FailureKind::NotUndone, format!("{message}\n  not undone: {error}"))
                .hint(retry)
        }
    }
}

impl From<crate::run::RunError> for Failure {
    fn from(error: crate::run::RunError) -> Failure {
        use crate::run::{RunError, ThreadInTheWay};
        let (message, reason) = (error.to_string(), ReasonTag { tag: error.tag() });
        let failure: Failure = match error {
            RunError::NoShield => Failure::machine(message).hint("apply a shield: cpushield apply"),
            RunError::Several { names } => Failure::usage(message).hint(name_a_shield(&names)),
            RunError::NoSuchShield { names, .. } => {
                Failure::machine(message).hint(name_a_shield(&names))
            }
            RunError::InTheWay { threads, .. } => {
                let failure = Failure::machine(message);
                match threads.iter().find(|thread| thread.reason.is_unsafe()) {
                    None => failure.hint(
                        "end these programs, or move them to the CPUs of the new version: \
                         --move-programs",
                    ),
                    Some(ThreadInTheWay { tid, .. }) => failure
                        .hint(format!("make it an ordinary program: chrt -o -p 0 {tid}"))
                        .hint("or end that program"),
                }
            }
            RunError::NotOffered { offered, .. } => {
                Failure::usage(message).hint(format!("use one of these CPUs: {offered}"))
            }
            RunError::Offline { cpus, .. } => {
                let cpu = cpus.first().unwrap_or_default();
                let online = format!("/sys/devices/system/cpu/cpu{cpu}/online");
                Failure::machine(message).hint(format!("bring it online: echo 1 > {online}"))
            }
            RunError::Unknown { .. } => {
                Failure::usage(message).hint("use numeric IDs, for example 1000:1000")
            }
            RunError::NoMove { .. } => Failure::machine(message).hint(
                "stop that task first: a program's memory moves with the program to other nodes, \
                 and this needs a kernel thread on every CPU",
            ),
            RunError::Unsafe { instead, .. } => Failure::usage(message).hint(instead),
            RunError::Scheduling { hints, .. } => Failure { hints, ..Failure::machine(message) },
            RunError::Exec { error, .. } => match error.kind() {
                std::io::ErrorKind::NotFound => Failure::new(FailureKind::NotFound, message),
                _ => Failure::new(FailureKind::NotExecutable, message),
            },
            RunError::Task { hint, .. } => {
                Failure { hints: hint.into_iter().collect(), ..Failure::machine(message) }
            }
            RunError::Unfinished { unfinished, .. } => {
                Failure::machine(message).hint(unfinished.advice())
            }
            RunError::Journal(error) => error.into(),
            RunError::Machine(error) => error.into(),
            RunError::NoDestination { .. } => {
                Failure::machine(message).hint("run the command in a shell outside the shield")
            }
            RunError::Record(_) => Failure::machine(message),
        };
        failure.reason(&reason)
    }
}
