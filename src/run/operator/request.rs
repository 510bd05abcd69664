//! What an operator asks, and the answers: one JSON line each. There is no process in a request:
//! who asks is known to the kernel, and nobody asks for another process. Pure.

use crate::documents::process_note::ProcessNote;
use crate::policy::{MemoryLimit, is_shield_name};
use crate::with_text;
use cpushield_linux::CpuSet;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// The socket of the helper.
pub const OPERATOR_SOCKET: &str = "/run/cpushield/operators.sock";
/// The internal subcommand that answers one request on its standard input.
pub const OPERATOR_COMMAND: &str = "__operator";
/// How long the helper waits for a request, and an operator for an answer. The lock of the state
/// directory takes the longest.
pub const OPERATOR_TIMEOUT: Duration = Duration::from_secs(15);

/// The longest request.
pub(super) const REQUEST_BYTES_MAX: usize = 512;

/// What an operator asks for the process that asks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case", deny_unknown_fields)]
pub enum OperatorRequest {
    /// Move the process into a shield. One that is in it already may ask for more.
    Enter {
        /// The shield; the only one if `None`.
        shield: Option<String>,
        /// The `SCHED_FIFO` priority; `None` leaves the policy.
        priority: Option<u32>,
        /// Whether it may lock as much memory as the policy permits.
        #[serde(default)]
        lock_memory: bool,
    },
    /// Move the process out of a shield, to where it was before, as an ordinary one.
    Leave {
        /// The shield; the only one if `None`.
        shield: Option<String>,
    },
}

/// The answer to a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "kebab-case")]
pub enum OperatorAnswer {
    /// The process is in the shield.
    Entered(EnteredShield),
    /// The process is out of the shield.
    Left {
        /// The CPUs it may run on.
        cpus: CpuSet,
    },
    /// Nothing was changed, or it was changed back.
    Refused {
        /// Why.
        #[serde(flatten)]
        refusal: OperatorRefusal,
        /// The same as a sentence.
        text: String,
        /// What would permit it.
        rule: Option<String>,
    },
}

/// A process that is in a shield.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnteredShield {
    /// The shield.
    pub shield: String,
    /// The CPUs it may run on.
    pub cpus: CpuSet,
    /// Its `SCHED_FIFO` priority, if it asked for one.
    pub priority: Option<u32>,
    /// How much memory it may lock, if it asked for that.
    pub locked_memory: Option<MemoryLimit>,
    /// Notes.
    #[serde(with = "with_text::list")]
    pub notes: Vec<ProcessNote>,
}

/// Why a request is refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "refused", rename_all = "kebab-case")]
pub enum OperatorRefusal {
    /// It is no request.
    Malformed {
        /// What is wrong.
        why: String,
    },
    /// It is longer than any request.
    TooLong,
    /// It was not complete in time.
    Incomplete,
    /// The process has ended, or its user has changed.
    Ended,
    /// No shield is active, or none of this name, or several.
    NoShield {
        /// What is wrong.
        why: String,
    },
    /// The user is no operator of the shield.
    NotPermitted {
        /// The shield.
        shield: String,
        /// The user.
        uid: u32,
    },
    /// The shield has no cgroup.
    NoGroup {
        /// The shield.
        shield: String,
    },
    /// The priority is higher than the policy permits, or it permits none.
    Priority {
        /// The shield.
        shield: String,
        /// The requested priority.
        priority: u32,
        /// The highest permitted one.
        highest: Option<u32>,
    },
    /// The policy permits to lock no more memory.
    LockedMemory {
        /// The shield.
        shield: String,
    },
    /// The process is in another shield.
    InOtherShield,
    /// The process is not in the shield.
    NotInShield {
        /// The shield.
        shield: String,
    },
    /// The machine cannot do it now.
    Machine {
        /// Why.
        why: String,
    },
}

impl OperatorRequest {
    /// Parses a request.
    ///
    /// # Errors
    /// It is no request, or names no possible shield.
    pub fn parse(line: &[u8]) -> Result<OperatorRequest, OperatorRefusal> {
        let malformed = |why: String| OperatorRefusal::Malformed { why };
        let request: OperatorRequest =
            serde_json::from_slice(line).map_err(|error| malformed(error.to_string()))?;
        let (OperatorRequest::Enter { shield, .. } | OperatorRequest::Leave { shield }) = &request;
        match shield {
            Some(name) if !is_shield_name(name) => {
                Err(malformed("the name cannot be that of a shield".to_owned()))
            }
            _ => Ok(request),
        }
    }

    /// The line that is sent.
    #[must_use]
    pub fn line(&self) -> String {
        serde_json::to_string(self).unwrap_or_default() + "\n"
    }
}

impl OperatorAnswer {
    /// The line that is sent.
    #[must_use]
    pub fn line(&self) -> String {
        serde_json::to_string(self).unwrap_or_default() + "\n"
    }
}

impl From<OperatorRefusal> for OperatorAnswer {
    fn from(refusal: OperatorRefusal) -> OperatorAnswer {
        OperatorAnswer::Refused { text: refusal.to_string(), rule: refusal.rule(), refusal }
    }
}

