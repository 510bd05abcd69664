//! The doubts about the figures of a load. Pure.

use super::load_refusal::LoadRefusal;
use crate::with_text;
use cpushield_linux::CpuSet;
use cpushield_sentence::Sentence;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A reason to doubt the figures of a load.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Sentence)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "doubt", rename_all = "kebab-case")]
pub enum LoadDoubt {
    /// it did not start: {why}.
    DidNotBegin {
        /// Why.
        #[serde(with = "with_text::WithText::<LoadRefusal>")]
        why: LoadRefusal,
    },
    /// one of its threads ran on CPU {cpus}.
    RanElsewhere {
        /// Which.
        cpus: CpuSet,
    },
    /// the kernel did not let it run on CPU {cpus}.
    CpusRefused {
        /// Which.
        cpus: CpuSet,
    },
    /// the kernel has no counter for its work.
    NotCounted,
    /// it did nothing.
    DidNothing,
    /// {count} of {of} threads never started.
    ThreadsIdle {
        /// The number of threads.
        count: usize,
        /// The number of all threads.
        of: usize,
    },
    /// {count} of {of} threads ended before the measurement did.
    ThreadsEnded {
        /// The number of threads.
        count: usize,
        /// The number of all threads.
        of: usize,
    },
    /// {count} of {of} threads failed: {answer}.
    ThreadsFailed {
        /// The number of threads.
        count: usize,
        /// The number of all threads.
        of: usize,
        /// The kernel's answer.
        answer: String,
    },
    /// it did not end in time, so its figures are lost.
    NotEnded,
    /// The program failed.
    #[print(write_program_failed(f, message))]
    ProgramFailed {
        /// Its error message; `None` without one.
        message: Option<String>,
    },
    /// The process of the load did not answer.
    #[delegate]
    NoAnswer {
        /// Why.
        #[serde(with = "with_text::WithText::<LoadRefusal>")]
        why: LoadRefusal,
    },
}

fn write_program_failed(f: &mut fmt::Formatter<'_>, message: &Option<String>) -> fmt::Result {
    match message {
        Some(message) => {
            write!(f, "the program failed: {message}")
        }
        None => f.write_str("the program failed without a message"),
    }
}
