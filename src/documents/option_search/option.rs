//! What a search looks for ([`SearchGoal`]), and what it varies ([`SearchOption`]). Plain data.

use cpushield_sentence::Sentence;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The goal of each measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Sentence)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "goal", rename_all = "kebab-case")]
pub enum SearchGoal {
    /// No latency is longer.
    #[print(write_max_latency(f, ns))]
    MaxLatency {
        /// The limit in nanoseconds.
        ns: u64,
    },
    /// No measured CPU has more entries into the kernel.
    #[print(write_max_entries(f, count))]
    MaxEntries {
        /// The limit.
        count: u64,
    },
}

fn write_max_latency(f: &mut fmt::Formatter<'_>, ns: &u64) -> fmt::Result {
    match ns {
        ns if ns % 1_000_000 == 0 => {
            write!(f, "no latency over {} ms", ns / 1_000_000)
        }
        ns if ns % 1_000 == 0 => {
            write!(f, "no latency over {} µs", ns / 1_000)
        }
        ns => write!(f, "no latency over {ns} ns"),
    }
}

fn write_max_entries(f: &mut fmt::Formatter<'_>, count: &u64) -> fmt::Result {
    match count {
        0 => f.write_str("no kernel entry on any measured CPU"),
        1 => f.write_str("at most 1 kernel entry on each CPU"),
        count => {
            write!(f, "at most {count} kernel entries on each CPU")
        }
    }
}

/// Something that is varied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Sentence)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "option", rename_all = "kebab-case")]
pub enum SearchOption {
    /// {name}.
    Tunable {
        /// Its name.
        name: String,
    },
    /// {word}.
    Parameter {
        /// The word; `{cpus}` is the list of shielded CPUs. A dry run has the list itself.
        word: String,
    },
}

/// Something that is not varied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FixedOption {
    /// What.
    #[serde(with = "crate::with_text::WithText::<SearchOption>")]
    pub option: SearchOption,
    /// Why.
    #[serde(with = "crate::with_text::WithText::<FixedReason>")]
    pub why: FixedReason,
}

/// Why an option is not varied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Sentence)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "reason", rename_all = "kebab-case")]
pub enum FixedReason {
    /// not tried: it needs a reboot, but --reboot was not given.
    ///
    /// No configuration has it.
    RebootNotPermitted,
    /// not varied: undo and the instruments need it.
    ///
    /// Every shield has it.
    Bookkeeping,
}
