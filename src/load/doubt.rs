//! What makes the figure of a load doubtful. Pure.

use cpushield_linux::CpuSet;
use serde::{Deserialize, Serialize};
use std::fmt;

/// What makes the figure of a load doubtful.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "doubt", rename_all = "kebab-case")]
pub enum LoadDoubt {
    /// It did not begin.
    DidNotBegin {
        /// Why.
        why: String,
    },
    /// A thread of it ran on CPUs that were not given to it.
    RanElsewhere {
        /// Which.
        #[cfg_attr(feature = "schema", schemars(with = "String"))]
        cpus: CpuSet,
    },
    /// The kernel did not let it run on CPUs that were given to it.
    CpusRefused {
        /// Which.
        #[cfg_attr(feature = "schema", schemars(with = "String"))]
        cpus: CpuSet,
    },
    /// The kernel does not count it.
    NotCounted,
    /// It did nothing.
    DidNothing,
    /// It finished nothing before the end.
    NothingFinished,
    /// Threads never began.
    ThreadsIdle {
        /// So many.
        count: usize,
        /// Of so many.
        of: usize,
    },
    /// Threads ended before the end.
    ThreadsEnded {
        /// So many.
        count: usize,
        /// Of so many.
        of: usize,
    },
    /// Threads failed.
    ThreadsFailed {
        /// So many.
        count: usize,
        /// Of so many.
        of: usize,
        /// The kernel's answer.
        answer: String,
    },
    /// The program did not end in time.
    NotEnded,
    /// The program reported no figures.
    NoFigures,
    /// The program failed.
    ProgramFailed {
        /// The line in which it says why; `None` when it says nothing.
        said: Option<String>,
    },
    /// The process of the load did not answer.
    NoAnswer {
        /// Why.
        why: String,
    },
}

impl fmt::Display for LoadDoubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadDoubt::DidNotBegin { why } => write!(f, "it did not begin: {why}"),
            LoadDoubt::RanElsewhere { cpus } => write!(f, "a thread of it ran on CPU {cpus}"),
            LoadDoubt::CpusRefused { cpus } => {
                write!(f, "the kernel did not let it run on CPU {cpus}")
            }
            LoadDoubt::NotCounted => f.write_str("the kernel does not count it"),
            LoadDoubt::DidNothing => f.write_str("it did nothing"),
            LoadDoubt::NothingFinished => f.write_str("nothing of it was done before the end"),
            LoadDoubt::ThreadsIdle { count, of } => {
                write!(f, "{count} of {of} threads never began")
            }
            LoadDoubt::ThreadsEnded { count, of } => {
                write!(f, "{count} of {of} threads ended before the end")
            }
            LoadDoubt::ThreadsFailed { count, of, answer } => {
                write!(f, "{count} of {of} threads failed: {answer}")
            }
            LoadDoubt::NotEnded => f.write_str("it did not end in time, and its figures are lost"),
            LoadDoubt::NoFigures => f.write_str("it reported no figures"),
            LoadDoubt::ProgramFailed { said: Some(said) } => f.write_str(said),
            LoadDoubt::ProgramFailed { said: None } => f.write_str("it failed without a word"),
            LoadDoubt::NoAnswer { why } => f.write_str(why),
        }
    }
}
