//! Moves every task of one cgroup into another, repeatedly until no movable task is left, as tasks
//! fork during the move. Bound kernel threads stay; they are counted and are not a failure.

use crate::change::{Refusal, RefusalKind};
use crate::documents::applied::{MovedTasks, StayedTasks, StepNote};
use cpushield_linux::error::present;
use cpushield_linux::{Error, Host, Result, TaskId};
use std::collections::BTreeMap;

/// How often a group is read again; each time only new tasks are left.
const ROUNDS_MAX: usize = 200;

/// The reason for a task that the kernel accepted but did not move.
const EXITING: &str = "it is exiting";

/// The file of a group that lists its tasks: threads on v1, processes on v2.
fn task_file(host: &Host, group: &str) -> String {
    let tasks = format!("{group}/tasks");
    if host.exists(&tasks) { tasks } else { format!("{group}/cgroup.procs") }
}

/// Reads the numbers of the tasks in a group. A threaded group of v2 has none: the group above
/// lists its processes, and its threads follow them.
///
/// # Errors
/// The kernel's answer.
pub fn read_numbers(host: &Host, group: &str) -> Result<Vec<i32>> {
    let path = task_file(host, group);
    let text = match host.read(&path) {
        Err(error) if error.is_not_supported() => return Ok(Vec::new()),
        answer => answer?,
    };
    let mut found = Vec::new();
    for (i, line) in text.lines().enumerate() {
        let number = line.trim().parse();
        found.push(number.map_err(|_| Error::malformed(&path, i + 1, "a task ID", line))?);
    }
    Ok(found)
}

/// Returns the tasks in a group, with their start times; a missing group has none.
///
/// # Errors
/// The kernel's answer.
pub fn members(host: &Host, group: &str) -> Result<Vec<TaskId>> {
    let numbers = present(read_numbers(host, group))?.unwrap_or_default();
    let started = numbers.into_iter().map(|tid| (tid, host.start_time(tid)));
    Ok(started.filter_map(|(tid, started)| Some(TaskId { tid, started: started? })).collect())
}

/// The most tasks that a note names.
const NAMED_MAX: usize = 5;

/// Tasks that were moved out of a group: how many, and the names of the first.
#[derive(Debug, Default)]
pub struct MovedOut {
    /// Their number.
    pub count: usize,
    names: Vec<String>,
}

impl MovedOut {
    /// Moves all tasks of `from` to `to` and remembers their names.
    ///
    /// # Errors
    /// As [`move_all`].
    pub fn move_out(&mut self, host: &Host, from: &str, to: &str) -> Result<()> {
        // Read before: a moved task cannot be distinguished from others of its new group.
        let tasks = members(host, from)?;
        let moved = move_all(host, from, to, &|_| false)?.moved;
        self.count += moved;
        if moved > 0 {
            let free = NAMED_MAX.saturating_sub(self.names.len());
            self.names.extend(tasks.iter().take(free).filter_map(|id| describe_task(host, *id)));
        }
        Ok(())
    }

    /// The note of an undo; `None` when none was moved.
    #[must_use]
    pub fn note(&self, to: &str) -> Option<StepNote> {
        let (count, names) = (self.count, self.names.clone());
        (count > 0).then(|| StepNote::TasksMoved { to: to.to_owned(), count, names })
    }
}

/// Names a task in a note: `name (number)`.
fn describe_task(host: &Host, id: TaskId) -> Option<String> {
    let comm = host
        .read_line(&format!("/proc/{}/comm", id.tid))
        .ok()
        .or_else(|| host.task(id.tid, id.tid).ok().map(|task| task.comm))?;
    Some(format!("{comm} ({})", id.tid))
}

/// Moves all tasks of `from` to `to`, except those that `is_kept` names.
///
/// # Errors
/// `from` cannot be read, or a test stopped the host. Refusals of single tasks are counted.
pub fn move_all(
    host: &Host,
    from: &str,
    to: &str,
    is_kept: &dyn Fn(i32) -> bool,
) -> Result<MovedTasks> {
    let target = task_file(host, to);
    let mut writer = host.writer(&target);
    let mut tried: BTreeMap<i32, Option<Refusal>> = BTreeMap::new();
    let mut moved = 0;
    for _ in 0..ROUNDS_MAX {
        let mut fresh = false;
        for tid in read_numbers(host, from)? {
            if matches!(tried.get(&tid), Some(Some(_))) || is_kept(tid) {
                continue;
            }
            fresh = true;
            match writer.write(&tid.to_string()) {
                // The kernel accepts a task that is exiting, and does not move it.
                Ok(()) if tried.contains_key(&tid) => {
                    let reason = EXITING.to_owned();
                    tried.insert(tid, Some(Refusal { kind: RefusalKind::Exiting, reason }));
                }
                Ok(()) => {
                    moved += 1;
                    tried.insert(tid, None);
                }
                Err(error) if error.is_stop() => return Err(error),
                // The task has ended, unless the group is gone.
                Err(error) if error.is_absent() && tried.contains_key(&tid) => {
                    tried.insert(tid, Some(Refusal::from(&error)));
                }
                Err(error) if error.is_absent() && host.exists(&target) => {
                    tried.insert(tid, None);
                }
                Err(error) => {
                    tried.insert(tid, Some(Refusal::from(&error)));
                }
            }
        }
        if !fresh {
            break;
        }
    }
    let mut counts: BTreeMap<Refusal, usize> = BTreeMap::new();
    for refusal in tried.into_values().flatten() {
        *counts.entry(refusal).or_default() += 1;
    }
    let stayed =
        counts.into_iter().map(|(refusal, tasks)| StayedTasks { refusal, tasks }).collect();
    Ok(MovedTasks { moved, stayed })
}

/// Returns the first refusal that is a failure: any except for bound kernel threads (EINVAL) and
/// tasks that are exiting.
#[must_use]
pub fn failure(moved: &MovedTasks) -> Option<&Refusal> {
    let refusals = moved.stayed.iter().map(|stayed| &stayed.refusal);
    refusals
        .into_iter()
        .find(|refusal| !matches!(refusal.kind, RefusalKind::Invalid | RefusalKind::Exiting))
}
