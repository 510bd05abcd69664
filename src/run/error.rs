//! Why a program could not be run, added or removed.

use super::ThreadInTheWay;
use crate::apply::JournalLoadError;
use cpushield_linux::{CpuSet, Error, SchedPolicy};
use std::fmt;

/// Why a program could not be run, added or removed.
#[derive(Debug)]
pub enum RunError {
    /// No shield is active.
    NoShield,
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
    /// Programs in a shield have no place in its new version.
    InTheWay {
        /// The shield.
        shield: String,
        /// Their threads.
        threads: Vec<ThreadInTheWay>,
    },
    /// Programs may not use this CPU.
    NotOffered {
        /// The requested CPU.
        cpu: usize,
        /// The reason.
        why: String,
        /// The CPUs that programs may have.
        offered: CpuSet,
    },
    /// The CPUs for a program are offline.
    Offline {
        /// The CPUs.
        cpus: CpuSet,
        /// Their shield.
        shield: String,
    },
    /// The user or group is unknown.
    Unknown {
        /// `user` or `group`.
        what: &'static str,
        /// The requested name.
        name: String,
        /// The file that was searched.
        file: &'static str,
    },
    /// A program cannot be moved now, because the write would never return.
    NoMove {
        /// The group that it should enter or leave.
        group: String,
        /// The task that is in the way.
        why: String,
    },
    /// A real-time request that would be unsafe.
    Unsafe {
        /// What is wrong with it.
        why: String,
        /// What to request instead.
        instead: String,
    },
    /// The kernel refused the scheduling policy.
    Scheduling {
        /// The policy.
        policy: SchedPolicy,
        /// The kernel's answer.
        error: Box<Error>,
        /// The meaning of the answer, and what to do.
        hints: Vec<String>,
    },
    /// The program cannot be started.
    Exec {
        /// Its name.
        program: String,
        /// The kernel's answer.
        error: std::io::Error,
    },
    /// A task that cannot be added or removed.
    Task {
        /// Its number.
        tid: i32,
        /// Why.
        why: String,
        /// What to do instead, if anything.
        hint: Option<String>,
    },
    /// No cgroup outside of shields is known that has the limits of a program's user, or of the
    /// process that removes it.
    NoDestination {
        /// The number of the program.
        tid: i32,
    },
    /// The shield is incomplete.
    Unfinished {
        /// Its journal.
        path: String,
        /// The unfinished work.
        unfinished: crate::documents::shield_status::UnfinishedWork,
    },
    /// The journal of the shield cannot be used.
    Journal(JournalLoadError),
    /// The record of programs in the shield cannot be used.
    Record(String),
    /// Any other error of the machine.
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

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunError::NoShield => f.write_str("no shield is active"),
            RunError::Several { names } => {
                write!(f, "several shields are active: {}", names.join(", "))
            }
            RunError::NoSuchShield { name, names } => {
                write!(f, "no active shield is named {name:?}; active: {}", names.join(", "))
            }
            RunError::InTheWay { shield, threads } => {
                write!(f, "programs in shield {shield} cannot continue in its new version")?;
                threads.iter().take(8).try_for_each(|thread| write!(f, "\n  {thread}"))?;
                match threads.len().saturating_sub(8) {
                    0 => Ok(()),
                    more => write!(f, "\n  and {more} more"),
                }
            }
            RunError::NotOffered { cpu, why, .. } => write!(f, "CPU {cpu} {why}"),
            RunError::Offline { cpus, shield } => {
                write!(f, "CPU {cpus} of shield {shield} is offline")
            }
            RunError::Unknown { what, name, file } => write!(f, "no {what} {name:?} in {file}"),
            RunError::NoMove { group, why } => {
                write!(f, "cannot move a program into {group} or out of it: {why}")
            }
            RunError::Unsafe { why, .. } => f.write_str(why),
            RunError::Scheduling { policy, error, .. } => {
                write!(f, "the kernel refused {policy}\n  cause: {}", error.reason())
            }
            RunError::Exec { program, error } => write!(f, "cannot start {program}: {error}"),
            RunError::Task { tid, why, .. } => write!(f, "task {tid} {why}"),
            RunError::NoDestination { tid } => write!(
                f,
                "cannot move process {tid} out: no suitable cgroup outside the shields is known"
            ),
            RunError::Unfinished { path, unfinished } => {
                write!(f, "no shield is active: {unfinished}\n  file:  {path}")
            }
            RunError::Journal(error) => error.fmt(f),
            RunError::Record(why) => f.write_str(why),
            RunError::Machine(error) => error.fmt(f),
        }
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
