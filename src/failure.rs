//! [`Failure`]: an error for the user, with its kind (which decides the exit code) and hints. The
//! errors of all stages are converted here, so that messages and hints are in one place.

mod of_shields;

use crate::verify::WatchError;
use clap::error::{ContextKind, ContextValue};
use cpushield_linux::CpuSet;
use cpushield_linux::sys::signal::StopSignal;
use serde::Serialize;
use serde_json::Value;
use std::fmt;
use std::process::ExitCode;

/// The kind of a failure, which determines the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// A verdict or a limit does not hold. This is a result, not an error.
    DoesNotHold,
    /// The command line, a policy file or a plan is wrong.
    Usage,
    /// This machine cannot do it, or cpushield refuses something unsafe.
    Machine,
    /// The operation failed midway and every change was undone.
    Undone,
    /// The operation failed midway and some changes could not be undone; the journal is kept.
    NotUndone,
    /// `run` failed before the program was started.
    NotStarted,
    /// The command of `run` exists but cannot be executed.
    NotExecutable,
    /// The command of `run` does not exist.
    NotFound,
    /// A bug in cpushield.
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

/// An error for the user.
#[derive(Debug)]
pub struct Failure {
    /// The kind.
    pub kind: FailureKind,
    /// One sentence without a full stop. Indented `file:`, `value:` and `cause:` lines may follow.
    pub message: String,
    /// What to do next, as commands or imperative sentences.
    pub hints: Vec<String>,
    /// Why, as a tag with facts, for programs; `None` where the stage has only a sentence.
    pub reason: Option<Value>,
}

impl Failure {
    /// A failure of a kind.
    #[must_use]
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Failure {
        Failure { kind, message: message.into(), hints: Vec::new(), reason: None }
    }

    /// Adds a hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Failure {
        self.hints.push(hint.into());
        self
    }

    /// Adds the reason that a stage gives, as a tag with facts.
    #[must_use]
    fn reason(mut self, reason: &impl Serialize) -> Failure {
        self.reason = serde_json::to_value(reason).ok();
        self
    }

    /// A wrong command line, policy or plan.
    #[must_use]
    pub fn usage(message: impl Into<String>) -> Failure {
        Failure::new(FailureKind::Usage, message)
    }

    /// Something that this machine cannot do.
    #[must_use]
    pub fn machine(message: impl Into<String>) -> Failure {
        Failure::new(FailureKind::Machine, message)
    }

    /// A signal stopped the command, which undid its changes.
    #[must_use]
    pub fn stopped(by: StopSignal) -> Failure {
        Failure::new(FailureKind::Undone, format!("stopped by {by}"))
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
            return failure.hint(
                "cpushield did not create it: inspect it, then move it away, or name another file",
            );
        }
        match error.is_forbidden() && cpushield_linux::processes::process::effective_user() != 0 {
            true => failure.hint("run it as root"),
            false => failure,
        }
    }
}

impl From<crate::json::JsonError> for Failure {
    fn from(error: crate::json::JsonError) -> Failure {
        Failure::new(FailureKind::Bug, error.to_string())
    }
}

