//! Why a program could not be run, added or removed.

use super::ThreadInTheWay;
use crate::apply::{JournalLoadError, name_a_shield};
use cpushield_linux::{CpuSet, Error, SchedPolicy};
use cpushield_sentence::Sentence;
use std::fmt;
use std::io::ErrorKind;

/// Why a program could not be run, added or removed.
#[derive(Debug, Sentence)]
#[kind(Machine)]
#[tagged]
pub enum RunError {
    /// no shield is active.
    #[hint("apply a shield: cpushield apply")]
    NoShield,
    /// several shields are active: {active}.
    #[with(active = names.join(", "))]
    #[kind(Usage)]
    #[hint([name_a_shield(names)])]
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
    /// Programs in a shield have no place in its new version.
    #[print(write_in_the_way(f, shield, threads))]
    #[hint(clear_the_way(threads))]
    InTheWay {
        /// The shield.
        shield: String,
        /// Their threads.
        threads: Vec<ThreadInTheWay>,
    },
    /// CPU {cpu} {why}.
    #[kind(Usage)]
    #[hint("use one of these CPUs: {offered}")]
    NotOffered {
        /// The requested CPU.
        cpu: usize,
        /// The reason.
        why: String,
        /// The CPUs that programs may have.
        offered: CpuSet,
    },
    /// CPU {cpus} of shield {shield} is offline.
    #[with(cpu = cpus.first().unwrap_or_default())]
    #[hint("bring it online: echo 1 > /sys/devices/system/cpu/cpu{cpu}/online")]
    Offline {
        /// The CPUs.
        cpus: CpuSet,
        /// Their shield.
        shield: String,
    },
    /// no {what} {name:?} in {file}.
    #[kind(Usage)]
    #[hint("use numeric IDs, for example 1000:1000")]
    Unknown {
        /// `user` or `group`.
        what: &'static str,
        /// The requested name.
        name: String,
        /// The file that was searched.
        file: &'static str,
    },
    /// cannot move a program into {group} or out of it: {why}.
    #[hint(
        "stop that task first: a program's memory moves with the program to other nodes, and this needs a kernel thread on every CPU"
    )]
    NoMove {
        /// The group that it should enter or leave.
        group: String,
        /// The task that is in the way.
        why: String,
    },
    /// {why}.
    #[kind(Usage)]
    #[hint("{instead}")]
    DangerousRequest {
        /// What is wrong with it.
        why: String,
        /// What to request instead.
        instead: String,
    },
    /// the kernel refused {policy}.
    #[with(error = error.reason())]
    #[line("cause: {error}")]
    #[hint(hints)]
    Scheduling {
        /// The policy.
        policy: SchedPolicy,
        /// The kernel's answer.
        error: Box<Error>,
        /// The meaning of the answer, and what to do.
        hints: Vec<String>,
    },
    /// cannot start {program}: {error}.
    #[kind(match error.kind() { ErrorKind::NotFound => NotFound, _ => NotExecutable })]
    Exec {
        /// Its name.
        program: String,
        /// The kernel's answer.
        error: std::io::Error,
    },
    /// task {tid} {why}.
    #[hint(hint)]
    Task {
        /// Its number.
        tid: i32,
        /// Why.
        why: String,
        /// What to do instead, if anything.
        hint: Option<String>,
    },
    /// cannot move process {tid} out: no suitable cgroup outside the shields is known.
    #[hint("run the command in a shell outside the shield")]
    NoDestination {
        /// The number of the program.
        tid: i32,
    },
    /// no shield is active: {unfinished}.
    #[line("file:  {path}")]
    #[hint([unfinished.advice()])]
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
    #[delegate(from)]
    Machine(Error),
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

/// What to do about threads that have no place in the new version.
fn clear_the_way(threads: &[ThreadInTheWay]) -> Vec<String> {
    match threads.iter().find(|thread| thread.reason.is_unsafe()) {
        None => vec![
            "end these programs, or move them to the CPUs of the new version: --move-programs"
                .to_owned(),
        ],
        Some(ThreadInTheWay { tid, .. }) => vec![
            format!("make it an ordinary program: chrt -o -p 0 {tid}"),
            "or end that program".to_owned(),
        ],
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
