//! [`LoadRefusal`]: why a load cannot run, or does not answer. Pure.

use cpushield_linux::CpuSet;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Why a load cannot run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "refusal", rename_all = "kebab-case")]
pub enum LoadRefusal {
    /// Its program is not installed.
    NotInstalled {
        /// The program.
        program: String,
        /// The package that has it.
        package: String,
    },
    /// It has no command to run.
    NoCommand,
    /// The directory for its file is in memory.
    InMemory {
        /// The directory.
        dir: String,
    },
    /// The directory for its file is read-only.
    ReadOnly {
        /// The directory.
        dir: String,
    },
    /// Too little space is free for its file.
    TooLittleSpace {
        /// The directory.
        dir: String,
        /// The least free space in bytes.
        least_bytes: u64,
    },
    /// The directory for its file cannot be used.
    UnusableDirectory {
        /// The directory.
        dir: String,
        /// The kernel's answer.
        answer: String,
    },
    /// Its file cannot be made.
    NoFile {
        /// The directory.
        dir: String,
        /// The kernel's answer.
        answer: String,
    },
    /// The kernel does not say how much memory is free.
    FreeMemoryUnknown,
    /// Too little memory is free.
    TooLittleMemory {
        /// The free memory in bytes.
        free_bytes: u64,
        /// The number of CPUs.
        cpus: usize,
    },
    /// Its threads interrupt each other, so that it needs two CPUs.
    NeedsTwoCpus {
        /// The CPUs that it has.
        cpus: CpuSet,
    },
    /// The kernel does not have the barrier that it uses.
    NoMembarrier {
        /// The kernel's answer.
        answer: String,
    },
    /// Its sockets cannot be made.
    NoSockets {
        /// The kernel's answer.
        answer: String,
    },
    /// It cannot connect over the loopback interface.
    NoConnection {
        /// The kernel's answer.
        answer: String,
    },
    /// This version has no such load.
    UnknownLoad {
        /// Its name.
        name: String,
    },
    /// The kernel does not let its process run on its CPUs.
    CpusDenied {
        /// The CPUs.
        cpus: CpuSet,
        /// The kernel's answer.
        answer: String,
    },
    /// The kernel does not let one of its threads run on its CPU.
    CpuDenied {
        /// The kernel's answer.
        answer: String,
    },
    /// A thread cannot be started.
    NoThread {
        /// The kernel's answer.
        answer: String,
    },
    /// A thread did not run on its CPU in time.
    ThreadDidNotRun {
        /// How long the load waited, in seconds.
        seconds: u64,
    },
    /// Its counters are not in shared memory.
    NoSharedMemory,
    /// Its counters cannot be read.
    CountersUnreadable {
        /// The kernel's answer.
        answer: String,
    },
    /// Its process cannot be started, or does not answer.
    NoAnswer {
        /// The failure of the process.
        failure: String,
    },
    /// Something else that it needs failed.
    Failed {
        /// The error.
        error: String,
    },
}

impl LoadRefusal {
    /// A failure without a more specific reason.
    #[must_use]
    pub fn failed(error: impl fmt::Display) -> LoadRefusal {
        LoadRefusal::Failed { error: error.to_string() }
    }
}

impl fmt::Display for LoadRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use LoadRefusal as Refusal;
        match self {
            Refusal::NotInstalled { program, package } => {
                write!(f, "the program {program} is not installed; install the package {package}")
            }
            Refusal::NoCommand => f.write_str("it has no command"),
            Refusal::InMemory { dir } => {
                write!(f, "{dir} is in memory, not on a disk; set TMPDIR to another directory")
            }
            Refusal::ReadOnly { dir } => {
                write!(f, "{dir} is read-only; set TMPDIR to another directory")
            }
            Refusal::TooLittleSpace { dir, least_bytes } => {
                let least = format_bytes(*least_bytes);
                write!(f, "less than {least} is free in {dir}; set TMPDIR to another directory")
            }
            Refusal::UnusableDirectory { dir, answer } => write!(f, "cannot use {dir}: {answer}"),
            Refusal::NoFile { dir, answer } => write!(f, "cannot create a file in {dir}: {answer}"),
            Refusal::FreeMemoryUnknown => {
                f.write_str("/proc/meminfo has no MemAvailable, so the free memory is unknown")
            }
            Refusal::TooLittleMemory { free_bytes, cpus } => {
                write!(f, "only {} of memory is free for {cpus} CPUs", format_bytes(*free_bytes))
            }
            Refusal::NeedsTwoCpus { cpus } => {
                write!(f, "it needs two CPUs, but the load has only CPU {cpus}")
            }
            Refusal::NoMembarrier { answer } => {
                write!(
                    f,
                    "this kernel does not support the membarrier(2) command that the load needs: \
                     {answer}"
                )
            }
            Refusal::NoSockets { answer } => write!(f, "cannot create sockets: {answer}"),
            Refusal::NoConnection { answer } => {
                write!(f, "cannot connect to 127.0.0.1: {answer}")
            }
            Refusal::UnknownLoad { name } => write!(f, "there is no load {name}"),
            Refusal::CpusDenied { cpus, answer } => {
                write!(f, "the kernel does not let it run on CPU {cpus}: {answer}")
            }
            Refusal::CpuDenied { answer } => {
                write!(f, "the kernel does not let a thread run on its CPU: {answer}")
            }
            Refusal::NoThread { answer } => write!(f, "cannot start a thread: {answer}"),
            Refusal::ThreadDidNotRun { seconds } => {
                write!(
                    f,
                    "a thread did not run on its CPU within {seconds} s; a real-time task may \
                     occupy that CPU"
                )
            }
            Refusal::NoSharedMemory => f.write_str("cannot allocate shared memory"),
            Refusal::CountersUnreadable { answer } => {
                write!(f, "cannot read its counters: {answer}")
            }
            Refusal::NoAnswer { failure: text } | Refusal::Failed { error: text } => {
                f.write_str(text)
            }
        }
    }
}

/// Formats bytes in whole units.
#[must_use]
pub fn format_bytes(bytes: u64) -> String {
    match bytes {
        1_048_576.. => format!("{} MiB", bytes >> 20),
        _ => format!("{} KiB", bytes >> 10),
    }
}
