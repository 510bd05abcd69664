//! [`StepNote`]: what a user should know about a step that was made or reverted. Pure.

use cpushield_sentence::Sentence;
use serde::{Deserialize, Serialize};
use std::fmt;

/// What a user should know about a step that was made or reverted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Sentence)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "note", rename_all = "kebab-case")]
pub enum StepNote {
    /// the kernel reports {answer:?}, so the partition is of type `root`.
    RootPartition {
        /// Its answer to `isolated`.
        answer: String,
    },
    /// {refusal}, and {original:?} cannot be restored: {answer}.
    OriginalLost {
        /// Why the new value was refused.
        refusal: String,
        /// The original.
        original: String,
        /// Why the original cannot be written.
        answer: String,
    },
    /// {refusal}, and the settings of {slice} cannot be removed: {answer}.
    SliceRemains {
        /// The slice.
        slice: String,
        /// Why it was not made.
        refusal: String,
        /// Why it cannot be removed.
        answer: String,
    },
    /// {wanted:?} was requested, but the result is unknown: {answer}.
    ResultUnknown {
        /// What was requested.
        wanted: String,
        /// The error after the request.
        answer: String,
    },
    /// systemd gave the slice the memory nodes {given:?} instead of {wanted:?}.
    OtherMemoryNodes {
        /// The nodes.
        given: String,
        /// The nodes of the shield.
        wanted: String,
    },
    /// CPU {cpu} did not come online: {answer}.
    CpuStaysOffline {
        /// The CPU.
        cpu: usize,
        /// The answer of the kernel.
        answer: String,
    },
    /// {path}; undo tries again.
    #[with(path = describe_unrestored(path, why, *more))]
    FilesNotRestored {
        /// The first file.
        path: String,
        /// Why not.
        why: String,
        /// The number of other such files.
        more: usize,
    },
    /// the CPUs of kernel thread {tid} were not restored: {answer}.
    KthreadNotRestored {
        /// Its number.
        tid: i32,
        /// The kernel's answer.
        answer: String,
    },
    /// {units} in {slice}, which no longer limits CPUs.
    #[with(units = stay(units))]
    UnitsStay {
        /// The slice.
        slice: String,
        /// The units.
        units: Vec<String>,
    },
    /// {group} now has its own CPUs, so the cpuset controller stays enabled.
    CpusetsStayEnabled {
        /// The group.
        group: String,
    },
    /// Tasks of the group moved to another group.
    #[print(write_tasks_moved(f, to, count, names))]
    TasksMoved {
        /// The other group.
        to: String,
        /// Their number.
        count: usize,
        /// The first of them, by name and number.
        names: Vec<String>,
    },
    /// Tasks moved back to the root cpuset.
    #[print(write_tasks_moved_back(f, count, stayed, answer))]
    TasksMovedBack {
        /// Their number.
        count: usize,
        /// The number of those that stayed.
        stayed: usize,
        /// The kernel's answer for the first that stayed; `None` if none did.
        answer: Option<String>,
    },
    /// irqbalance was restarted and lost the setting.
    BanLost,
}

fn write_tasks_moved(
    f: &mut fmt::Formatter<'_>,
    to: &str,
    count: &usize,
    names: &[String],
) -> fmt::Result {
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

fn write_tasks_moved_back(
    f: &mut fmt::Formatter<'_>,
    count: &usize,
    stayed: &usize,
    answer: &Option<String>,
) -> fmt::Result {
    write!(f, "tasks moved back: {count}")?;
    answer.as_ref().map_or(Ok(()), |answer| write!(f, "; {stayed} stayed: {answer}"))
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
