//! Every thread and its affinity, and the cgroup of pinned user threads. Command lines are never
//! read.

use super::reader::SurveyReader;
use super::{Cgroup, CgroupMode, PlacedThread};
use cpushield_linux::Host;
use cpushield_linux::text::task_cgroup::cpuset_group;

pub(super) fn read_tasks(r: &SurveyReader, cgroup: &Cgroup) -> Vec<PlacedThread> {
    let mut threads = Vec::new();
    for task in r.required(r.host.tasks()).unwrap_or_default() {
        // A task that has ended since has no affinity.
        if let Some(affinity) = r.optional(r.host.thread_affinity(task.pid, task.id.tid)) {
            threads.push(PlacedThread { task, affinity, group: None });
        }
    }
    let Some(mount) = &cgroup.mount else { return threads };
    // Programs inherit the mask of the first one, unless a user or a cpuset pins them.
    let first = threads.iter().find(|placed| placed.task.id.tid == 1);
    let usual = first.map(|placed| placed.affinity.clone()).unwrap_or_default();
    let v2 = cgroup.mode == CgroupMode::V2;
    let is_pinned =
        |placed: &&mut PlacedThread| !placed.task.kthread && !usual.is_subset(&placed.affinity);
    for placed in threads.iter_mut().filter(is_pinned) {
        let (pid, tid) = (placed.task.pid, placed.task.id.tid);
        let text = r.optional(r.host.read(&format!("/proc/{pid}/task/{tid}/cgroup")));
        let group = text.as_deref().and_then(|text| cpuset_group(text, v2));
        placed.group = group.map(|group| format!("{mount}{group}"));
    }
    threads
}

/// This process and its ancestors, without the first process; none in a recording.
pub(super) fn own_processes(host: &Host) -> Vec<i32> {
    let mut own = Vec::new();
    let mut next = host.own_pid();
    while let Some(pid) = next.filter(|pid| *pid > 1 && !own.contains(pid)) {
        own.push(pid);
        next = host.task(pid, pid).ok().map(|task| task.parent);
    }
    own
}