impl From<clap::Error> for Failure {
    fn from(error: clap::Error) -> Failure {
        let text = error.to_string();
        // The first paragraph is the message; the usage and a pointer to the help follow.
        let message = text.split("\n\n").next().unwrap_or_default();
        let message = message.strip_prefix("error: ").unwrap_or(message).trim_end();
        let mut failure = Failure::usage(message);
        for (kind, value) in error.context() {
            match (kind, value) {
                (
                    ContextKind::SuggestedSubcommand
                    | ContextKind::SuggestedValue
                    | ContextKind::SuggestedArg,
                    ContextValue::String(near),
                ) => failure = failure.hint(format!("did you mean {near}?")),
                (ContextKind::SuggestedSubcommand, ContextValue::Strings(near)) => {
                    failure = failure.hint(format!("did you mean {}?", near.join(" or ")));
                }
                (ContextKind::Suggested, ContextValue::StyledStrs(tips)) => {
                    failure.hints.extend(tips.iter().map(ToString::to_string));
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
        Failure { hints, ..Failure::new(kind, refused.to_string()) }.reason(&refused)
    }
}

impl From<crate::plan::PolicyRefusal> for Failure {
    fn from(refused: crate::plan::PolicyRefusal) -> Failure {
        let hints = refused.hints();
        let kind = if refused.is_usage() { FailureKind::Usage } else { FailureKind::Machine };
        Failure { hints, ..Failure::new(kind, refused.to_string()) }.reason(&refused)
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
                failure.hint("each repetition must be a separate run: remove one of the two files")
            }
            CompareError::Instruments { .. } => failure.hint("compare runs of the same instrument"),
            CompareError::Shields { .. } => {
                failure.hint("make one group per shield: a=a1.json,a2.json b=b1.json,b2.json")
            }
            CompareError::Kinds { .. } => {
                failure.hint("compare two outputs of the same subcommand")
            }
            CompareError::Nothing { .. } => {
                failure.hint("measure both groups with the same --thread periods")
            }
            CompareError::Damaged { .. } => failure.hint("repeat the measurement"),
        }
    }
}

impl From<crate::load::LoadError> for Failure {
    fn from(error: crate::load::LoadError) -> Failure {
        use crate::load::LoadError;
        let message = error.to_string();
        match error {
            LoadError::Unknown { near, .. } => {
                let near = near.iter().map(|near| format!("did you mean {near}?"));
                let failure = near.fold(Failure::usage(message), Failure::hint);
                failure.hint("read about a load: cpushield explain load-messages")
            }
            LoadError::NoneCombined
            | LoadError::UnexpectedArguments { .. }
            | LoadError::NoCommand
            | LoadError::SeveralCommands => Failure::usage(message),
            LoadError::Impossible { load, .. } => Failure::machine(message)
                .hint(format!("read about this load: cpushield explain load-{load}"))
                .hint("or use another --load; `all` skips loads that cannot run"),
        }
    }
}

impl From<crate::experiment::MatrixError> for Failure {
    fn from(error: crate::experiment::MatrixError) -> Failure {
        Failure::usage(error.to_string()).hint("see all keys: cpushield explain experiment")
    }
}

impl From<crate::experiment::journal::ExperimentJournalError> for Failure {
    fn from(error: crate::experiment::journal::ExperimentJournalError) -> Failure {
        use crate::experiment::journal::ExperimentJournalError;
        let message = error.to_string();
        match error {
            ExperimentJournalError::Access(error) => error.into(),
            ExperimentJournalError::Damaged { .. } => Failure::machine(message)
                .hint("move the file away and undo the rest: cpushield experiment --stop"),
        }
    }
}

impl From<crate::plan::PlanError> for Failure {
    fn from(error: crate::plan::PlanError) -> Failure {
        Failure::usage(error.to_string()).hint("make a new plan: cpushield plan -o FILE")
    }
}

impl Failure {
    /// A kernel parameter that is not accepted, with similar names and this advice.
    pub(crate) fn faulty_word(
        message: String,
        faulty: &crate::documents::boot::FaultyWord,
        advice: String,
    ) -> Failure {
        let near = faulty.near.iter().map(|name| format!("did you mean {name}?"));
        near.fold(Failure::usage(message), Failure::hint).hint(advice)
    }
}

fn mixed_kernels(message: String, with: &str, without: &str) -> Failure {
    Failure::usage(message)
        .hint(format!("choose one kind: --kernels {with}"))
        .hint(format!("or: --kernels {without}"))
        .hint("or use isolcpus= for all of them: --off nohz-full --on isolcpus-domain")
}

fn undecided_kernel(message: String, with: &str, undecided: &str, parameters: &[&str]) -> Failure {
    let on: String = parameters.iter().map(|name| format!(" --on {name}")).collect();
    Failure::usage(message)
        .hint(format!("choose one kind: --kernels {with}"))
        .hint(format!("or: --kernels {undecided}"))
        .hint(format!("or try the parameters on all of them: --trial{on}"))
}

fn nothing_applies(
    message: String,
    skipped: &[crate::documents::boot::SkippedParameter],
) -> Failure {
    let failure = Failure::machine(message);
    let undecided = skipped.iter().filter(|it| it.reason.is_undecided());
    let on: String = undecided.map(|it| format!(" --on {}", it.name)).collect();
    if on.is_empty() {
        return failure;
    }
    failure.hint(format!("try these parameters for one boot: cpushield boot apply --trial{on}"))
}

/// A name that `--on` and `--off` do not have: a kernel parameter of the user's own, or a typo.
fn no_such_parameter(message: String, name: &str, near: &[String]) -> Failure {
    let failure = Failure::usage(message);
    let names = crate::boot::offered_names(name);
    if !names.is_empty() {
        return names.into_iter().fold(failure, |failure, name| {
            failure.hint(format!("cpushield calls it {name}: cpushield explain {name}"))
        });
    }
    if crate::boot::names_kernel_parameter(name) {
        return failure
            .hint(format!("for a kernel parameter of your own: --parameter {name}"))
            .hint(format!("or in a policy: boot.parameters = [{name:?}]"));
    }
    near.iter()
        .fold(failure, |failure, name| failure.hint(format!("did you mean {name}?")))
        .hint("list the parameters: cpushield boot plan")
}

fn lists_differ(message: String, isolcpus: &CpuSet) -> Failure {
    let failure = Failure::machine(message).hint("remove isolcpus= where it is set");
    if isolcpus.is_empty() {
        return failure;
    }
    failure.hint(format!("or use the same list for both: --cpus {isolcpus}"))
}

impl From<crate::boot::BootError> for Failure {
    fn from(error: crate::boot::BootError) -> Failure {
        use crate::boot::BootError;
        let message = error.to_string();
        match error {
            BootError::Access(error) => error.into(),
            BootError::Refused(refused) => refused.into(),
            BootError::BootCpu { .. } => Failure::usage(message).hint("omit CPU 0"),
            BootError::NotPlain { .. } => {
                Failure::usage(message).hint("use a pattern such as *-rt-* or 6.12.*")
            }
            BootError::FaultyWord(faulty) => {
                Failure::faulty_word(message, &faulty, faulty.advice())
            }
            BootError::NoSuchParameter { name, near } => no_such_parameter(message, &name, &near),
            BootError::Never { name, .. } => {
                Failure::usage(message).hint(format!("cpushield explain {name}"))
            }
            BootError::NoKernel { .. } => {
                Failure::usage(message).hint("choose other kernels: --kernels GLOB")
            }
            BootError::NotRunning { .. } => Failure::usage(message).hint("omit --kernels"),
            BootError::MixedKernels { with, without } => mixed_kernels(message, &with, &without),
            BootError::UndecidedKernel { with, undecided, parameters } => {
                undecided_kernel(message, &with, &undecided, &parameters)
            }
            BootError::Conflict { .. } => Failure::machine(message).hint(
                "nothing was written; change that file (with GRUB, then run update-grub) and retry",
            ),
            BootError::ListsDiffer { isolcpus, .. } => lists_differ(message, &isolcpus),
            BootError::Defeated { finding, .. } => Failure::usage(message).hint(finding.advice()),
            BootError::Active { .. } => {
                Failure::machine(message).hint("remove them first: cpushield boot undo")
            }
            BootError::TrialPending { .. } => Failure::machine(message).hint(
                "`cpushield boot status` reports its state; to remove the trial: cpushield boot undo",
            ),
            BootError::TrialOfPart { .. } => Failure::machine(message).hint(
                "omit --trial: cpushield boot apply; or remove the written parameters first: \
                 cpushield boot undo",
            ),
            BootError::Unfinished => Failure::machine(message)
                .hint("undo the existing changes first: cpushield boot undo"),
            BootError::Foreign { .. } => {
                Failure::machine(message).hint("inspect it, then move it away")
            }
            BootError::Failed { written, undone, hint, .. } => {
                let mut failure = match undone {
                    None => Failure::new(FailureKind::Undone, message),
                    Some(_) => Failure::new(FailureKind::NotUndone, message),
                };
                failure.hints.extend(hint);
                match failure.kind {
                    FailureKind::NotUndone => failure.hint(written.undo_hint()),
                    _ => failure,
                }
            }
            BootError::NothingApplies { skipped } => nothing_applies(message, &skipped),
            BootError::NoTrial => {
                Failure::machine(message).hint("start a trial: cpushield boot apply --trial")
            }
            BootError::NotBooted { .. } => {
                Failure::machine(message).hint("reboot").hint("or abandon it: cpushield boot undo")
            }
            BootError::Wrong { hint: Some(hint), .. } => Failure::machine(message).hint(hint),
            BootError::Killed => Failure::new(FailureKind::Bug, message),
            BootError::Journal { path, .. } => invalid_boot_journal(message, &path),
            BootError::Unparsable { .. }
            | BootError::ByHand { .. }
            | BootError::Wrong { .. }
            | BootError::NoRoom { .. } => Failure::machine(message),
        }
    }
}

/// Without the journal of `enable`, only the files themselves show what it has written.
fn invalid_boot_journal(message: String, path: &str) -> Failure {
    let failure = Failure::machine(message);
    match path.ends_with(crate::boot::early::JOURNAL) {
        true => failure.hint(
            "remove the files that contain `Made by cpushield` from /etc/systemd/system and \
             /etc/init.d, then this file",
        ),
        false => failure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{PlanRefusal, SiblingRefusal};
    use serde_json::json;

    #[test]
    fn a_refusal_has_its_reason_as_a_tag_with_its_facts() {
        let cpus = CpuSet::single(3);
        let siblings = SiblingRefusal::StayOnline { cpus: cpus.clone() };
        let offline = PlanRefusal::Offline { cpus, smt_off: true };
        for (refusal, reason) in [
            (PlanRefusal::OneCpu, json!({ "tag": "one-cpu" })),
            (offline, json!({ "tag": "offline", "cpus": "3", "smt_off": true })),
            (PlanRefusal::Siblings(siblings), json!({ "tag": "stay-online", "cpus": "3" })),
        ] {
            assert_eq!(Failure::from(refusal).reason, Some(reason));
        }
        let error = crate::apply::UndoError::Several { names: Vec::new() };
        assert_eq!(Failure::from(error).reason, Some(json!({ "tag": "several" })));
        assert_eq!(Failure::usage("no").reason, None);
    }
}
