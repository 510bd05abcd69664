//! Finds the tasks that move together into a shield or out of it, and their cgroups.

use super::RunError;
use super::record::AddedThread;
use cpushield_linux::error::NamespaceKind;
use cpushield_linux::text::task_cgroup::cpuset_group;
use cpushield_linux::{Host, Task, processes::namespaces};

/// Finds a task by its number, with its process.
pub(super) fn find_task(host: &Host, tid: i32) -> Result<Task, cpushield_linux::Error> {
    let path = format!("/proc/{tid}/status");
    let text = host.read(&path)?;
    let pid = text.lines().find_map(|line| line.strip_prefix("Tgid:"));
    let pid = pid.and_then(|pid| pid.trim().parse().ok()).ok_or_else(|| {
        cpushield_linux::Error::malformed(&path, 0, "a line Tgid: with a number", "")
    })?;
    host.task(pid, tid)
}

/// Returns the threads to move together: all threads of a process, or a single thread.
pub(super) fn threads_of(host: &Host, task: &Task) -> Result<Vec<Task>, RunError> {
    if task.pid != task.id.tid {
        return Ok(vec![host.task(task.pid, task.id.tid)?]);
    }
    let tids = host.thread_ids(task.pid)?.into_iter();
    Ok(tids.filter_map(|tid| host.task(task.pid, tid).ok()).collect())
}

/// Whether the error says that the task is gone.
pub(super) fn has_ended(error: &RunError) -> bool {
    matches!(error, RunError::Machine(error) if error.is_absent())
}

/// Whether an entry is moved together with the task.
pub(super) fn belongs_to(added: &AddedThread, task: &Task) -> bool {
    if task.pid == task.id.tid { added.pid == task.pid } else { added.task == task.id }
}

/// Moves a process, or on cgroup v1 a single thread, to a group.
pub(super) fn move_to_group(host: &Host, group: &str, task: &Task) -> cpushield_linux::Result<()> {
    let list = if task.pid == task.id.tid { "cgroup.procs" } else { "tasks" };
    host.write(&format!("{group}/{list}"), &task.id.tid.to_string())
}

/// Returns the directory of a thread's cgroup, in the hierarchy of the shield's group.
pub(super) fn cgroup_of(
    host: &Host,
    shield: &str,
    v2: bool,
    thread: &Task,
) -> Result<String, RunError> {
    let path = format!("/proc/{}/cgroup", thread.id.tid);
    let text = host.read(&path)?;
    let mount = shield.rsplit_once('/').map_or("", |(mount, _)| mount);
    let group = cpuset_group(&text, v2);
    let group = group.ok_or_else(|| {
        cpushield_linux::Error::malformed(&path, 0, "a line for the cpuset hierarchy", &text)
    })?;
    if group.split('/').any(|part| part == "..") {
        return Err(namespaces::hidden(NamespaceKind::Cgroup, &path).into());
    }
    Ok(format!("{mount}{group}"))
}
