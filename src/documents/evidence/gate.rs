//! [`Gate`]: a limit that the user set, with what was found. Pure data.

use super::{CpuEvidence, JudgeReason};
use crate::documents::time_text::{exact_duration, measured};
use crate::policy::LinuxCncGrade;
use serde::{Deserialize, Serialize};
use std::fmt::{self, Display};

impl CpuEvidence {
    /// The share of the time that was taken below the kernel, in parts per million: by the steal
    /// counter or, where that is more, by the gaps without an event. `None` when neither was
    /// measured.
    #[must_use]
    pub fn taken_ppm(&self, span_ns: u64) -> Option<u64> {
        let unexplained_ns = self.joined.as_ref().map(|joined| joined.unexplained.sum_ns);
        let taken_ns = self.steal_ns.max(unexplained_ns)?;
        let ppm = u128::from(taken_ns) * 1_000_000 / u128::from(span_ns.max(1));
        Some(u64::try_from(ppm).unwrap_or(u64::MAX))
    }
}

/// A limit that the user set, with reasons of the measurement's type.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "{R}Gate"))]
#[serde(bound(serialize = "R: Serialize + Display", deserialize = "R: Deserialize<'de>"))]
pub struct Gate<R = JudgeReason> {
    /// The limit; its text is the option of the command line.
    #[serde(with = "crate::with_text")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::with_text::WithText<GateLimit>"))]
    pub limit: GateLimit,
    /// What was found.
    #[serde(with = "crate::with_text")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::with_text::WithText<GateFinding>"))]
    pub found: GateFinding,
    /// Whether it held; `None` when it is unknown.
    pub held: Option<bool>,
    /// The evidence that it held, or why that is unknown.
    #[serde(with = "crate::with_text::list")]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<crate::with_text::WithText<R>>"))]
    pub why: Vec<R>,
}

impl<R: Display> Gate<R> {
    /// All reasons on one line.
    #[must_use]
    pub fn reasons(&self) -> String {
        self.why.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    }
}

/// The limit of a [`Gate`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "limit", rename_all = "kebab-case")]
pub enum GateLimit {
    /// Entries into the kernel on each CPU (`--max-entries`).
    Entries {
        /// The largest allowed number.
        most: u64,
    },
    /// The longest gap (`--max-gap`).
    Gap {
        /// The longest allowed one, in nanoseconds.
        most_ns: u64,
    },
    /// Foreign interruptions on each CPU, also harmless ones (`--max-foreign`).
    Foreign {
        /// The largest allowed number.
        most: u64,
    },
    /// The share of the time that is taken below the kernel (`--max-steal`).
    Steal {
        /// The largest allowed one, in parts per million.
        most_ppm: u64,
    },
    /// The longest latency (`--max`).
    Latency {
        /// The longest allowed one, in nanoseconds.
        most_ns: u64,
    },
    /// A range of LinuxCNC's max jitter (`--linuxcnc`).
    LinuxCnc {
        /// The range.
        grade: LinuxCncGrade,
    },
}

impl GateLimit {
    /// The option of the command line that sets this limit.
    #[must_use]
    pub fn option(&self) -> String {
        match self {
            GateLimit::Entries { most } => format!("--max-entries {most}"),
            GateLimit::Gap { most_ns } => format!("--max-gap {}", exact_duration(*most_ns)),
            GateLimit::Foreign { most } => format!("--max-foreign {most}"),
            GateLimit::Steal { most_ppm } => format!("--max-steal {}%", *most_ppm as f64 / 1e4),
            GateLimit::Latency { most_ns } => format!("--max {}", exact_duration(*most_ns)),
            GateLimit::LinuxCnc { grade } => format!("--linuxcnc {grade}"),
        }
    }
}

impl fmt::Display for GateLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.option())?;
        match self {
            GateLimit::LinuxCnc { grade } => write!(f, " ({} ns)", grade.max_jitter_ns()),
            _ => Ok(()),
        }
    }
}

/// What was found for a limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "found", rename_all = "kebab-case")]
pub enum GateFinding {
    /// The most entries, or foreign interruptions, of a CPU.
    Entries {
        /// Their number.
        count: u64,
    },
    /// Nothing counted entries.
    NotCounted,
    /// The longest gap.
    Gap {
        /// Its length in nanoseconds.
        longest_ns: u64,
    },
    /// Nothing measured gaps.
    NotMeasured,
    /// The largest share of the time.
    Share {
        /// It, in parts per million.
        ppm: u64,
    },
    /// The longest latency.
    Latency {
        /// It, in nanoseconds.
        longest_ns: u64,
    },
    /// No latency reached the threshold of the instrument.
    BelowThreshold {
        /// The threshold in nanoseconds.
        threshold_ns: u64,
    },
    /// No latency was measured.
    NoLatency,
    /// The largest max jitter.
    Jitter {
        /// It, in nanoseconds.
        jitter_ns: u64,
        /// The thread that has it.
        thread: String,
    },
    /// No thread has a max jitter.
    NoJitter,
}

impl GateFinding {
    /// The figure that the limit is compared with: entries, or nanoseconds. Below the threshold of
    /// an instrument it is the threshold.
    #[must_use]
    pub fn figure(&self) -> Option<u64> {
        match self {
            GateFinding::Entries { count: figure } | GateFinding::Share { ppm: figure } => {
                Some(*figure)
            }
            GateFinding::Gap { longest_ns } | GateFinding::Latency { longest_ns } => {
                Some(*longest_ns)
            }
            GateFinding::BelowThreshold { threshold_ns } => Some(*threshold_ns),
            GateFinding::Jitter { jitter_ns, .. } => Some(*jitter_ns),
            GateFinding::NotCounted
            | GateFinding::NotMeasured
            | GateFinding::NoLatency
            | GateFinding::NoJitter => None,
        }
    }
}

impl fmt::Display for GateFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GateFinding::Entries { count } => count.fmt(f),
            GateFinding::NotCounted => f.write_str("nothing counted"),
            GateFinding::Gap { longest_ns } => f.write_str(&measured(*longest_ns)),
            GateFinding::Share { ppm } => write!(f, "{:.2} %", *ppm as f64 / 1e4),
            GateFinding::NotMeasured => f.write_str("nothing measured"),
            GateFinding::Latency { longest_ns } => f.write_str(&exact_duration(*longest_ns)),
            GateFinding::BelowThreshold { threshold_ns } => {
                write!(f, "nothing of {} or more", exact_duration(*threshold_ns))
            }
            GateFinding::NoLatency => f.write_str("nothing"),
            GateFinding::Jitter { jitter_ns, thread } => {
                write!(f, "max jitter {jitter_ns} ns of {thread}")
            }
            GateFinding::NoJitter => f.write_str("no max jitter"),
        }
    }
}
