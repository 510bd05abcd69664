//! [`StepNote`]: what a user should know about a step that was made or reverted. Pure.

use serde::{Deserialize, Serialize};
use std::fmt;

/// What a user should know about a step that was made or reverted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "note", rename_all = "kebab-case")]
pub enum StepNote {
    /// The partition has type `root`, because the kernel did not accept `isolated`.
    RootPartition {
        /// Its answer to `isolated`.
        answer: String,
    },
    /// A refused file has neither the new value nor the original.
    OriginalLost {
        /// Why the new value was refused.
        refusal: String,
        /// The original.
        original: String,
        /// Why the original cannot be written.
        answer: String,
    },
    /// A slice that was not made as requested could not be removed.
    SliceRemains {
        /// The slice.
        slice: String,
        /// Why it was not made.
        refusal: String,
        /// Why it cannot be removed.
        answer: String,
    },
    /// The change was requested, and whether it was made is unknown.
    ResultUnknown {
        /// What was requested.
        wanted: String,
        /// The error after the request.
        answer: String,
    },
    /// systemd gave a slice other memory nodes.
    OtherMemoryNodes {
        /// The nodes.
        given: String,
        /// The nodes of the shield.
        wanted: String,
    },
    /// A cycled CPU stays offline.
    CpuStaysOffline {
        /// The CPU.
        cpu: usize,
        /// The answer of the kernel.
        answer: String,
    },
    /// Files that change when a CPU goes offline were not restored.
    FilesNotRestored {
        /// The first file.
        path: String,
        /// Why not.
        why: String,
        /// The number of other such files.
        more: usize,
    },
    /// A kernel thread that got other CPUs when a CPU went offline keeps them.
    KthreadNotRestored {
        /// Its number.
        tid: i32,
        /// The kernel's answer.
        answer: String,
    },
    /// Units stay in the slice of the shield, which no longer has limits.
    UnitsStay {
        /// The slice.
        slice: String,
        /// The units.
        units: Vec<String>,
    },
    /// Another group needs cpusets now.
    CpusetsStayEnabled {
        /// The group.
        group: String,
    },
    /// Tasks of the group moved to another group.
    TasksMoved {
        /// The other group.
        to: String,
        /// Their number.
        count: usize,
        /// The first of them, by name and number.
        names: Vec<String>,
    },
    /// Tasks moved back to the root cpuset.
    TasksMovedBack {
        /// Their number.
        count: usize,
        /// The number of those that stayed.
        stayed: usize,
        /// The kernel's answer for the first that stayed; `None` if none did.
        answer: Option<String>,
    },
    /// irqbalance no longer has the ban.
    BanLost,
}

impl fmt::Display for StepNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StepNote::RootPartition { answer } => {
                write!(f, "the kernel reports {answer:?}, so the partition is of type `root`")
            }
            StepNote::OriginalLost { refusal, original, answer } => {
                write!(f, "{refusal}, and {original:?} cannot be restored: {answer}")
            }
            StepNote::SliceRemains { slice, refusal, answer } => {
                write!(f, "{refusal}, and the settings of {slice} cannot be removed: {answer}")
            }
            StepNote::ResultUnknown { wanted, answer } => {
                write!(f, "{wanted:?} was requested, but the result is unknown: {answer}")
            }
            StepNote::OtherMemoryNodes { given, wanted } => {
                write!(f, "systemd gave the slice the memory nodes {given:?} instead of {wanted:?}")
            }
            StepNote::CpuStaysOffline { cpu, answer } => {
                write!(f, "CPU {cpu} did not come online: {answer}")
            }
            StepNote::FilesNotRestored { path, why, more } => {
                write!(f, "{}; undo tries again", describe_unrestored(path, why, *more))
            }
            StepNote::KthreadNotRestored { tid, answer } => {
                write!(f, "the CPUs of kernel thread {tid} were not restored: {answer}")
            }
            StepNote::UnitsStay { slice, units } => {
                write!(f, "{} in {slice}, which no longer limits CPUs", stay(units))
            }
            StepNote::CpusetsStayEnabled { group } => {
                write!(f, "{group} now has its own CPUs, so the cpuset controller stays enabled")
            }
            StepNote::TasksMoved { to, count, names } => {
                match count {
                    1 => f.write_str("1 task of the group is")?,
                    n => write!(f, "{n} tasks of the group are")?,
                }
                write!(f, " now in {to}")?;
                let more = count.saturating_sub(names.len());
                match (names.is_empty(), more) {
                    (true, _) => Ok(()),
                    (false, 0) => write!(f, ": {}", names.join(", ")),
                    (false, more) => write!(f, ": {} and {more} more", names.join(", ")),
                }
            }
            StepNote::TasksMovedBack { count, stayed, answer } => {
                write!(f, "tasks moved back: {count}")?;
                answer.as_ref().map_or(Ok(()), |answer| write!(f, "; {stayed} stayed: {answer}"))
            }
            StepNote::BanLost => f.write_str("irqbalance was restarted and lost the setting"),
        }
    }
}

/// `a.service stays`, or `a.service, b.service stay`.
fn stay(units: &[String]) -> String {
    format!("{} {}", units.join(", "), if units.len() == 1 { "stays" } else { "stay" })
}

/// Describes files that could not be restored: the first, and the number of the others.
pub(crate) fn describe_unrestored(path: &str, why: &str, more: usize) -> String {
    let others = match more {
        0 => String::new(),
        1 => ", and 1 more file".to_owned(),
        more => format!(", and {more} more files"),
    };
    format!("{path} was not restored: {why}{others}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::with_text;

    #[test]
    fn each_note_has_its_own_tag() {
        let text = |text: &str| text.to_owned();
        let (names, answer) = (vec![text("sshd (100)")], text("EBUSY"));
        let notes = [
            StepNote::RootPartition { answer: answer.clone() },
            StepNote::OriginalLost {
                refusal: text("EIO"),
                original: text("1"),
                answer: answer.clone(),
            },
            StepNote::SliceRemains {
                slice: text("a.slice"),
                refusal: text("EIO"),
                answer: answer.clone(),
            },
            StepNote::ResultUnknown { wanted: text("1"), answer: answer.clone() },
            StepNote::OtherMemoryNodes { given: text("0-1"), wanted: text("1") },
            StepNote::CpuStaysOffline { cpu: 3, answer: answer.clone() },
            StepNote::FilesNotRestored { path: text("/proc/irq/9"), why: answer.clone(), more: 1 },
            StepNote::KthreadNotRestored { tid: 9, answer: answer.clone() },
            StepNote::UnitsStay { slice: text("a.slice"), units: vec![text("b.service")] },
            StepNote::CpusetsStayEnabled { group: text("/sys/fs/cgroup/a") },
            StepNote::TasksMoved { to: text("/sys/fs/cgroup"), count: 3, names },
            StepNote::TasksMovedBack { count: 3, stayed: 1, answer: Some(answer) },
            StepNote::BanLost,
        ];
        with_text::check_saved("note", &notes);
    }
}
