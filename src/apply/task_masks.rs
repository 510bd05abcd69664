//! [`TaskMasks`]: the affinity masks of tasks, as the journal stores them. Pure data.

use cpushield_linux::{CpuSet, TaskId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The affinity masks of tasks; on disk grouped by mask.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<TasksWithMask>", into = "Vec<TasksWithMask>")]
pub struct TaskMasks(pub BTreeMap<TaskId, CpuSet>);

/// Tasks with one mask.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TasksWithMask {
    cpus: CpuSet,
    tasks: Vec<(i32, u64)>,
}

impl From<Vec<TasksWithMask>> for TaskMasks {
    fn from(groups: Vec<TasksWithMask>) -> TaskMasks {
        let mut masks = BTreeMap::new();
        for TasksWithMask { cpus, tasks } in groups {
            let ids = tasks.into_iter().map(|(tid, started)| TaskId { tid, started });
            masks.extend(ids.map(|id| (id, cpus.clone())));
        }
        TaskMasks(masks)
    }
}

impl From<TaskMasks> for Vec<TasksWithMask> {
    fn from(masks: TaskMasks) -> Vec<TasksWithMask> {
        let mut groups: BTreeMap<CpuSet, Vec<(i32, u64)>> = BTreeMap::new();
        for (id, cpus) in masks.0 {
            groups.entry(cpus).or_default().push((id.tid, id.started));
        }
        groups.into_iter().map(|(cpus, tasks)| TasksWithMask { cpus, tasks }).collect()
    }
}
