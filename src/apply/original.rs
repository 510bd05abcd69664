//! [`OriginalState`]: the state before a step, as the journal stores it. Each kind of change reads
//! its own (`kinds`).

use super::task_masks::TaskMasks;
use cpushield_linux::{CpuSet, Result, TaskId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The state before a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "was", rename_all = "kebab-case", deny_unknown_fields)]
pub enum OriginalState {
    /// The text of a file, without its line end.
    Text {
        /// The text.
        text: String,
    },
    /// The file, directory or task was not there.
    Missing,
    /// It exists but could not be read, so it is never written.
    Unreadable {
        /// The kernel's answer.
        reason: String,
    },
    /// The directory existed, or the service answered.
    Present,
    /// A set of CPUs: the affinity of a task, or the CPUs banned from irqbalance.
    Cpus {
        /// The set.
        cpus: CpuSet,
    },
    /// Tasks that were in the group before others were moved there.
    Members {
        /// The tasks.
        tasks: Vec<TaskId>,
    },
    /// The affinity of every task.
    Affinities {
        /// The masks.
        masks: TaskMasks,
    },
    /// The contents of files that the step changes as a side effect.
    Files {
        /// Path and text.
        files: BTreeMap<String, String>,
    },
}

impl OriginalState {
    /// The original that was read. What does not exist is missing; any other error is stored with
    /// its reason.
    pub(super) fn from_reading(reading: Result<OriginalState>) -> OriginalState {
        match reading {
            Ok(original) => original,
            Err(error) if error.is_absent() => OriginalState::Missing,
            Err(error) => OriginalState::Unreadable { reason: error.reason() },
        }
    }
}
