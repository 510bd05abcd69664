//! [`Failure`]: an error for the user. The errors of the stages say themselves what they are, as a
//! [`UserError`].

pub use crate::refusal::FailureKind;
use crate::refusal::UserError;
use clap::error::{ContextKind, ContextValue};
use cpushield_linux::sys::signal::StopSignal;
use serde_json::Value;
use std::fmt;
use std::process::ExitCode;

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

impl<R: UserError> From<R> for Failure {
    fn from(refusal: R) -> Failure {
        let (message, hints) = (refusal.message(), refusal.hints());
        Failure { kind: refusal.kind(), message, hints, reason: refusal.reason() }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{PlanRefusal, SiblingRefusal};
    use cpushield_linux::CpuSet;
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
