//! Affinities of all tasks: what they were, what we left, and what each shall have after undo.
//!
//! The kernel overwrites affinities when cpusets change (before 6.2 always; since commit
//! 8f9ea86fdf99 it remembers what a user asked for), so affinities are put back last of all, and
//! whether somebody else changed one is decided before undo touches any cpuset. Bound kernel
//! threads are not touched.

use super::journal::{Intent, Journal, Original, Undoing};
use crate::change::Change;
use crate::plan::{Plan, Shield};
use cpushield_linux::{CpuSet, Error, Host, Result, Task, TaskId};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Tasks with their masks; on disk grouped by mask.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<Masked>", into = "Vec<Masked>")]
pub struct Masks(pub BTreeMap<TaskId, CpuSet>);

/// Tasks with one mask.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Masked {
    cpus: CpuSet,
    tasks: Vec<(i32, u64)>,
}

impl From<Vec<Masked>> for Masks {
    fn from(groups: Vec<Masked>) -> Masks {
        let tasks = |g: Masked| {
            let ids = g.tasks.into_iter().map(|(tid, started)| TaskId { tid, started });
            ids.map(move |id| (id, g.cpus.clone()))
        };
        Masks(groups.into_iter().flat_map(tasks).collect())
    }
}

impl From<Masks> for Vec<Masked> {
    fn from(masks: Masks) -> Vec<Masked> {
        let mut groups: BTreeMap<CpuSet, Vec<(i32, u64)>> = BTreeMap::new();
        for (id, cpus) in masks.0 {
            groups.entry(cpus).or_default().push((id.tid, id.started));
        }
        groups.into_iter().map(|(cpus, tasks)| Masked { cpus, tasks }).collect()
    }
}

/// The masks of these tasks now; those that are gone are left out.
fn of_tasks(host: &Host, tasks: impl Iterator<Item = TaskId>) -> Result<Masks> {
    let mut masks = BTreeMap::new();
    for id in tasks {
        if let Some(cpus) = there(host.affinity(id.tid))? {
            masks.insert(id, cpus);
        }
    }
    Ok(Masks(masks))
}

/// A reading of a task, `None` when the task is gone.
fn there<T>(reading: Result<T>) -> Result<Option<T>> {
    match reading {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.is_absent() => Ok(None),
        Err(error) => Err(error),
    }
}

/// The masks of all tasks that can be moved at all, but for this process.
///
/// # Errors
/// `/proc` cannot be read.
pub fn all(host: &Host) -> Result<Masks> {
    let tasks = host.tasks()?;
    let movable = tasks.iter().filter(|task| !task.bound && !is_self(host, task));
    of_tasks(host, movable.map(|task| task.id))
}

fn is_self(host: &Host, task: &Task) -> bool {
    host.is_live() && u32::try_from(task.pid) == Ok(std::process::id())
}

/// The originals of all tasks that are known.
fn originals(plan: &Plan, intents: &[Intent]) -> Masks {
    let mut masks = Masks::default();
    for intent in intents {
        match (plan.steps.get(intent.step).map(|s| &s.change), &intent.original) {
            (Some(Change::KeepAffinities), Original::Affinities { masks: kept }) => {
                masks.0.extend(kept.0.clone());
            }
            (Some(Change::Affinity { task, .. }), Original::Cpus { cpus }) => {
                masks.0.entry(*task).or_insert_with(|| cpus.clone());
            }
            _ => {}
        }
    }
    masks
}

/// The masks now of every task whose original is known. That of one that has its original is not
/// read again: the CPUs that are online tell.
///
/// # Errors
/// `/proc` cannot be read.
pub fn left(host: &Host, plan: &Plan, intents: &[Intent]) -> Result<Masks> {
    let online = online(host);
    let mut masks = BTreeMap::new();
    for (id, original) in originals(plan, intents).0 {
        let Some(now) = there(host.online_affinity(id.tid))? else { continue };
        if online.as_ref().is_some_and(|online| original.and(online) == now) {
            masks.insert(id, original);
        } else if let Some(now) = there(host.affinity(id.tid))? {
            masks.insert(id, now);
        }
    }
    Ok(Masks(masks))
}

