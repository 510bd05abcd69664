//! [`Failure`]: what went wrong, its kind (which decides the exit code) and hints. All conversions
//! from errors of the stages are here, so that wording and hints sit together.

use crate::verify::WatchError;
use clap::error::{ContextKind, ContextValue};
use serde::Serialize;
use std::fmt;
use std::process::ExitCode;

/// The kind of a failure; it decides the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// A verdict or a gate does not hold. A result, not an error.
    DoesNotHold,
    /// The command line, a policy file or a plan is wrong.
    Usage,
    /// This machine cannot, or will not be let do something unsafe.
    Machine,
    /// It failed half-way and everything was undone.
    Undone,
    /// It failed half-way and not everything could be undone; the journal is kept.
    NotUndone,
    /// `run` failed before the program was started.
    NotStarted,
    /// The command of `run` is there but cannot be executed.
    NotExecutable,
    /// The command of `run` is not there.
    NotFound,
    /// A defect of this program.
    Bug,
}

impl FailureKind {
    /// The stable exit code.
    #[must_use]
    pub fn code(self) -> u8 {
        match self {
            FailureKind::DoesNotHold => 1,
            FailureKind::Usage => 2,
            FailureKind::Machine | FailureKind::Undone | FailureKind::NotUndone => 3,
            FailureKind::NotStarted => 125,
            FailureKind::NotExecutable => 126,
            FailureKind::NotFound => 127,
            FailureKind::Bug => 70,
        }
    }
}

/// What went wrong.
#[derive(Debug)]
pub struct Failure {
    /// The kind.
    pub kind: FailureKind,
    /// One sentence without a full stop, object first in the user's words; may go on in indented
    /// `file:`, `value:` and `cause:` lines.
    pub message: String,
    /// What to do next.
    pub hints: Vec<String>,
}

impl Failure {
    /// A failure of a kind.
    #[must_use]
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Failure {
        Failure { kind, message: message.into(), hints: Vec::new() }
    }

    /// The same with a hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Failure {
        self.hints.push(hint.into());
        self
    }

    /// A wrong command line, policy or plan.
    #[must_use]
    pub fn usage(message: impl Into<String>) -> Failure {
        Failure::new(FailureKind::Usage, message)
    }

    /// This machine cannot.
    #[must_use]
    pub fn machine(message: impl Into<String>) -> Failure {
        Failure::new(FailureKind::Machine, message)
    }

    /// The exit code of its kind.
    #[must_use]
    pub fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.kind.code())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        for hint in &self.hints {
            write!(f, "\n  hint:  {hint}")?;
        }
        Ok(())
    }
}

impl From<cpushield_linux::Error> for Failure {
    fn from(error: cpushield_linux::Error) -> Failure {
        let mut message = format!("cannot {} {}", error.verb.word(), error.path);
        if let Some(value) = &error.value {
            message.push_str(&format!("\n  value: {value:?}"));
        }
        message.push_str(&format!("\n  cause: {}", error.reason()));
        let failure = Failure::machine(message);
        if matches!(error.cause, cpushield_linux::error::ErrorCause::NotRegular(_)) {
            return failure.hint("cpushield did not put it there: look at it, and move it away");
        }
        match error.errno() {
            Some(1 | 13) if cpushield_linux::process::effective_user() != 0 => {
                failure.hint("run it as root")
            }
            _ => failure,
        }
    }
}

impl From<clap::Error> for Failure {
    fn from(error: clap::Error) -> Failure {
        let text = error.to_string();
        // A message, then the usage and where to find help, each a paragraph.
        let message = text.split("\n\n").next().unwrap_or_default();
        let message = message.strip_prefix("error: ").unwrap_or(message).trim_end();
        let mut failure = Failure::usage(message);
        for (kind, value) in error.context() {
            match (kind, value) {
                (
                    ContextKind::SuggestedSubcommand | ContextKind::SuggestedValue,
                    ContextValue::String(near),
                ) => failure = failure.hint(format!("did you mean {near}?")),
                (ContextKind::SuggestedSubcommand, ContextValue::Strings(near)) => {
                    failure = failure.hint(format!("did you mean {}?", near.join(" or ")));
                }
                _ => {}
            }
        }
        failure
    }
}

