//! Affinities of all tasks: what they were, what we left, and what each shall have after undo.
//!
//! The kernel overwrites affinities when cpusets change (before 6.2 always; since commit
//! 8f9ea86fdf99 it remembers what a user asked for), so affinities are put back last of all, and
//! whether somebody else changed one is decided before undo touches any cpuset. What was decided is
//! carried out only where the mask is still the one that was seen then, or one that the kernel made
//! of it since; so an undo that is called again goes over nobody's mask. Bound kernel threads are
//! not touched.
//!
//! Who was narrowed by cpusets alone is not written to at all where the kernel remembers what tasks
//! ask for (6.2, commit da019032819a): such a task has its CPUs again with the cpusets, and one
//! that has not asked for what it has, or is a child of one that did (`dup_user_cpus_ptr()`). A
//! task that a step of the plan has narrowed, or a child of one, cannot be told from one that asked
//! for the same, and is given its original.

use super::journal::{ApplyJournal, OriginalState, StepOriginal, UndoDecision};
use crate::change::Change;
use crate::plan::{Plan, Shield};
use cpushield_linux::{CpuSet, Error, Host, Result, Task, TaskId};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Tasks with their masks; on disk grouped by mask.
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
        let tasks = |g: TasksWithMask| {
            let ids = g.tasks.into_iter().map(|(tid, started)| TaskId { tid, started });
            ids.map(move |id| (id, g.cpus.clone()))
        };
        TaskMasks(groups.into_iter().flat_map(tasks).collect())
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

/// The masks of these tasks now; those that are gone are left out.
fn of_tasks(host: &Host, tasks: impl Iterator<Item = TaskId>) -> Result<TaskMasks> {
    let mut masks = BTreeMap::new();
    for id in tasks {
        if let Some(cpus) = there(host.affinity(id.tid))? {
            masks.insert(id, cpus);
        }
    }
    Ok(TaskMasks(masks))
}

/// A reading of a task, `None` when the task is gone.
fn there<T>(reading: Result<T>) -> Result<Option<T>> {
    match reading {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.is_absent() => Ok(None),
        Err(error) => Err(error),
    }
}

/// The masks of those of `tasks` that can be moved at all, but for this process.
///
/// # Errors
/// `/proc` cannot be read.
pub fn of(host: &Host, tasks: &[Task]) -> Result<TaskMasks> {
    let own = own_pid(host);
    let movable = tasks.iter().filter(|task| !task.bound && Some(task.pid) != own);
    of_tasks(host, movable.map(|task| task.id))
}

/// This process, among the tasks of a live machine.
fn own_pid(host: &Host) -> Option<i32> {
    i32::try_from(std::process::id()).ok().filter(|_| host.is_live())
}

