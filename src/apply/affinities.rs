//! Affinities of all tasks: the originals, what apply left, and what each task gets after undo.
//!
//! The kernel overwrites affinities when cpusets change (before 6.2 always; since commit
//! 8f9ea86fdf99 it remembers what a user asked for). So affinities are restored last, and whether
//! another process changed one is decided before undo touches a cpuset. `restore_affinities` writes
//! a mask only where it is still the one that was seen then, or one that the kernel made of it. So
//! a second undo overwrites no other process's mask. Bound kernel threads are not touched.
//!
//! Kernels from 6.2 on (commit da019032819a) remember what tasks ask for. There, a task that only
//! cpusets narrowed is not written to: it gets its CPUs back with the cpusets. One that does not
//! has asked for its mask, or is a child of a task that did (`dup_user_cpus_ptr()`). A task that a
//! step of the plan narrowed, or a child of one, cannot be distinguished from one that asked for
//! the same mask, and gets its original.

use super::journal::{ApplyJournal, UndoDecision};
use super::lost_cpus::LostCpus;
use super::offline_cpus::offline_cpus;
use super::original::OriginalState;
use super::task_masks::TaskMasks;
use super::undo_scope::UndoScope;
use crate::change::Change;
use crate::documents::plan::Shield;
use cpushield_linux::error::present;
use cpushield_linux::{CpuSet, Host, Result, Task, TaskId};
use std::collections::{BTreeMap, BTreeSet};

/// Reads the masks of these tasks, except those that are gone.
fn read_masks(host: &Host, tasks: impl Iterator<Item = TaskId>) -> Result<TaskMasks> {
    let mut masks = BTreeMap::new();
    for id in tasks {
        if let Some(cpus) = present(host.affinity(id.tid))? {
            masks.insert(id, cpus);
        }
    }
    Ok(TaskMasks(masks))
}

/// Reads the masks of all `tasks` that can be moved, except those of this process.
///
/// # Errors
/// `/proc` cannot be read.
pub fn read_movable(host: &Host, tasks: &[Task]) -> Result<TaskMasks> {
    let own = host.own_pid();
    let movable = tasks.iter().filter(|task| !task.bound && Some(task.pid) != own);
    read_masks(host, movable.map(|task| task.id))
}