impl From<crate::plan::PlanRefusal> for Failure {
    fn from(refused: crate::plan::PlanRefusal) -> Failure {
        let hints = refused.hints();
        let kind = if refused.is_usage() { FailureKind::Usage } else { FailureKind::Machine };
        Failure { kind, message: refused.to_string(), hints }
    }
}

impl From<WatchError> for Failure {
    fn from(error: WatchError) -> Failure {
        match error {
            WatchError::Linux(error) => error.into(),
            WatchError::NoCpus | WatchError::Offline { .. } | WatchError::Recorded => {
                Failure::usage(error.to_string())
            }
            WatchError::NoneLeft { .. } => {
                Failure::usage(error.to_string()).hint("leave at least one CPU out of --cpus")
            }
            WatchError::Workload { .. } => Failure::machine(error.to_string()),
        }
    }
}

impl From<crate::latency::LatencyError> for Failure {
    fn from(error: crate::latency::LatencyError) -> Failure {
        use crate::latency::LatencyError;
        let message = error.to_string();
        match error {
            LatencyError::Linux(error) => error.into(),
            LatencyError::Load(error) => error.into(),
            LatencyError::Recorded
            | LatencyError::NoCpus
            | LatencyError::Unsuited { .. }
            | LatencyError::Offline { .. } => Failure::usage(message),
            LatencyError::Impossible { .. } | LatencyError::Threads { .. } => {
                Failure::machine(message)
            }
            LatencyError::Policy { .. } => Failure::machine(message)
                .hint("run it as root, or measure ordinary threads: --other"),
        }
    }
}

impl From<crate::compare::CompareError> for Failure {
    fn from(error: crate::compare::CompareError) -> Failure {
        use crate::compare::CompareError;
        let failure = Failure::usage(error.to_string());
        match error {
            CompareError::TooFew | CompareError::Empty { .. } | CompareError::Name { .. } => {
                failure.hint("cpushield compare before=a1.json,a2.json after=b1.json,b2.json")
            }
            CompareError::Same { .. } => {
                failure.hint("a repetition needs a new run: remove one of the two")
            }
            CompareError::Instruments { .. } => {
                failure.hint("instruments wait for different things; compare runs of one of them")
            }
            CompareError::Nothing { .. } => {
                failure.hint("measure both with threads of the same --thread")
            }
            CompareError::Damaged { .. } => failure.hint("measure it again"),
        }
    }
}

impl From<crate::load::LoadError> for Failure {
    fn from(error: crate::load::LoadError) -> Failure {
        use crate::load::LoadError;
        let message = error.to_string();
        match error {
            LoadError::Unknown { .. } => {
                Failure::usage(message).hint("`cpushield explain load-messages` describes a load")
            }
            LoadError::Senseless { .. } => Failure::usage(message),
            LoadError::Impossible { load, .. } => Failure::machine(message)
                .hint(format!("cpushield explain load-{load}"))
                .hint("take another --load; `all` leaves out what cannot run"),
        }
    }
}

fn not_a_journal(path: &str, error: &crate::apply::JournalError) -> Failure {
    Failure::machine(format!("{path}: {error}"))
        .hint("nothing was written; `cpushield undo --forget` puts the file away as it is")
        .hint("what a shield changed then stays so until the next boot")
}

impl From<crate::apply::JournalLoadError> for Failure {
    fn from(error: crate::apply::JournalLoadError) -> Failure {
        match error {
            crate::apply::JournalLoadError::Access(error) => error.into(),
            crate::apply::JournalLoadError::Journal { path, error } => not_a_journal(&path, &error),
        }
    }
}