/// The CPUs that are online; `None` when the kernel does not say.
fn online(host: &Host) -> Option<CpuSet> {
    host.read_line("/sys/devices/system/cpu/online").ok()?.parse().ok()
}

/// What is known of the machine when undo begins.
struct Now<'a> {
    journal: &'a Journal,
    originals: Masks,
    /// What each task was told by the plan itself.
    wanted: BTreeMap<TaskId, &'a CpuSet>,
    tasks: BTreeMap<i32, Task>,
}

impl Now<'_> {
    /// Whether `cpus` may be what the plan, or the kernel because of it, left with this task.
    fn is_ours(&self, id: TaskId, cpus: &CpuSet, original: &CpuSet) -> bool {
        if cpus == original {
            return true;
        }
        if let Some(left) = &self.journal.applied {
            return left.0.get(&id) == Some(cpus);
        }
        // Stopped while applying: what was left was not noted. The plan asks for one mask; when
        // cpusets shrink, grow or appear, the kernel makes masks that hold at least the original's
        // CPUs beside the shield.
        let shield = &self.journal.header.plan.shield;
        self.wanted.get(&id) == Some(&cpus) || original.minus(&shield.cpus).is_subset(cpus)
    }

    /// The nearest process above `task` that lived before the shield, and its original mask.
    fn above(&self, task: &Task) -> Option<(TaskId, &CpuSet)> {
        let mut next = if task.pid == task.id.tid { task.parent } else { task.pid };
        // Bounded, because a recording may hold a circle.
        for _ in 0..self.tasks.len() {
            let above = self.tasks.get(&next)?;
            if let Some(original) = self.originals.0.get(&above.id) {
                return Some((above.id, original));
            }
            next = above.parent;
        }
        None
    }

    /// The mask of that process.
    fn nearest(&self, task: &Task) -> Option<CpuSet> {
        self.above(task).map(|(_, original)| original.clone())
    }

    /// The same when the task has its mask by inheritance from what we left there.
    fn inherited(&self, task: &Task, cpus: &CpuSet) -> Option<CpuSet> {
        let (id, original) = self.above(task)?;
        let same = cpus != original && self.is_ours(id, cpus, original);
        same.then(|| original.clone())
    }
}

/// Whether a task is in the shield's own group, which gave it the mask it has.
fn is_in_shield(host: &Host, id: TaskId, cpus: &CpuSet, shield: &Shield) -> bool {
    if !cpus.is_subset(&shield.cpus) {
        return false;
    }
    let Ok(text) = host.read(&format!("/proc/{}/cgroup", id.tid)) else { return false };
    let group = shield.group();
    text.lines().filter_map(|line| line.splitn(3, ':').nth(2)).any(|path| {
        let top = path.split('/').nth(1).unwrap_or("");
        top.strip_suffix(".slice").unwrap_or(top) == group
    })
}