impl OperatorRefusal {
    /// What would permit it: a line of the policy, after which root applies the shield again.
    #[must_use]
    pub fn rule(&self) -> Option<String> {
        let (shield, line) = match self {
            OperatorRefusal::NotPermitted { shield, uid } => {
                (shield, format!("users = [\"{uid}\"]"))
            }
            OperatorRefusal::Priority { shield, priority, .. } => {
                (shield, format!("priority = {}", (*priority).clamp(1, super::super::PRIORITY_MAX)))
            }
            OperatorRefusal::LockedMemory { shield } => {
                (shield, "locked_memory = \"unlimited\"".to_owned())
            }
            _ => return None,
        };
        Some(format!("[shield.{shield}.operators] {line}"))
    }
}

impl fmt::Display for OperatorRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OperatorRefusal::Malformed { why } => write!(f, "this is not a request: {why}"),
            OperatorRefusal::TooLong => {
                write!(f, "the request has more than {REQUEST_BYTES_MAX} bytes")
            }
            OperatorRefusal::Incomplete => f.write_str("the request was not complete in time"),
            OperatorRefusal::Ended => f.write_str("the process that asked has ended"),
            OperatorRefusal::NoShield { why } | OperatorRefusal::Machine { why } => {
                f.write_str(why)
            }
            OperatorRefusal::NotPermitted { shield, uid } => {
                write!(f, "user {uid} is not an operator of shield {shield}")
            }
            OperatorRefusal::NoGroup { shield } => {
                write!(f, "shield {shield} has no control group to enter")
            }
            OperatorRefusal::Priority { shield, priority, highest: Some(highest) } => {
                write!(f, "priority {priority} is not 1 to {highest}, as in shield {shield}")
            }
            OperatorRefusal::Priority { shield, priority, highest: None } => {
                write!(f, "operators of shield {shield} have no priority, and not {priority}")
            }
            OperatorRefusal::LockedMemory { shield } => {
                write!(f, "operators of shield {shield} may not raise the limit on locked memory")
            }
            OperatorRefusal::InOtherShield => {
                f.write_str("the process is in another shield, which it must leave first")
            }
            OperatorRefusal::NotInShield { shield } => {
                write!(f, "the process is not in shield {shield}")
            }
        }
    }
}

/// The line for sudoers with which operators reach the helper where systemd offers no socket. It
/// permits exactly this command, which takes no arguments and executes nothing.
#[must_use]
pub fn sudoers_line(whom: &str, program: &str) -> String {
    format!("{whom} ALL=(root) NOPASSWD: {program} {OPERATOR_COMMAND}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn requests_are_strict() {
        let enter = OperatorRequest::Enter {
            shield: Some("rt".to_owned()),
            priority: Some(80),
            lock_memory: true,
        };
        assert_eq!(OperatorRequest::parse(enter.line().as_bytes()), Ok(enter));
        let leave = OperatorRequest::Leave { shield: None };
        assert_eq!(OperatorRequest::parse(b"{\"do\": \"leave\"}"), Ok(leave));
        for wrong in [
            "",
            "{}",
            "[]",
            "\"enter\"",
            "{\"do\": \"exec\"}",
            "{\"do\": \"enter\", \"pid\": 1}",
            "{\"do\": \"leave\", \"priority\": 1}",
            "{\"do\": \"enter\", \"priority\": -1}",
            "{\"do\": \"enter\", \"priority\": 4294967296}",
            "{\"do\": \"enter\", \"shield\": \"../a\"}",
            "{\"do\": \"enter\", \"shield\": \"\"}",
            "{\"do\": \"enter\"} {\"do\": \"leave\"}",
            "{\"do\": \"enter\", \"do\": \"leave\"}",
        ] {
            let answer = OperatorRequest::parse(wrong.as_bytes());
            assert!(
                matches!(answer, Err(OperatorRefusal::Malformed { .. })),
                "{wrong}: {answer:?}"
            );
        }
    }

    #[test]
    fn what_the_policy_does_not_permit_is_refused_with_its_rule() {
        let shield = || "rt".to_owned();
        let refusals = [
            OperatorRefusal::NotPermitted { shield: shield(), uid: 1000 },
            OperatorRefusal::Priority { shield: shield(), priority: 90, highest: Some(80) },
            OperatorRefusal::LockedMemory { shield: shield() },
        ];
        for refusal in refusals {
            let rule = refusal.rule().unwrap();
            let (table, line) = rule.split_once(' ').unwrap();
            // The rule is a valid policy.
            let text = format!("{table}\nusers = []\n{line}\n");
            let text = if line.starts_with("users") { format!("{table}\n{line}\n") } else { text };
            let text = text.replace("users = []", "group = \"rt\"");
            crate::policy::PolicyFile::parse(&text, "policy").unwrap();
            let answer = OperatorAnswer::from(refusal);
            let line = answer.line();
            assert_eq!(serde_json::from_str::<OperatorAnswer>(&line).unwrap(), answer, "{line}");
        }
    }

    /// Texts that are nearly requests.
    const NEARLY: &str = concat!(
        "\\{\"do\":\"(enter|leave)\"",
        "(,\"[a-z_]{1,12}\":(null|true|-?[0-9]{1,12}|\"[a-z/.]{0,5}\")){0,3}\\}"
    );

    proptest! {
        #[test]
        fn any_bytes_are_answered(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
            let _ = OperatorRequest::parse(&bytes);
        }

        #[test]
        fn what_is_accepted_reads_back(text in NEARLY) {
            if let Ok(request) = OperatorRequest::parse(text.as_bytes()) {
                let line = request.line();
                prop_assert_eq!(OperatorRequest::parse(line.trim_end().as_bytes()), Ok(request));
                prop_assert!(line.len() <= REQUEST_BYTES_MAX);
            }
        }
    }
}