impl From<crate::apply::UndoError> for Failure {
    fn from(error: crate::apply::UndoError) -> Failure {
        use crate::apply::UndoError;
        match error {
            UndoError::Access(error) => error.into(),
            UndoError::Journal { path, error } => not_a_journal(&path, &error),
            UndoError::Hog(hog) => Failure::new(FailureKind::NotUndone, hog.why)
                .hint(format!("{}; then call `cpushield undo` again", hog.hint)),
            UndoError::Killed => Failure::new(FailureKind::Bug, "killed by a test"),
        }
    }
}

impl From<crate::apply::ApplyError> for Failure {
    fn from(error: crate::apply::ApplyError) -> Failure {
        use crate::apply::ApplyError;
        let message = error.to_string();
        match error {
            ApplyError::Access(error) => error.into(),
            ApplyError::Journal { path, error } => not_a_journal(&path, &error),
            ApplyError::Active { .. } => Failure::machine(message)
                .hint("`cpushield status` shows it, `cpushield undo` takes it down"),
            ApplyError::Plan { .. } => Failure::usage(message),
            ApplyError::Hog(hog) => Failure::machine(message).hint(hog.hint),
            ApplyError::Stale { .. } => {
                Failure::usage(message).hint("make it again: `cpushield plan -o FILE`")
            }
            ApplyError::Failed { hint, undone, .. } => {
                let failure = undone_after(message, *undone);
                match hint {
                    Some(hint) => failure.hint(hint),
                    None => failure,
                }
            }
            ApplyError::Stopped { undone, .. } => undone_after(message, *undone),
            ApplyError::Killed => Failure::new(FailureKind::Bug, message),
        }
    }
}

impl From<crate::apply::AmendError> for Failure {
    fn from(error: crate::apply::AmendError) -> Failure {
        use crate::apply::AmendError;
        let message = error.to_string();
        match error {
            AmendError::Load(error) => error.into(),
            AmendError::NoShield => Failure::machine(message).hint("make one: cpushield apply"),
            AmendError::Unfinished => Failure::machine(message)
                .hint("run `cpushield undo` to restore everything, then `cpushield apply` again"),
            AmendError::Step { .. } | AmendError::Killed => Failure::new(FailureKind::Bug, message),
            AmendError::Hog(hog) => Failure::machine(message).hint(hog.hint),
        }
    }
}

