//! [`UserError`]: an error as the user gets it, with its kind (which decides the exit code), its
//! hints and its reason for programs. `#[derive(Sentence)]` makes one of an enum.

use cpushield_linux::Error;
use cpushield_linux::error::ErrorCause;
use cpushield_linux::processes::process;
use serde::Serialize;
use serde_json::Value;
use std::fmt::Display;

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

/// An error that says what to do.
pub trait UserError: Display {
    /// Its kind.
    fn kind(&self) -> FailureKind;

    /// One sentence without a full stop. Indented `file:`, `value:` and `cause:` lines may follow.
    fn message(&self) -> String {
        self.to_string()
    }

    /// What to do next, as commands or imperative sentences.
    fn hints(&self) -> Vec<String> {
        Vec::new()
    }

    /// Why, as a tag with facts, for programs; `None` where there is only a sentence.
    fn reason(&self) -> Option<Value> {
        None
    }

    /// Whether it is the end of this process, which leaves everything as it is.
    fn is_stop(&self) -> bool {
        false
    }
}

impl<R: UserError + ?Sized> UserError for Box<R> {
    fn kind(&self) -> FailureKind {
        (**self).kind()
    }

    fn message(&self) -> String {
        (**self).message()
    }

    fn hints(&self) -> Vec<String> {
        (**self).hints()
    }

    fn reason(&self) -> Option<Value> {
        (**self).reason()
    }

    fn is_stop(&self) -> bool {
        (**self).is_stop()
    }
}

impl UserError for Error {
    fn kind(&self) -> FailureKind {
        FailureKind::Machine
    }

    fn message(&self) -> String {
        let mut message = format!("cannot {} {}", self.verb.word(), self.path);
        if let Some(value) = &self.value {
            message.push_str(&format!("\n  value: {value:?}"));
        }
        message + &format!("\n  cause: {}", self.reason())
    }

    fn hints(&self) -> Vec<String> {
        let hint = match self.cause {
            ErrorCause::NotRegular(_) => {
                "cpushield did not create it: inspect it, then move it away, or name another file"
            }
            _ if self.is_forbidden() && process::effective_user() != 0 => "run it as root",
            _ => return Vec::new(),
        };
        vec![hint.to_owned()]
    }

    fn is_stop(&self) -> bool {
        Error::is_stop(self)
    }
}

/// `did you mean NAME?` for each name.
pub fn suggest(near: &[String]) -> impl Iterator<Item = String> {
    near.iter().map(|name| format!("did you mean {name}?"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use cpushield_sentence::Sentence;
    use serde_json::json;

    #[derive(Debug, Sentence)]
    #[kind(Machine)]
    #[tagged]
    enum Sample {
        /// CPU {cpu} is in {count} shields; {{cpu}} is no field.
        ///
        /// More about it, for readers of the code.
        #[with(count = shields.len())]
        #[line("file:  {}", path)]
        #[line(name in shields, "name:  {name}")]
        #[kind(Usage)]
        #[hint("omit CPU {cpu}")]
        #[hint(shields.iter().map(|name| format!("or undo {name}")))]
        InShields { cpu: usize, shields: Vec<&'static str>, path: &'static str },
        /// {0:?} is odd, not {1}.
        Odd(&'static str, u8),
        /// Another one.
        #[delegate]
        Inner(Box<Sample>),
    }

    #[test]
    fn a_derived_error_has_its_sentence_lines_kind_hints_and_tag() {
        let inner = || Sample::InShields { cpu: 3, shields: vec!["a", "b"], path: "/x" };
        let odd = Sample::Odd("\"", 2);
        assert_eq!((odd.to_string(), odd.hints()), (r#""\"" is odd, not 2"#.to_owned(), vec![]));
        assert_eq!(
            (odd.kind(), odd.reason()),
            (FailureKind::Machine, Some(json!({ "tag": "odd" })))
        );
        for (error, tag) in [(inner(), "in-shields"), (Sample::Inner(Box::new(inner())), "inner")] {
            let text =
                "CPU 3 is in 2 shields; {cpu} is no field\n  file:  /x\n  name:  a\n  name:  b";
            assert_eq!((error.to_string(), error.message()), (text.to_owned(), text.to_owned()));
            assert_eq!(error.hints(), ["omit CPU 3", "or undo a", "or undo b"]);
            assert_eq!(
                (error.kind(), error.reason()),
                (FailureKind::Usage, Some(json!({ "tag": tag })))
            );
        }
    }
}
