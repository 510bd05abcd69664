//! Looks up in `/proc` the tasks that a trace names.

use super::{TaskName, TaskNames};
use cpushield_linux::{Host, Task};

/// The most tasks whose names are kept; others have only their number and the name in the trace.
const TASKS_MAX: usize = 16 << 10;

/// Looks up the name of a task while it is alive.
pub fn look_up_task(host: &Host, tasks: &mut TaskNames, pid: i32) {
    if tasks.len() < TASKS_MAX && !tasks.contains_key(&pid) {
        let task = host.task(pid, pid);
        tasks.insert(pid, task.ok().map(TaskName::from));
    }
}

/// The kernel threads that run now. They are known even if they end before they are looked up.
pub fn kernel_threads(host: &Host) -> TaskNames {
    let tasks = host.tasks().unwrap_or_default().into_iter();
    let threads = tasks.filter(|task| task.kthread).take(TASKS_MAX / 2);
    threads.map(|task| (task.id.tid, Some(TaskName::from(task)))).collect()
}

impl From<Task> for TaskName {
    fn from(Task { comm, kthread, .. }: Task) -> TaskName {
        TaskName { comm, kthread }
    }
}

/// Whether the thread ran for at least half of the time; `None` when that is unknown.
pub fn ran_mostly(host: &Host, runner: Option<(i32, u64)>, span_ns: u64) -> Option<bool> {
    let (tid, before) = runner?;
    // A clock tick of user space is 10 ms.
    let took_ns = host.cpu_ticks(tid).ok()?.saturating_sub(before) * 10_000_000;
    Some(took_ns + 20_000_000 >= span_ns / 2)
}
