//! The doubts about the figures of a load. Pure.

use super::load_refusal::LoadRefusal;
use crate::with_text;
use cpushield_linux::CpuSet;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A reason to doubt the figures of a load.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "doubt", rename_all = "kebab-case")]
pub enum LoadDoubt {
    /// It did not start.
    DidNotBegin {
        /// Why.
        #[serde(with = "with_text::WithText::<LoadRefusal>")]
        why: LoadRefusal,
    },
    /// One of its threads ran on other CPUs.
    RanElsewhere {
        /// Which.
        cpus: CpuSet,
    },
    /// The kernel did not let it run on some of its CPUs.
    CpusRefused {
        /// Which.
        cpus: CpuSet,
    },
    /// The kernel has no counter for its work.
    NotCounted,
    /// It did nothing.
    DidNothing,
    /// Threads never started.
    ThreadsIdle {
        /// The number of threads.
        count: usize,
        /// The number of all threads.
        of: usize,
    },
    /// Threads ended before the end.
    ThreadsEnded {
        /// The number of threads.
        count: usize,
        /// The number of all threads.
        of: usize,
    },
    /// Threads failed.
    ThreadsFailed {
        /// The number of threads.
        count: usize,
        /// The number of all threads.
        of: usize,
        /// The kernel's answer.
        answer: String,
    },
    /// The program did not end in time.
    NotEnded,
    /// The program failed.
    ProgramFailed {
        /// Its error message; `None` without one.
        message: Option<String>,
    },
    /// The process of the load did not answer.
    NoAnswer {
        /// Why.
        #[serde(with = "with_text::WithText::<LoadRefusal>")]
        why: LoadRefusal,
    },
}

impl fmt::Display for LoadDoubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadDoubt::DidNotBegin { why } => write!(f, "it did not start: {why}"),
            LoadDoubt::RanElsewhere { cpus } => write!(f, "one of its threads ran on CPU {cpus}"),
            LoadDoubt::CpusRefused { cpus } => {
                write!(f, "the kernel did not let it run on CPU {cpus}")
            }
            LoadDoubt::NotCounted => f.write_str("the kernel has no counter for its work"),
            LoadDoubt::DidNothing => f.write_str("it did nothing"),
            LoadDoubt::ThreadsIdle { count, of } => {
                write!(f, "{count} of {of} threads never started")
            }
            LoadDoubt::ThreadsEnded { count, of } => {
                write!(f, "{count} of {of} threads ended before the measurement did")
            }
            LoadDoubt::ThreadsFailed { count, of, answer } => {
                write!(f, "{count} of {of} threads failed: {answer}")
            }
            LoadDoubt::NotEnded => f.write_str("it did not end in time, so its figures are lost"),
            LoadDoubt::ProgramFailed { message: Some(message) } => {
                write!(f, "the program failed: {message}")
            }
            LoadDoubt::ProgramFailed { message: None } => {
                f.write_str("the program failed without a message")
            }
            LoadDoubt::NoAnswer { why } => why.fmt(f),
        }
    }
}
