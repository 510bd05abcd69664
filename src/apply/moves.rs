//! Moving every task of one cgroup into another, again until none is left that can be moved: tasks
//! fork meanwhile. Bound kernel threads stay, which is counted and is no failure.

use super::journal::{MovedTasks, StayedTasks};
use crate::change::{Refusal, RefusalKind};
use cpushield_linux::{Error, Host, Result, TaskId};
use std::collections::{BTreeMap, BTreeSet};

/// How often a group is read again; each time only tasks born since are left.
const ROUNDS_MAX: usize = 200;

/// Said of a task that the kernel took and left where it was.
const EXITING: &str = "it is exiting";

/// The file of a group that lists its tasks: threads on v1, processes on v2.
fn list_of(host: &Host, group: &str) -> String {
    let tasks = format!("{group}/tasks");
    if host.exists(&tasks) { tasks } else { format!("{group}/cgroup.procs") }
}

/// The numbers of the tasks in a group.
///
/// # Errors
/// The kernel's answer.
pub fn numbers(host: &Host, group: &str) -> Result<Vec<i32>> {
    let path = list_of(host, group);
    let text = host.read(&path)?;
    let mut found = Vec::new();
    for (i, line) in text.lines().enumerate() {
        let number = line.trim().parse();
        found.push(number.map_err(|_| Error::malformed(&path, i + 1, "a task's number", line))?);
    }
    Ok(found)
}

/// The tasks in a group, with their start times; a group that is not there has none.
///
/// # Errors
/// The kernel's answer.
pub fn members(host: &Host, group: &str) -> Result<Vec<TaskId>> {
    let numbers = match numbers(host, group) {
        Err(error) if error.is_absent() => Vec::new(),
        other => other?,
    };
    let id = |tid| Some(TaskId { tid, started: host.start_time(tid)? });
    Ok(numbers.into_iter().filter_map(id).collect())
}

/// The most tasks that a note names.
const NAMED_MAX: usize = 5;

/// Tasks that were moved out of a group: how many, and the names of the first.
#[derive(Debug, Default)]
pub struct MovedOut {
    /// How many.
    pub count: usize,
    names: Vec<String>,
}

impl MovedOut {
    /// Moves all tasks of `from` to `to` and notes which.
    ///
    /// # Errors
    /// As [`move_all`].
    pub fn move_out(&mut self, host: &Host, from: &str, to: &str) -> Result<()> {
        // Read before: a task that was moved cannot be told from others of its new group.
        let tasks = members(host, from)?;
        let moved = move_all(host, from, to, &BTreeSet::new())?.moved;
        self.count += moved;
        if moved > 0 {
            let free = NAMED_MAX.saturating_sub(self.names.len());
            self.names.extend(tasks.iter().take(free).filter_map(|id| name_of(host, *id)));
        }
        Ok(())
    }

    /// The note of an undo; `None` when none was moved.
    #[must_use]
    pub fn note(&self, to: &str) -> Option<String> {
        let tasks = match self.count {
            0 => return None,
            1 => "1 task that ran in it is".to_owned(),
            n => format!("{n} tasks that ran in it are"),
        };
        let names = self.names.join(", ");
        let more = match self.count.saturating_sub(self.names.len()) {
            _ if names.is_empty() => String::new(),
            0 => format!(": {names}"),
            n => format!(": {names} and {n} more"),
        };
        Some(format!("{tasks} now in {to}{more}"))
    }
}

/// A task as a note names it.
fn name_of(host: &Host, id: TaskId) -> Option<String> {
    let comm = host
        .read_line(&format!("/proc/{}/comm", id.tid))
        .ok()
        .or_else(|| host.task(id.tid, id.tid).ok().map(|task| task.comm))?;
    Some(format!("{comm} ({})", id.tid))
}

/// Moves all tasks of `from` to `to`, but for those in `keep`.
///
/// # Errors
/// `from` cannot be read, or a test stopped the host. What the kernel says about single tasks is
/// counted.
pub fn move_all(host: &Host, from: &str, to: &str, keep: &BTreeSet<TaskId>) -> Result<MovedTasks> {
    let target = list_of(host, to);
    let mut writer = host.writer(&target);
    let mut tried: BTreeMap<i32, Option<Refusal>> = BTreeMap::new();
    let mut moved = 0;
    for _ in 0..ROUNDS_MAX {
        let mut fresh = false;
        for tid in numbers(host, from)? {
            if matches!(tried.get(&tid), Some(Some(_))) || kept(host, tid, keep) {
                continue;
            }
            fresh = true;
            match writer.write(&tid.to_string()) {
                // The kernel takes a task that is exiting and leaves it where it is.
                Ok(()) if tried.contains_key(&tid) => {
                    let reason = EXITING.to_owned();
                    tried.insert(tid, Some(Refusal { kind: RefusalKind::Exiting, reason }));
                }
                Ok(()) => {
                    moved += 1;
                    tried.insert(tid, None);
                }
                Err(error) if error.is_stop() => return Err(error),
                // It has ended, unless it is the group that is no more.
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

/// Why tasks stayed that the kernel would have let go: anything but bound kernel threads (EINVAL)
/// and tasks that are exiting.
#[must_use]
pub fn failure(moved: &MovedTasks) -> Option<&Refusal> {
    let refusals = moved.stayed.iter().map(|stayed| &stayed.refusal);
    refusals
        .into_iter()
        .find(|refusal| !matches!(refusal.kind, RefusalKind::Invalid | RefusalKind::Exiting))
}

fn kept(host: &Host, tid: i32, keep: &BTreeSet<TaskId>) -> bool {
    let mut same = keep.range(TaskId { tid, started: 0 }..=TaskId { tid, started: u64::MAX });
    same.next().is_some_and(|id| host.is_same_task(*id))
}