/// The known originals of all tasks.
fn originals(journal: &ApplyJournal) -> TaskMasks {
    let mut masks = TaskMasks::default();
    for intent in &journal.intents {
        match (journal.step(intent).map(|step| &step.change), journal.original(intent)) {
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

/// Returns the current mask of every task whose original is known. Where the online CPUs of the
/// mask match the original, the full mask is not read.
///
/// # Errors
/// `/proc` cannot be read.
pub fn current_masks(host: &Host, journal: &ApplyJournal) -> Result<TaskMasks> {
    let online = host.online_cpus().ok();
    let offline = offline_cpus(journal, online.as_ref());
    let mut masks = BTreeMap::new();
    for (id, original) in originals(journal).0 {
        let Some(now) = present(host.online_affinity(id.tid))? else { continue };
        let is_same = online.as_ref().is_some_and(|online| original.intersection(online) == now);
        if is_same && !original.intersects(&offline) {
            masks.insert(id, original);
        } else if let Some(now) = present(host.affinity(id.tid))? {
            masks.insert(id, now);
        }
    }
    Ok(TaskMasks(masks))
}

/// Returns the masks that are ours after an amendment. A mask that changed during the amendment is
/// ours, and so is one that a step wants, perhaps from an amendment that was killed. Other masks
/// that differ from the recorded ones belong to other processes.
pub(super) fn masks_after_amendment(
    journal: &ApplyJournal,
    before: &TaskMasks,
    now: TaskMasks,
) -> TaskMasks {
    let mut left = journal.applied.clone().unwrap_or_default();
    let wanted: Vec<(TaskId, &CpuSet)> = journal.wanted_masks().collect();
    for (id, now) in now.0 {
        let ours = before.0.get(&id) != Some(&now) || wanted.contains(&(id, &now));
        if ours || !left.0.contains_key(&id) {
            left.0.insert(id, now);
        }
    }
    left
}

/// The masks that other processes have set since the active shields were applied. Left out are
/// tasks in a shield, and the threads of interrupts.
///
/// # Errors
/// `/proc` cannot be read.
pub(super) fn foreign_masks(
    host: &Host,
    journal: &ApplyJournal,
    tasks: &[Task],
) -> Result<TaskMasks> {
    let Some(left) = &journal.applied else { return Ok(TaskMasks::default()) };
    let first = originals(journal);
    let follow: BTreeSet<TaskId> =
        tasks.iter().filter(|task| follows_interrupt(task)).map(|task| task.id).collect();
    let mut masks = current_masks(host, journal)?;
    let lost = LostCpus::read(host, journal);
    masks.0.retain(|id, cpus| {
        let left = left.0.get(id);
        let is_changed =
            left.is_some_and(|left| left != cpus && !lost.may_have_narrowed(*id, Some(left), cpus));
        is_changed
            && first.0.get(id) != Some(cpus)
            && !follow.contains(id)
            && !journal.planned_shields().any(|shield| is_in_shield(host, *id, cpus, shield))
    });
    Ok(masks)
}

/// The tasks and masks at the start of undo.
struct UndoSnapshot<'a> {
    journal: &'a ApplyJournal,
    /// The shield that is undone, and those that stay.
    scope: &'a UndoScope,
    originals: TaskMasks,
    /// The masks that steps of the plan gave to tasks.
    wanted: BTreeMap<TaskId, &'a CpuSet>,
    /// The CPUs that shields have taken offline, and shielded ones that are offline.
    offline: CpuSet,
    tasks: BTreeMap<i32, Task>,
}

impl<'a> UndoSnapshot<'a> {
    fn new(
        journal: &'a ApplyJournal,
        scope: &'a UndoScope,
        originals: TaskMasks,
        tasks: Vec<Task>,
        online: Option<&CpuSet>,
    ) -> UndoSnapshot<'a> {
        let wanted = journal.wanted_masks().collect();
        let tasks = tasks.into_iter().map(|task| (task.id.tid, task)).collect();
        let offline = offline_cpus(journal, online);
        UndoSnapshot { journal, scope, originals, wanted, offline, tasks }
    }

    /// Whether the plan, or the kernel because of it, may have given this mask to the task.
    fn is_ours(&self, id: TaskId, cpus: &CpuSet, original: &CpuSet) -> bool {
        let foreign = &self.scope.foreign;
        if cpus == original || foreign.may_have_narrowed(original, cpus) {
            return true;
        }
        let shielded = self.scope.shield.cpus.union(&self.scope.cpus_of_others());
        if let Some(left) = &self.journal.applied {
            // It was in the shield when that was changed, or before, and has left it since.
            let left = left.0.get(&id);
            let was_in = left.is_some_and(|left| left.intersects(&shielded));
            if was_in && *cpus == original.difference(&shielded) {
                return true;
            }
            let same = left == Some(cpus)
                || left.is_some_and(|left| foreign.may_have_narrowed(left, cpus))
                || self.has_lost_cpus(id, cpus);
            if same || self.journal.amending.is_empty() {
                return same;
            }
        }
        // Stopped while applying or amending: the masks left were not recorded. The plan has one
        // mask. When cpusets shrink, grow or appear, the kernel makes masks that contain at least
        // the original's CPUs outside of the shield.
        self.wanted.get(&id) == Some(&cpus) || original.difference(&shielded).is_subset(cpus)
    }

    /// Whether a task has a narrower mask because the housekeeping cpuset has lost CPUs.
    fn has_lost_cpus(&self, id: TaskId, cpus: &CpuSet) -> bool {
        let left = self.journal.applied.as_ref().and_then(|left| left.0.get(&id));
        self.scope.lost.may_have_narrowed(id, left, cpus)
    }

    /// Whether an earlier undo decided that a task gets this mask.
    fn has_set_before(&self, id: TaskId, cpus: &CpuSet) -> bool {
        let before = self.journal.undoing.as_ref();
        before.is_some_and(|before| before.masks.0.get(&id) == Some(cpus))
    }

    /// Finds the nearest ancestor that is older than the shield, with its original mask.
    fn ancestor_with_original(&self, task: &Task) -> Option<(TaskId, &CpuSet)> {
        let mut next = if task.pid == task.id.tid { task.parent } else { task.pid };
        // Bounded, because a recording may contain a cycle.
        for _ in 0..self.tasks.len() {
            let ancestor = self.tasks.get(&next)?;
            if let Some(original) = self.originals.0.get(&ancestor.id) {
                return Some((ancestor.id, original));
            }
            next = ancestor.parent;
        }
        None
    }

    /// The task itself if its original mask is known, otherwise the nearest ancestor with one.
    fn origin_of(&self, task: &Task) -> Option<TaskId> {
        let own = self.originals.0.contains_key(&task.id).then_some(task.id);
        own.or_else(|| self.ancestor_with_original(task).map(|(id, _)| id))
    }

    /// Returns the mask of a task; `None` when the task is gone. Where the online CPUs match a
    /// known mask of the task or its ancestor, the full mask is not read: the online part costs a
    /// tenth.
    fn mask(&self, host: &Host, task: &Task, online: Option<&CpuSet>) -> Result<Option<CpuSet>> {
        let Some(online) = online else { return present(host.affinity(task.id.tid)) };
        let Some(now) = present(host.online_affinity(task.id.tid))? else { return Ok(None) };
        let id = self.origin_of(task);
        let left = self.journal.applied.as_ref().map(|left| &left.0);
        let known = [Some(&self.originals.0), left].into_iter().flatten();
        let mut known = known.filter_map(|masks| masks.get(&id?));
        let is_mask =
            |mask: &&CpuSet| mask.intersection(online) == now && !mask.intersects(&self.offline);
        match known.find(is_mask) {
            Some(mask) => Ok(Some(mask.clone())),
            None => present(host.affinity(task.id.tid)),
        }
    }

    /// The original mask of the nearest ancestor that has one, if the task inherited its mask from
    /// one that we gave to the ancestor.
    fn inherited_original(&self, task: &Task, cpus: &CpuSet) -> Option<CpuSet> {
        let (id, original) = self.ancestor_with_original(task)?;
        let same = cpus != original && self.is_ours(id, cpus, original);
        same.then(|| original.clone())
    }
}

/// Whether a task is in the shield's own cgroup, which gave it its mask.
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
    /// Whether a step of the plan set the affinity of a task, or of the ancestor it inherits from.
    fn has_own_step(&self, task: &Task) -> bool {
        self.origin_of(task).is_some_and(|id| self.wanted.contains_key(&id))
    }

    /// Whether only cpusets of the shield can have narrowed a task to `cpus`: no step set its
    /// affinity, nor that of the ancestor it inherits from.
    fn is_narrowed_by_cpusets(
        &self,
        host: &Host,
        task: &Task,
        cpus: &CpuSet,
        target: &CpuSet,
    ) -> bool {
        let shield = &self.scope.shield;
        !self.has_own_step(task)
            && cpus.is_subset(target)
            && !follows_interrupt(task)
            && !is_in_shield(host, task.id, cpus, shield)
    }
}

