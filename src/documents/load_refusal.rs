//! [`LoadRefusal`]: why a load cannot run, or does not answer. Pure.

use cpushield_linux::CpuSet;
use cpushield_sentence::Sentence;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Why a load cannot run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Sentence)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "refusal", rename_all = "kebab-case")]
pub enum LoadRefusal {
    /// the program {program} is not installed; install the package {package}.
    NotInstalled {
        /// The program.
        program: String,
        /// The package that has it.
        package: String,
    },
    /// it has no command.
    NoCommand,
    /// {dir} is in memory, not on a disk; set TMPDIR to another directory.
    InMemory {
        /// The directory.
        dir: String,
    },
    /// {dir} is read-only; set TMPDIR to another directory.
    ReadOnly {
        /// The directory.
        dir: String,
    },
    /// less than {least} is free in {dir}; set TMPDIR to another directory.
    #[with(least = format_bytes(*least_bytes))]
    TooLittleSpace {
        /// The directory.
        dir: String,
        /// The least free space in bytes.
        least_bytes: u64,
    },
    /// cannot use {dir}: {answer}.
    UnusableDirectory {
        /// The directory.
        dir: String,
        /// The kernel's answer.
        answer: String,
    },
    /// cannot create a file in {dir}: {answer}.
    NoFile {
        /// The directory.
        dir: String,
        /// The kernel's answer.
        answer: String,
    },
    /// /proc/meminfo has no MemAvailable, so the free memory is unknown.
    FreeMemoryUnknown,
    /// only {free_bytes} of memory is free for {cpus} CPUs.
    #[with(free_bytes = format_bytes(*free_bytes))]
    TooLittleMemory {
        /// The free memory in bytes.
        free_bytes: u64,
        /// The number of CPUs.
        cpus: usize,
    },
    /// it needs two CPUs, but the load has only CPU {cpus}.
    NeedsTwoCpus {
        /// The CPUs that it has.
        cpus: CpuSet,
    },
    /// this kernel does not support the membarrier(2) command that the load needs: {answer}.
    NoMembarrier {
        /// The kernel's answer.
        answer: String,
    },
    /// cannot create sockets: {answer}.
    NoSockets {
        /// The kernel's answer.
        answer: String,
    },
    /// cannot connect to 127.0.0.1: {answer}.
    NoConnection {
        /// The kernel's answer.
        answer: String,
    },
    /// there is no load {name}.
    UnknownLoad {
        /// Its name.
        name: String,
    },
    /// the kernel does not let it run on CPU {cpus}: {answer}.
    CpusDenied {
        /// The CPUs.
        cpus: CpuSet,
        /// The kernel's answer.
        answer: String,
    },
    /// the kernel does not let a thread run on its CPU: {answer}.
    CpuDenied {
        /// The kernel's answer.
        answer: String,
    },
    /// cannot start a thread: {answer}.
    NoThread {
        /// The kernel's answer.
        answer: String,
    },
    /// a thread did not run on its CPU within {seconds} s; a real-time task may occupy that CPU.
    ThreadDidNotRun {
        /// How long the load waited, in seconds.
        seconds: u64,
    },
    /// cannot allocate shared memory.
    NoSharedMemory,
    /// cannot read its counters: {answer}.
    CountersUnreadable {
        /// The kernel's answer.
        answer: String,
    },
    /// {failure}.
    NoAnswer {
        /// The failure of the process.
        failure: String,
    },
    /// {error}.
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

/// Formats bytes in whole units.
#[must_use]
pub fn format_bytes(bytes: u64) -> String {
    match bytes {
        1_048_576.. => format!("{} MiB", bytes >> 20),
        _ => format!("{} KiB", bytes >> 10),
    }
}
