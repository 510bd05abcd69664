//! Looks up in `/proc` the tasks that a trace names.

use super::TaskName;
use cpushield_linux::Host;
use std::collections::HashMap;

/// The most tasks whose names are kept; others have only their number and the name in the trace.
const TASKS_MAX: usize = 16 << 10;

/// Looks up the name of a task while it is alive.
pub fn look_up_task(host: &Host, tasks: &mut HashMap<i32, TaskName>, pid: i32) {
    if tasks.len() < TASKS_MAX && !tasks.contains_key(&pid) {
        let task = host.task(pid, pid);
        let name = task.map(|task| TaskName { comm: task.comm, kthread: task.kthread });
        let ended = TaskName { comm: String::new(), kthread: false };
        tasks.insert(pid, name.unwrap_or(ended));
    }
}

/// Whether the thread ran for at least half of the time; `None` when that is unknown.
pub fn ran_mostly(host: &Host, runner: Option<(i32, u64)>, span_ns: u64) -> Option<bool> {
    let (tid, before) = runner?;
    // A clock tick of user space is 10 ms.
    let took_ns = host.cpu_ticks(tid).ok()?.saturating_sub(before) * 10_000_000;
    Some(took_ns + 20_000_000 >= span_ns / 2)
}
