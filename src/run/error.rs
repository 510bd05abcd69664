//! Why a program could not be run, added or removed.

use super::ThreadInTheWay;
use crate::apply::JournalLoadError;
use cpushield_linux::{CpuSet, Error, SchedPolicy};
use cpushield_sentence::Sentence;
use std::fmt;

/// Why a program could not be run, added or removed.
#[derive(Debug, Sentence)]
pub enum RunError {
    /// no shield is active.
    NoShield,
    /// several shields are active: {names}.
    #[with(names = names.join(", "))]
    Several {
        /// Their names.
        names: Vec<String>,
    },
    /// no active shield is named {name:?}; active: {names}.
    #[with(names = names.join(", "))]
    NoSuchShield {
        /// The name.
        name: String,
        /// The names of the active ones.
        names: Vec<String>,
    },
    /// Programs in a shield have no place in its new version.
    #[print(write_in_the_way(f, shield, threads))]
    InTheWay {
        /// The shield.
        shield: String,
        /// Their threads.
        threads: Vec<ThreadInTheWay>,
    },
    /// CPU {cpu} {why}.
    NotOffered {
        /// The requested CPU.
        cpu: usize,
        /// The reason.
        why: String,
        /// The CPUs that programs may have.
        offered: CpuSet,
    },
    /// CPU {cpus} of shield {shield} is offline.
    Offline {
        /// The CPUs.
        cpus: CpuSet,
        /// Their shield.
        shield: String,
    },
    /// no {what} {name:?} in {file}.
    Unknown {
        /// `user` or `group`.
        what: &'static str,
        /// The requested name.
        name: String,
        /// The file that was searched.
        file: &'static str,
    },
    /// cannot move a program into {group} or out of it: {why}.
    NoMove {
        /// The group that it should enter or leave.
        group: String,
        /// The task that is in the way.
        why: String,
    },
    /// {why}.
    Unsafe {
        /// What is wrong with it.
        why: String,
        /// What to request instead.
        instead: String,
    },
    /// the kernel refused {policy}.
    #[with(error = error.reason())]
    #[line("cause: {error}")]
    Scheduling {
        /// The policy.
        policy: SchedPolicy,
        /// The kernel's answer.
        error: Box<Error>,
        /// The meaning of the answer, and what to do.
        hints: Vec<String>,
    },
    /// cannot start {program}: {error}.
    Exec {
        /// Its name.
        program: String,
        /// The kernel's answer.
        error: std::io::Error,
    },
    /// task {tid} {why}.
    Task {
        /// Its number.
        tid: i32,
        /// Why.
        why: String,
        /// What to do instead, if anything.
        hint: Option<String>,
    },
    /// cannot move process {tid} out: no suitable cgroup outside the shields is known.
    NoDestination {
        /// The number of the program.
        tid: i32,
    },
    /// no shield is active: {unfinished}.
    #[line("file:  {path}")]
    Unfinished {
        /// Its journal.
        path: String,
        /// The unfinished work.
        unfinished: crate::documents::shield_status::UnfinishedWork,
    },
    /// The journal of the shield cannot be used.
    #[delegate]
    Journal(JournalLoadError),
    /// {0}.
    Record(String),
    /// Any other error of the machine.
    #[delegate]
    Machine(Error),
}

impl From<Error> for RunError {
    fn from(error: Error) -> RunError {
        RunError::Machine(error)
    }
}

impl RunError {
    /// A failed system call without a file.
    #[must_use]
    pub fn call(what: &str, error: std::io::Error) -> RunError {
        RunError::Machine(Error::io(cpushield_linux::Operation::Call, what, error))
    }

    /// Whether this user may not read the journal.
    #[must_use]
    pub fn is_denied(&self) -> bool {
        matches!(self, RunError::Journal(error) if error.is_denied())
    }
}

impl RunError {
    /// A short stable name of the reason, for programs.
    #[must_use]
    pub fn tag(&self) -> &'static str {
        match self {
            RunError::NoShield => "no-shield",
            RunError::Several { .. } => "several",
            RunError::NoSuchShield { .. } => "no-such-shield",
            RunError::InTheWay { .. } => "in-the-way",
            RunError::NotOffered { .. } => "not-offered",
            RunError::Offline { .. } => "offline",
            RunError::Unknown { .. } => "unknown",
            RunError::NoMove { .. } => "no-move",
            RunError::Unsafe { .. } => "dangerous-request",
            RunError::Scheduling { .. } => "scheduling",
            RunError::Exec { .. } => "exec",
            RunError::Task { .. } => "task",
            RunError::NoDestination { .. } => "no-destination",
            RunError::Unfinished { .. } => "unfinished",
            RunError::Journal(_) => "journal",
            RunError::Record(_) => "record",
            RunError::Machine(_) => "machine",
        }
    }
}

fn write_in_the_way(
    f: &mut fmt::Formatter<'_>,
    shield: &str,
    threads: &[ThreadInTheWay],
) -> fmt::Result {
    write!(f, "programs in shield {shield} cannot continue in its new version")?;
    threads.iter().take(8).try_for_each(|thread| write!(f, "\n  {thread}"))?;
    match threads.len().saturating_sub(8) {
        0 => Ok(()),
        more => write!(f, "\n  and {more} more"),
    }
}

impl std::error::Error for RunError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            RunError::Scheduling { error, .. } => Some(error),
            RunError::Machine(error) => Some(error),
            RunError::Exec { error, .. } => Some(error),
            _ => None,
        }
    }
}
