//! What an operator asks, and the answers: one JSON line each. The kernel knows which process asks.
//! A request to leave may name another process of the same user. Pure.

use crate::documents::process_note::ProcessNote;
use crate::policy::{MemoryLimit, is_shield_name};
use crate::run::{MovedProcess, PRIORITY_MAX};
use crate::with_text;
use cpushield_linux::{CpuSet, SchedPolicy};
use cpushield_sentence::Sentence;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

/// The internal subcommand that answers one request on its standard input.
pub const OPERATOR_COMMAND: &str = "__operator";
/// The option of it that names the only shield for which it answers.
pub const OPERATOR_SHIELD: &str = "--only-shield";
/// How long the helper waits for a request, and an operator for an answer.
pub const OPERATOR_TIMEOUT: Duration = Duration::from_secs(15);

/// The socket of the helper for the operators of a shield.
#[must_use]
pub fn operator_socket(shield: &str) -> String {
    format!("/run/cpushield/operators-{shield}.sock")
}

/// The longest request.
pub(super) const REQUEST_BYTES_MAX: usize = 512;

/// The numbers that a process to move can have. Process 1 starts the others, and the kernel has no
/// number above (`PID_MAX_LIMIT`, include/linux/threads.h, 6.12).
const PIDS: RangeInclusive<i32> = 2..=4 << 20;

/// What an operator asks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case", deny_unknown_fields)]
pub enum OperatorRequest {
    /// Move the process that asks into a shield. One that is in it already may ask for more.
    Enter {
        /// The shield; if `None`, that of the socket, or the only one.
        shield: Option<String>,
        /// The `SCHED_FIFO` priority; `None` leaves the policy.
        priority: Option<u32>,
        /// The highest priority that the program sets by itself; kernel threads get a higher one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        own_priority: Option<u32>,
        /// Whether it may lock as much memory as the policy permits.
        #[serde(default)]
        lock_memory: bool,
    },
    /// Move a process out of a shield, to where it was before, as an ordinary one.
    Leave {
        /// The shield; if `None`, that of the socket, or the only one.
        shield: Option<String>,
        /// A process of the same user; the one that asks if `None`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pid: Option<i32>,
    },
}

/// The answer to a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "kebab-case")]
pub enum OperatorAnswer {
    /// The process is in the shield.
    Entered(EnteredShield),
    /// The process is out of the shield.
    Left(MovedProcess),
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
    /// The highest priority that it may set by itself below the kernel threads, if it asked for
    /// that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own_priority: Option<u32>,
    /// How much memory it may lock, if it asked for that.
    pub locked_memory: Option<MemoryLimit>,
    /// Notes.
    #[serde(with = "with_text::list")]
    pub notes: Vec<ProcessNote>,
}