/// What undo does with the mask of one task.
enum AffinityDecision {
    /// The mask is ours: replace it with this one.
    Set(CpuSet),
    /// Another process changed the mask that we had set: leave it.
    Drift,
    /// The shield did not change the mask: leave it.
    Keep,
}

impl UndoSnapshot<'_> {
    /// The decision for a task. CPUs of shields that stay are left out of its mask.
    fn decide(&self, host: &Host, task: &Task, cpus: &CpuSet) -> AffinityDecision {
        if self.scope.others.iter().any(|other| is_in_shield(host, task.id, cpus, other)) {
            return AffinityDecision::Keep;
        }
        // The housekeeping cpuset stays, and has no other CPUs.
        if !self.scope.others.is_empty() && self.has_lost_cpus(task.id, cpus) {
            return AffinityDecision::Keep;
        }
        if let Some(other) = &self.scope.other_version {
            // A program that stays in the group, on a CPU that only the leaving version has.
            let cpus_of_both = other.cpus.union(&self.scope.shield.cpus);
            let both = Shield { cpus: cpus_of_both, ..other.clone() };
            if is_in_shield(host, task.id, cpus, &both) {
                return AffinityDecision::Keep;
            }
        }
        match self.decide_alone(host, task, cpus) {
            AffinityDecision::Set(target) => {
                let id = self.origin_of(task).unwrap_or(task.id);
                AffinityDecision::Set(self.scope.keep_off_others(&target, id))
            }
            decision => decision,
        }
    }

    /// The decision for a task as if no other shield stayed.
    fn decide_alone(&self, host: &Host, task: &Task, cpus: &CpuSet) -> AffinityDecision {
        let shield = &self.scope.shield;
        let original = self.originals.0.get(&task.id);
        if is_in_shield(host, task.id, cpus, shield) {
            let ancestor = || self.ancestor_with_original(task).map(|(_, original)| original);
            let outside = original.or_else(ancestor).cloned();
            return AffinityDecision::Set(
                outside.unwrap_or_else(|| shield.cpus.union(&shield.housekeeping)),
            );
        }
        let before = self.journal.undoing.as_ref();
        if let Some(decision) = before.and_then(|before| self.decide_again(before, task, cpus)) {
            return decision;
        }
        match original {
            // The kernel moves the thread of an interrupt with the interrupt.
            Some(original) if follows_interrupt(task) => AffinityDecision::Set(original.clone()),
            Some(original) if cpus == original => AffinityDecision::Keep,
            Some(original) if self.is_ours(task.id, cpus, original) => {
                AffinityDecision::Set(original.clone())
            }
            Some(_) => AffinityDecision::Drift,
            // Apply saw neither the task nor an ancestor, perhaps in another PID namespace.
            None if (*cpus == shield.housekeeping || self.has_lost_cpus(task.id, cpus))
                && self.ancestor_with_original(task).is_none() =>
            {
                AffinityDecision::Set(self.scope.free_cpus().union(&self.scope.cpus_of_others()))
            }
            None => self
                .inherited_original(task, cpus)
                .map_or(AffinityDecision::Keep, AffinityDecision::Set),
        }
    }

    /// The decision of an earlier undo, if the mask was not changed since; `None` when that undo
    /// was interrupted and did not know the task.
    fn decide_again(
        &self,
        before: &UndoDecision,
        task: &Task,
        cpus: &CpuSet,
    ) -> Option<AffinityDecision> {
        let id = task.id;
        let ours = before.masks.0.get(&id);
        let target = ours.or_else(|| before.kept.0.get(&id));
        if let Some(done) = &self.journal.affinities {
            let Some(left) = done.pending.0.get(&id) else { return Some(AffinityDecision::Keep) };
            let target = target.filter(|_| left == cpus || follows_interrupt(task));
            return Some(target.cloned().map_or(AffinityDecision::Drift, AffinityDecision::Set));
        }
        let target = target?;
        let was = if ours.is_some() { before.was.0.get(&id) } else { Some(target) };
        let known = cpus == target
            || was.is_none_or(|was| was == cpus)
            || self.scope.foreign.may_have_narrowed(target, cpus);
        Some(if known || is_widened(&self.scope.closed, cpus, target) || follows_interrupt(task) {
            AffinityDecision::Set(target.clone())
        } else if ours.is_some() {
            AffinityDecision::Drift
        } else {
            AffinityDecision::Keep
        })
    }
}