/// Decides what every task shall have when everything else is undone: the original where the mask
/// is still ours, the mask it has now where somebody changed it, and for tasks born since then what
/// they would have been born with.
///
/// # Errors
/// `/proc` cannot be read.
pub fn decide(host: &Host, journal: &Journal) -> Result<Undoing> {
    let originals = originals(&journal.header.plan, &journal.intents);
    let mut undoing = Undoing::default();
    if originals.0.is_empty() {
        return Ok(undoing);
    }
    let online = online(host);
    let steps = journal.intents.iter().filter_map(|intent| journal.step(intent));
    let wanted = steps.filter_map(|step| match &step.change {
        Change::Affinity { task, cpus, .. } => Some((*task, cpus)),
        _ => None,
    });
    let tasks = host.tasks()?.into_iter().map(|task| (task.id.tid, task)).collect();
    let now = Now { journal, originals, wanted: wanted.collect(), tasks };
    for task in now.tasks.values().filter(|task| !task.bound && !is_self(host, task)) {
        let original = now.originals.0.get(&task.id);
        if let (Some(original), Some(online)) = (original, &online)
            && there(host.online_affinity(task.id.tid))? == Some(original.and(online))
        {
            undoing.masks.0.insert(task.id, original.clone());
            continue;
        }
        let Some(cpus) = there(host.affinity(task.id.tid))? else { continue };
        if is_in_shield(host, task.id, &cpus, &journal.header.plan.shield) {
            let free = original.cloned().or_else(|| now.nearest(task)).unwrap_or_else(|| {
                let shield = &journal.header.plan.shield;
                shield.cpus.union(&shield.housekeeping)
            });
            undoing.masks.0.insert(task.id, free);
            continue;
        }
        let shall = match original {
            // The kernel itself moves the thread of an interrupt after the interrupt.
            Some(original) if task.kthread && task.comm.starts_with("irq/") => original.clone(),
            Some(original) if now.is_ours(task.id, &cpus, original) => original.clone(),
            Some(_) => {
                undoing.drifted.push(task.id);
                cpus
            }
            None => now.inherited(task, &cpus).unwrap_or(cpus),
        };
        undoing.masks.0.insert(task.id, shall);
    }
    Ok(undoing)
}

/// What became of the affinities.
#[derive(Debug, Default)]
pub struct Restored {
    /// Tasks that were given their mask again.
    pub restored: BTreeSet<TaskId>,
    /// Tasks whose mask could not be put back, with the kernel's answer.
    pub failed: BTreeMap<TaskId, String>,
}

/// Gives every task what was decided, where it has something else.
///
/// # Errors
/// Only when a test stopped the host.
pub fn restore(host: &Host, undoing: &Undoing) -> Result<Restored> {
    let online = online(host);
    // Whether masks agree on the CPUs that exist: a mask that names others too cannot be set.
    let same = |a: &CpuSet, b: &CpuSet| match &online {
        Some(online) => a.and(online) == b.and(online),
        None => a == b,
    };
    let mut done = Restored::default();
    for (id, cpus) in &undoing.masks.0 {
        match restore_one(host, *id, cpus, &same) {
            Ok(Some(true)) => {
                done.restored.insert(*id);
            }
            // It has its mask, or it is no more.
            Ok(Some(false) | None) => {}
            Err(error) if error.is_stop() => return Err(error),
            Err(error) => {
                done.failed.insert(*id, error.reason());
            }
        }
    }
    Ok(done)
}

fn has_ended(host: &Host, tid: i32) -> bool {
    host.task(tid, tid).map_or(true, |task| matches!(task.state, 'Z' | 'X'))
}

/// Whether the mask was written; `None` when the task is gone.
fn restore_one(
    host: &Host,
    id: TaskId,
    cpus: &CpuSet,
    same: &impl Fn(&CpuSet, &CpuSet) -> bool,
) -> Result<Option<bool>> {
    let Some(now) = there(host.online_affinity(id.tid))? else { return Ok(None) };
    if same(&now, cpus) {
        return Ok(Some(false));
    }
    if !host.is_same_task(id) {
        return Ok(None);
    }
    match there(host.set_affinity(id.tid, cpus)) {
        Ok(Some(())) => {}
        Ok(None) => return Ok(None),
        // It has ended, and nobody has asked yet how.
        Err(error) if !error.is_stop() && has_ended(host, id.tid) => return Ok(None),
        Err(error) => return Err(error),
    }
    match there(host.online_affinity(id.tid))? {
        Some(now) if same(&now, cpus) => Ok(Some(true)),
        Some(now) => Err(Error::malformed(
            &format!("/proc/{}/status", id.tid),
            0,
            "the affinity it had",
            &now.to_string(),
        )),
        None => Ok(None),
    }
}
