//! Every thread and its affinity. Command lines are never read.

use super::PlacedThread;
use super::reader::SurveyReader;

pub(super) fn read_tasks(r: &SurveyReader) -> Vec<PlacedThread> {
    let mut threads = Vec::new();
    for task in r.required(r.host.tasks()).unwrap_or_default() {
        // A task that has ended since has no affinity.
        if let Some(affinity) = r.optional(r.host.thread_affinity(task.pid, task.id.tid)) {
            threads.push(PlacedThread { task, affinity });
        }
    }
    threads
}