/// The originals of all tasks that are known.
fn originals(plan: &Plan, intents: &[StepOriginal]) -> TaskMasks {
    let mut masks = TaskMasks::default();
    for intent in intents {
        match (plan.steps.get(intent.step).map(|s| &s.change), &intent.original) {
            (Some(Change::KeepAffinities), OriginalState::Affinities { masks: kept }) => {
                masks.0.extend(kept.0.clone());
            }
            (Some(Change::Affinity { task, .. }), OriginalState::Cpus { cpus }) => {
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
pub fn left(host: &Host, plan: &Plan, intents: &[StepOriginal]) -> Result<TaskMasks> {
    let online = host.online_cpus().ok();
    let mut masks = BTreeMap::new();
    for (id, original) in originals(plan, intents).0 {
        let Some(now) = there(host.online_affinity(id.tid))? else { continue };
        if online.as_ref().is_some_and(|online| original.and(online) == now) {
            masks.insert(id, original);
        } else if let Some(now) = there(host.affinity(id.tid))? {
            masks.insert(id, now);
        }
    }
    Ok(TaskMasks(masks))
}

/// What is known of the machine when undo begins.
struct UndoSnapshot<'a> {
    journal: &'a ApplyJournal,
    originals: TaskMasks,
    /// What each task was told by the plan itself.
    wanted: BTreeMap<TaskId, &'a CpuSet>,
    tasks: BTreeMap<i32, Task>,
}

impl<'a> UndoSnapshot<'a> {
    fn of(journal: &'a ApplyJournal, originals: TaskMasks, tasks: Vec<Task>) -> UndoSnapshot<'a> {
        let steps = journal.intents.iter().filter_map(|intent| journal.step(intent));
        let wanted = steps.filter_map(|step| match &step.change {
            Change::Affinity { task, cpus, .. } => Some((*task, cpus)),
            _ => None,
        });
        let tasks = tasks.into_iter().map(|task| (task.id.tid, task)).collect();
        UndoSnapshot { journal, originals, wanted: wanted.collect(), tasks }
    }
}

impl UndoSnapshot<'_> {
    /// Whether `cpus` may be what the plan, or the kernel because of it, left with this task.
    fn is_ours(&self, id: TaskId, cpus: &CpuSet, original: &CpuSet) -> bool {
        if cpus == original {
            return true;
        }
        if let Some(left) = &self.journal.applied {
            let so = left.0.get(&id) == Some(cpus);
            if so || self.journal.amending.is_empty() {
                return so;
            }
        }
        // Stopped while applying or amending: what was left was not noted. The plan asks for one
        // mask; when cpusets shrink, grow or appear, the kernel makes masks that hold at least the
        // original's CPUs beside the shield.
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

    /// The mask of a task, `None` when it is gone. One that is as we know it, or as that of the
    /// process it may have it from, as far as CPUs are online, is not read: asking for those alone
    /// costs a tenth.
    fn mask(&self, host: &Host, task: &Task, online: Option<&CpuSet>) -> Result<Option<CpuSet>> {
        let Some(online) = online else { return there(host.affinity(task.id.tid)) };
        let Some(now) = there(host.online_affinity(task.id.tid))? else { return Ok(None) };
        let own = self.originals.0.contains_key(&task.id).then_some(task.id);
        let id = own.or_else(|| self.above(task).map(|(id, _)| id));
        let left = self.journal.applied.as_ref().map(|left| &left.0);
        let known = [Some(&self.originals.0), left].into_iter().flatten();
        let mut known = known.filter_map(|masks| masks.get(&id?));
        match known.find(|mask| mask.and(online) == now) {
            Some(mask) => Ok(Some(mask.clone())),
            None => there(host.affinity(task.id.tid)),
        }
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

impl UndoSnapshot<'_> {
    /// Whether a step of the plan set the affinity of a task, or of the process it may have its
    /// mask from.
    fn is_told(&self, task: &Task) -> bool {
        if self.originals.0.contains_key(&task.id) {
            return self.wanted.contains_key(&task.id);
        }
        self.above(task).is_some_and(|(id, _)| self.wanted.contains_key(&id))
    }

    /// Whether only cpusets can have narrowed a task to `cpus`, if anything of ours did: no step
    /// set its affinity, nor that of the process it may have its mask from.
    fn is_limited(&self, host: &Host, task: &Task, cpus: &CpuSet, shall: &CpuSet) -> bool {
        let shield = &self.journal.header.plan.shield;
        !self.is_told(task)
            && cpus.is_subset(shall)
            && !follows_interrupt(task)
            && !is_in_shield(host, task.id, cpus, shield)
    }
}

/// What is to become of the mask of one task.
enum AffinityDecision {
    /// It is ours, and gives way to this one.
    Have(CpuSet),
    /// It is somebody else's, though we had left another.
    Drift,
    /// It is none of ours.
    Keep,
}

impl UndoSnapshot<'_> {
    fn shall(&self, host: &Host, task: &Task, cpus: &CpuSet) -> AffinityDecision {
        let shield = &self.journal.header.plan.shield;
        let original = self.originals.0.get(&task.id);
        if is_in_shield(host, task.id, cpus, shield) {
            let free = original.cloned().or_else(|| self.nearest(task));
            return AffinityDecision::Have(
                free.unwrap_or_else(|| shield.cpus.union(&shield.housekeeping)),
            );
        }
        let before = self.journal.undoing.as_ref();
        if let Some(shall) = before.and_then(|before| self.shall_still(before, task, cpus)) {
            return shall;
        }
        match original {
            // The kernel itself moves the thread of an interrupt after the interrupt.
            Some(original) if follows_interrupt(task) => AffinityDecision::Have(original.clone()),
            Some(original) if cpus == original => AffinityDecision::Keep,
            Some(original) if self.is_ours(task.id, cpus, original) => {
                AffinityDecision::Have(original.clone())
            }
            Some(_) => AffinityDecision::Drift,
            None => {
                self.inherited(task, cpus).map_or(AffinityDecision::Keep, AffinityDecision::Have)
            }
        }
    }

    /// What an earlier undo decided, where nobody changed the mask since; `None` when that undo did
    /// not come to its end and knew nothing of the task.
    fn shall_still(
        &self,
        before: &UndoDecision,
        task: &Task,
        cpus: &CpuSet,
    ) -> Option<AffinityDecision> {
        let (id, shield) = (task.id, &self.journal.header.plan.shield);
        let ours = before.masks.0.get(&id);
        let shall = ours.or_else(|| before.kept.0.get(&id));
        if let Some(done) = &self.journal.affinities {
            let Some(left) = done.pending.0.get(&id) else { return Some(AffinityDecision::Keep) };
            let shall = shall.filter(|_| left == cpus || follows_interrupt(task));
            return Some(shall.cloned().map_or(AffinityDecision::Drift, AffinityDecision::Have));
        }
        let shall = shall?;
        let was = if ours.is_some() { before.was.0.get(&id) } else { Some(shall) };
        let known = cpus == shall || was.is_none_or(|was| was == cpus);
        Some(if known || is_widened(shield, cpus, shall) || follows_interrupt(task) {
            AffinityDecision::Have(shall.clone())
        } else if ours.is_some() {
            AffinityDecision::Drift
        } else {
            AffinityDecision::Keep
        })
    }
}

/// Whether the kernel may have made `now` of a mask when cpusets grew: then it has all CPUs of its
/// cpuset, the shield's among them.
fn is_widened(shield: &Shield, now: &CpuSet, mask: &CpuSet) -> bool {
    mask.is_subset(now) && now != mask && now.intersects(&shield.cpus)
}

fn follows_interrupt(task: &Task) -> bool {
    task.kthread && task.comm.starts_with("irq/")
}

/// Decides what every task shall have when everything else is undone: the original where the mask
/// is still ours, the mask it has now where somebody changed it, and for tasks born since then what
/// they would have been born with. `tasks` were listed just now.
///
/// # Errors
/// `/proc` cannot be read.
pub fn decide(host: &Host, journal: &ApplyJournal, tasks: Vec<Task>) -> Result<UndoDecision> {
    let originals = originals(&journal.header.plan, &journal.intents);
    let mut undoing = UndoDecision::default();
    if originals.0.is_empty() {
        return Ok(undoing);
    }
    let now = UndoSnapshot::of(journal, originals, tasks);
    let online = host.online_cpus().ok();
    // A shielded CPU may be offline just now, and cpusets give it back when it is there again.
    let all = online.as_ref().map(|online| online.union(&journal.header.plan.shield.cpus));
    let is_whole = |cpus: &CpuSet| all.as_ref().is_some_and(|all| all.is_subset(cpus));
    let own = own_pid(host);
    for task in now.tasks.values().filter(|task| !task.bound && Some(task.pid) != own) {
        let Some(cpus) = now.mask(host, task, online.as_ref())? else { continue };
        match now.shall(host, task, &cpus) {
            AffinityDecision::Have(shall) => {
                if now.is_limited(host, task, &cpus, &shall) {
                    undoing.limited.push(task.id);
                }
                undoing.masks.0.insert(task.id, shall);
                undoing.was.0.insert(task.id, cpus);
                continue;
            }
            AffinityDecision::Drift => undoing.drifted.push(task.id),
            AffinityDecision::Keep => {}
        }
        if !is_whole(&cpus) {
            undoing.kept.0.insert(task.id, cpus);
        }
    }
    Ok(undoing)
}

/// What these tasks, with these masks, would have without the shield's cpusets: of those that have
/// what they have because of them.
///
/// # Errors
/// `/proc` cannot be read.
pub fn unlimited(
    host: &Host,
    journal: &ApplyJournal,
    tasks: &[(Task, CpuSet)],
) -> Result<TaskMasks> {
    let originals = originals(&journal.header.plan, &journal.intents);
    let now = UndoSnapshot::of(journal, originals, host.tasks()?);
    let mut masks = TaskMasks::default();
    for (task, cpus) in tasks.iter().filter(|(task, _)| !now.is_told(task)) {
        if let AffinityDecision::Have(shall) = now.shall(host, task, cpus) {
            masks.0.insert(task.id, shall);
        }
    }
    Ok(masks)
}

/// What became of the affinities.
#[derive(Debug, Default)]
pub struct RestoredAffinities {
    /// Tasks that were given their mask again.
    pub restored: BTreeSet<TaskId>,
    /// Tasks whose mask could not be put back, with the kernel's answer.
    pub failed: BTreeMap<TaskId, String>,
    /// Tasks whose mask somebody changed since undo began.
    pub drifted: Vec<TaskId>,
    /// Tasks that stay as narrow as the shield had made them, because they asked for that.
    pub asked: Vec<TaskId>,
    /// Tasks of which that is not known yet, because cpusets could not be put back.
    pub waiting: Vec<TaskId>,
}

/// Gives every task what was decided, where it has what it had when that was decided, or what the
/// kernel made of it since. `complete` says whether everything else was put back.
///
/// # Errors
/// Only when a test stopped the host.
pub fn restore(
    host: &Host,
    shield: &Shield,
    undoing: &UndoDecision,
    complete: bool,
) -> Result<RestoredAffinities> {
    let look = AffinityScan { host, shield, online: host.online_cpus().ok() };
    let mut done = RestoredAffinities::default();
    let kept = undoing.kept.0.iter().map(|(id, cpus)| (id, cpus, Some(cpus)));
    let ours = undoing.masks.0.iter().map(|(id, cpus)| (id, cpus, undoing.was.0.get(id)));
    let limited: BTreeSet<&TaskId> = undoing.limited.iter().collect();
    for (id, cpus, was) in ours.chain(kept) {
        match look.restore_one(*id, cpus, was, limited.contains(id)) {
            Ok(FoundAffinity::Narrow) if complete => done.asked.push(*id),
            Ok(FoundAffinity::Narrow) => done.waiting.push(*id),
            Ok(FoundAffinity::Written) => drop(done.restored.insert(*id)),
            Ok(FoundAffinity::Theirs) => done.drifted.push(*id),
            Ok(FoundAffinity::So) => {}
            Err(error) if error.is_stop() => return Err(error),
            Err(error) => drop(done.failed.insert(*id, error.reason())),
        }
    }
    Ok(done)
}

/// What an undo leaves to the next one: tasks whose mask could not be put back, or not yet.
pub fn pending(host: &Host, restored: &RestoredAffinities) -> TaskMasks {
    let now = |id: &TaskId| Some((*id, host.affinity(id.tid).ok()?));
    TaskMasks(restored.failed.keys().chain(&restored.waiting).filter_map(now).collect())
}

fn has_ended(host: &Host, tid: i32) -> bool {
    host.task(tid, tid).map_or(true, |task| matches!(task.state, 'Z' | 'X'))
}

/// What was found of one task.
enum FoundAffinity {
    /// It had to be given its mask.
    Written,
    /// It has its mask, or it is no more.
    So,
    /// Somebody gave it another mask meanwhile.
    Theirs,
    /// It is as narrow as before, though nothing but cpusets of ours can have narrowed it.
    Narrow,
}

struct AffinityScan<'a> {
    host: &'a Host,
    shield: &'a Shield,
    online: Option<CpuSet>,
}

impl AffinityScan<'_> {
    /// A mask on the CPUs that are there now, on which two masks must agree.
    fn real(&self, cpus: &CpuSet) -> CpuSet {
        self.online.as_ref().map_or_else(|| cpus.clone(), |online| cpus.and(online))
    }

    fn restore_one(
        &self,
        id: TaskId,
        cpus: &CpuSet,
        was: Option<&CpuSet>,
        limited: bool,
    ) -> Result<FoundAffinity> {
        let (host, shall) = (self.host, self.real(cpus));
        let Some(now) = there(host.online_affinity(id.tid))?.map(|now| self.real(&now)) else {
            return Ok(FoundAffinity::So);
        };
        if now == shall || !host.is_same_task(id) {
            return Ok(FoundAffinity::So);
        }
        let unchanged = was.is_none_or(|was| self.real(was) == now);
        if unchanged && limited {
            return Ok(FoundAffinity::Narrow);
        }
        let known = unchanged || is_widened(self.shield, &now, &shall);
        if !known && !host.task(id.tid, id.tid).is_ok_and(|task| follows_interrupt(&task)) {
            return Ok(FoundAffinity::Theirs);
        }
        match there(host.set_affinity(id.tid, cpus)) {
            Ok(Some(())) => {}
            Ok(None) => return Ok(FoundAffinity::So),
            // It has ended, and nobody has asked yet how.
            Err(error) if !error.is_stop() && has_ended(host, id.tid) => {
                return Ok(FoundAffinity::So);
            }
            Err(error) => return Err(error),
        }
        match there(host.online_affinity(id.tid))? {
            Some(now) if self.real(&now) == shall => Ok(FoundAffinity::Written),
            Some(now) => Err(Error::malformed(
                &format!("/proc/{}/status", id.tid),
                0,
                "the affinity it had",
                &now.to_string(),
            )),
            None => Ok(FoundAffinity::So),
        }
    }
}