/// Why a request is refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Sentence)]
#[serde(tag = "refused", rename_all = "kebab-case")]
pub enum OperatorRefusal {
    /// invalid request: {why}.
    Malformed {
        /// What is wrong.
        why: String,
    },
    /// the request has more than {REQUEST_BYTES_MAX} bytes.
    TooLong,
    /// the request did not arrive completely in time.
    Incomplete,
    /// the requesting process has ended.
    Ended,
    /// The process does not have the user that connected as its real, effective and saved one, or
    /// another user has called sudo.
    #[print(write_user_differs(f, uid))]
    UserDiffers {
        /// The user that connected.
        uid: u32,
    },
    /// {why}.
    NoShield {
        /// What is wrong.
        why: String,
    },
    /// this socket is for shield {socket_of}, not for shield {shield}.
    OtherSocket {
        /// The shield in the request.
        shield: String,
        /// The shield of the socket.
        socket_of: String,
    },
    /// user {uid} is not an operator of shield {shield}.
    NotPermitted {
        /// The shield.
        shield: String,
        /// The user.
        uid: u32,
    },
    /// shield {shield} has no cgroup to enter.
    NoGroup {
        /// The shield.
        shield: String,
    },
    /// the request asks for priority {priority}, but {shield}.
    #[with(shield = permitted(shield, *highest))]
    Priority {
        /// The shield.
        shield: String,
        /// The requested priority.
        priority: u32,
        /// The highest permitted one.
        highest: Option<u32>,
    },
    /// operators of shield {shield} may not raise the limit on locked memory.
    LockedMemory {
        /// The shield.
        shield: String,
    },
    /// the process runs with {policy}, but {shield}.
    #[with(shield = permitted(shield, *highest))]
    OwnPolicy {
        /// The shield.
        shield: String,
        /// The policy of one of its threads.
        policy: SchedPolicy,
        /// The highest permitted priority.
        highest: Option<u32>,
    },
    /// the process is in another shield, which it must leave first.
    InOtherShield,
    /// the process is not in shield {shield}.
    NotInShield {
        /// The shield.
        shield: String,
    },
    /// process {pid} does not exist.
    NoProcess {
        /// The number.
        pid: i32,
    },
    /// {pid} is a thread, but an operator can only move whole processes.
    Thread {
        /// The number.
        pid: i32,
    },
    /// {pid} is a kernel thread.
    KernelThread {
        /// The number.
        pid: i32,
    },
    /// process {pid} does not belong to user {uid}.
    OtherUser {
        /// The process.
        pid: i32,
        /// The user that asks.
        uid: u32,
    },
    /// the requesting process is in another PID namespace, so it cannot name a process.
    OtherNumbers,
    /// the process belongs to {unit}, whose cgroup systemd manages.
    InUnit {
        /// The group of the unit, below that of the shield.
        unit: String,
    },
    /// cannot move process {pid} out: no ancestor and no other process of its user is outside the
    /// shield, so no cgroup with that user's limits is known; root can move the process.
    NoDestination {
        /// The process.
        pid: i32,
    },
    /// Another process changes the shields, or waits to do so.
    #[print(write_busy(f, pid))]
    Busy {
        /// That process, if it is known.
        pid: Option<i32>,
    },
    /// {why}.
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
        let (shield, pid) = match &request {
            OperatorRequest::Enter { priority: Some(_), own_priority: Some(_), .. } => {
                return Err(malformed(
                    "priority and own_priority are mutually exclusive".to_owned(),
                ));
            }
            OperatorRequest::Enter { shield, .. } => (shield, None),
            OperatorRequest::Leave { shield, pid } => (shield, *pid),
        };
        if let Some(pid) = pid.filter(|pid| !PIDS.contains(pid)) {
            return Err(malformed(format!("{pid} is not the ID of a process that can be moved")));
        }
        match shield {
            Some(name) if !is_shield_name(name) => {
                Err(malformed("the name is not a valid shield name".to_owned()))
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
    /// `None` if no policy can permit it.
    #[must_use]
    pub fn rule(&self) -> Option<String> {
        let (shield, line) = match self {
            OperatorRefusal::NotPermitted { shield, uid } => {
                (shield, format!("users = [\"{uid}\"]"))
            }
            OperatorRefusal::Priority { shield, priority, .. }
            | OperatorRefusal::OwnPolicy {
                shield,
                policy: SchedPolicy::Fifo { priority } | SchedPolicy::Rr { priority },
                ..
            } if (1..=PRIORITY_MAX).contains(priority) => {
                (shield, format!("priority = {priority}"))
            }
            OperatorRefusal::LockedMemory { shield } => {
                (shield, "locked_memory = \"unlimited\"".to_owned())
            }
            _ => return None,
        };
        Some(format!("[shield.{shield}.operators] {line}"))
    }
}

/// What a policy permits.
fn permitted(shield: &str, highest: Option<u32>) -> String {
    match highest {
        Some(highest) => {
            format!("operators of shield {shield} may have a priority of 1 to {highest}")
        }
        None => format!("operators of shield {shield} may not have a real-time priority"),
    }
}

/// Why a process has no clear user.
fn several_users(uid: u32) -> String {
    format!(
        "the requesting process does not belong to user {uid} alone: its real, effective and saved \
         user, and a caller of sudo, must be the same"
    )
}

fn write_user_differs(f: &mut fmt::Formatter<'_>, uid: &u32) -> fmt::Result {
    f.write_str(&several_users(*uid))
}

fn write_busy(f: &mut fmt::Formatter<'_>, pid: &Option<i32>) -> fmt::Result {
    match pid {
        Some(pid) => {
            write!(f, "process {pid} is changing the shields: retry in a second")
        }
        None => f.write_str("another process is changing the shields: retry in a second"),
    }
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
            own_priority: None,
            lock_memory: true,
        };
        assert_eq!(OperatorRequest::parse(enter.line().as_bytes()), Ok(enter));
        let leave = |pid| Ok(OperatorRequest::Leave { shield: None, pid });
        assert_eq!(OperatorRequest::parse(b"{\"do\": \"leave\"}"), leave(None));
        let named = b"{\"do\": \"leave\", \"pid\": 4194304}";
        assert_eq!(OperatorRequest::parse(named), leave(Some(4_194_304)));
        for wrong in [
            "",
            "{}",
            "[]",
            "\"enter\"",
            "{\"do\": \"exec\"}",
            "{\"do\": \"enter\", \"pid\": 1}",
            "{\"do\": \"leave\", \"priority\": 1}",
            "{\"do\": \"leave\", \"pid\": 0}",
            "{\"do\": \"leave\", \"pid\": 1}",
            "{\"do\": \"leave\", \"pid\": -200}",
            "{\"do\": \"leave\", \"pid\": 4194305}",
            "{\"do\": \"leave\", \"pid\": 4294967496}",
            "{\"do\": \"leave\", \"pid\": 200.0}",
            "{\"do\": \"leave\", \"pid\": \"200\"}",
            "{\"do\": \"leave\", \"pid\": [200]}",
            "{\"do\": \"leave\", \"pid\": 200, \"pid\": 201}",
            "{\"do\": \"enter\", \"priority\": -1}",
            "{\"do\": \"enter\", \"own_priority\": -1}",
            "{\"do\": \"enter\", \"priority\": 1, \"own_priority\": 1}",
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
        fn a_process_is_named_only_to_leave_and_only_by_a_possible_number(
            verb in "enter|leave",
            pid in prop_oneof![any::<i64>(), -9..9_i64, 4_194_300..4_194_310_i64],
        ) {
            let line = format!("{{\"do\":\"{verb}\",\"pid\":{pid}}}");
            let parsed = OperatorRequest::parse(line.as_bytes());
            let possible = verb == "leave" && (2..=4_194_304).contains(&pid);
            prop_assert_eq!(parsed.is_ok(), possible, "{}", line);
            if let Ok(OperatorRequest::Leave { pid: named, .. }) = parsed {
                prop_assert_eq!(named.map(i64::from), Some(pid));
            }
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