/// Whether the kernel may have widened a mask to `now` when cpusets grew: then it has all CPUs of
/// its cpuset, including those that were closed to it.
pub(super) fn is_widened(closed: &CpuSet, now: &CpuSet, mask: &CpuSet) -> bool {
    mask.is_subset(now) && now != mask && now.intersects(closed)
}

/// Whether a task is the thread of an interrupt, which the kernel moves with the interrupt.
pub(super) fn follows_interrupt(task: &Task) -> bool {
    task.kthread && task.comm.starts_with("irq/")
}

/// Decides which mask every task gets after everything else is undone: the original where the mask
/// is still ours, the current mask where another process changed it, and for newer tasks the mask
/// that they would have inherited. `tasks` is a fresh list.
///
/// # Errors
/// `/proc` cannot be read.
pub(super) fn decide(
    host: &Host,
    journal: &ApplyJournal,
    scope: &UndoScope,
    tasks: Vec<Task>,
) -> Result<UndoDecision> {
    let originals = originals(journal);
    let mut undoing = UndoDecision::default();
    if originals.0.is_empty() {
        return Ok(undoing);
    }
    let online = host.online_cpus().ok();
    let now = UndoSnapshot::new(journal, scope, originals, tasks, online.as_ref());
    // A shielded CPU may be offline now; cpusets give it back when it is online again.
    let all = online.as_ref().map(|online| online.union(&scope.shield.cpus));
    for task in now.tasks.values().filter(|task| !task.bound && Some(task.pid) != host.own_pid()) {
        let Some(cpus) = now.mask(host, task, online.as_ref())? else { continue };
        match now.decide(host, task, &cpus) {
            AffinityDecision::Set(target) => {
                if now.is_narrowed_by_cpusets(host, task, &cpus, &target) {
                    undoing.limited.push(task.id);
                }
                undoing.masks.0.insert(task.id, target);
                // The kernel gives it others where its former group has lost CPUs.
                let was = (!scope.moved_in.contains(&task.pid)).then_some((task.id, cpus));
                undoing.was.0.extend(was);
                continue;
            }
            AffinityDecision::Drift => undoing.drifted.push(task.id),
            // An earlier undo that was not complete has set it.
            AffinityDecision::Keep if now.has_set_before(task.id, &cpus) => {
                undoing.masks.0.insert(task.id, cpus.clone());
                undoing.was.0.insert(task.id, cpus);
                continue;
            }
            AffinityDecision::Keep => {}
        }
        // A task in the partition of another program has its CPUs as long as it is in there.
        let is_all = all.as_ref().is_some_and(|all| all.is_subset(&cpus));
        if !is_all && !cpus.is_subset(&scope.foreign.cpus) {
            undoing.kept.0.insert(task.id, cpus);
        }
    }
    Ok(undoing)
}

/// Returns the masks that these tasks would have without the shield's cpusets. Tasks whose mask
/// does not come from those cpusets are left out.
///
/// # Errors
/// `/proc` cannot be read.
pub(super) fn masks_without_cpusets(
    host: &Host,
    journal: &ApplyJournal,
    scope: &UndoScope,
    tasks: &[(Task, CpuSet)],
) -> Result<TaskMasks> {
    let originals = originals(journal);
    let (online, mut masks) = (host.online_cpus().ok(), TaskMasks::default());
    let now = UndoSnapshot::new(journal, scope, originals, host.tasks()?, online.as_ref());
    for (task, cpus) in tasks.iter().filter(|(task, _)| !now.has_own_step(task)) {
        if let AffinityDecision::Set(target) = now.decide(host, task, cpus) {
            masks.0.insert(task.id, target);
        }
    }
    Ok(masks)
}