/// A failed apply with what became of the changes before it: both errors are kept.
fn undone_after(
    message: String,
    undone: Result<crate::apply::UndoneShield, crate::apply::UndoError>,
) -> Failure {
    let retry = "`cpushield undo` tries again to put the rest back";
    match undone {
        Ok(undone) if undone.is_complete() => Failure::new(
            FailureKind::Undone,
            format!("{message}\n  undone: everything is as it was"),
        ),
        Ok(undone) => {
            let mut message = message;
            for step in undone.failed() {
                if let crate::apply::ChangeFate::Failed { reason } = &step.fate {
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

impl From<crate::experiment::MatrixError> for Failure {
    fn from(error: crate::experiment::MatrixError) -> Failure {
        Failure::usage(error.to_string()).hint("docs/experiment.toml lists all keys")
    }
}

impl From<crate::experiment::journal::ExperimentJournalError> for Failure {
    fn from(error: crate::experiment::journal::ExperimentJournalError) -> Failure {
        use crate::experiment::journal::ExperimentJournalError;
        let message = error.to_string();
        match error {
            ExperimentJournalError::Access(error) => error.into(),
            ExperimentJournalError::Damaged { .. } => Failure::machine(message)
                .hint("`cpushield experiment --stop` puts the file away and everything else back"),
        }
    }
}

impl From<crate::run::RunError> for Failure {
    fn from(error: crate::run::RunError) -> Failure {
        use crate::run::RunError;
        let message = error.to_string();
        match error {
            RunError::NoShield => Failure::machine(message)
                .hint("`cpushield plan` previews a shield, `cpushield apply` makes one"),
            RunError::NotOffered { offered, .. } => {
                Failure::usage(message).hint(format!("programs may run on CPU {offered}"))
            }
            RunError::Unknown { .. } => Failure::usage(message).hint("numbers work too: 1000:1000"),
            RunError::Unsafe { instead, .. } => Failure::usage(message).hint(instead),
            RunError::Scheduling { hints, .. } => {
                Failure { kind: FailureKind::Machine, message, hints }
            }
            RunError::Exec { error, .. } => match error.kind() {
                std::io::ErrorKind::NotFound => Failure::new(FailureKind::NotFound, message),
                _ => Failure::new(FailureKind::NotExecutable, message),
            },
            RunError::Task { hint, .. } => {
                Failure { kind: FailureKind::Machine, message, hints: hint.into_iter().collect() }
            }
            RunError::Unfinished { unfinished, .. } => {
                Failure::machine(message).hint(unfinished.advice())
            }
            RunError::Journal(error) => error.into(),
            RunError::Machine(error) => error.into(),
            RunError::Record(_) => Failure::machine(message),
        }
    }
}

impl From<crate::plan::PlanError> for Failure {
    fn from(error: crate::plan::PlanError) -> Failure {
        Failure::usage(error.to_string()).hint("make a new plan: cpushield plan -o FILE")
    }
}

impl From<crate::boot::BootError> for Failure {
    fn from(error: crate::boot::BootError) -> Failure {
        use crate::boot::BootError;
        let message = error.to_string();
        match error {
            BootError::Access(error) => error.into(),
            BootError::Refused(refused) => refused.into(),
            BootError::BootCpu { .. } => Failure::usage(message).hint("leave CPU 0 out"),
            BootError::NotPlain { .. } => {
                Failure::usage(message).hint("a pattern looks like *-rt-* or 6.12.*")
            }
            BootError::NoSuchParameter { near, .. } => near
                .iter()
                .fold(Failure::usage(message), |f, name| f.hint(format!("did you mean {name}?")))
                .hint("`cpushield boot plan` lists them"),
            BootError::Never { name, .. } => {
                Failure::usage(message).hint(format!("cpushield explain {name}"))
            }
            BootError::NoKernel { .. } => {
                Failure::usage(message).hint("choose others: --kernels GLOB")
            }
            BootError::Conflict { .. } => Failure::machine(message).hint(
                "change it there, with GRUB run update-grub, and try again; nothing was written",
            ),
            BootError::ListsDiffer { isolcpus, .. } if isolcpus.is_empty() => {
                Failure::machine(message).hint("take isolcpus= out where it is given")
            }
            BootError::ListsDiffer { isolcpus, .. } => Failure::machine(message).hint(format!(
                "take isolcpus= out where it is given, or give both the same list: --cpus {isolcpus}"
            )),
            BootError::Active { .. } => {
                Failure::machine(message).hint("take them back first: cpushield boot undo")
            }
            BootError::Unfinished => {
                Failure::machine(message).hint("first undo the existing changes: cpushield boot undo")
            }
            BootError::Foreign { .. } => {
                Failure::machine(message).hint("look at it, and move it out of the way")
            }
            BootError::Failed { undone, hint, .. } => {
                let kind = if undone.is_none() { FailureKind::Undone } else { FailureKind::NotUndone };
                let failure = Failure::new(kind, message);
                let failure = match hint {
                    Some(hint) => failure.hint(hint),
                    None => failure,
                };
                match undone {
                    Some(_) => failure.hint("`cpushield boot undo` tries again"),
                    None => failure,
                }
            }
            BootError::NoTrial => {
                Failure::machine(message).hint("start a trial: cpushield boot apply --trial")
            }
            BootError::NotBooted { .. } => {
                Failure::machine(message).hint("reboot; or give it up: cpushield boot undo")
            }
            BootError::Wrong { hint: Some(hint), .. } => Failure::machine(message).hint(hint),
            BootError::Killed => Failure::new(FailureKind::Bug, message),
            BootError::Unparsable { .. }
            | BootError::ByHand { .. }
            | BootError::NothingApplies { .. }
            | BootError::Wrong { .. }
            | BootError::Journal { .. }
            | BootError::NoRoom { .. } => Failure::machine(message),
        }
    }
}
