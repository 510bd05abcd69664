//! The programs in a shield when it is replaced with another version: which of them would have no
//! place, and which CPUs the others get. While the kernel moves them, its threads are above the
//! real-time ones on every CPU of both versions.

use super::demoted;
use super::order::{PRIORITY_MAX, order};
use super::raise;
use super::record::{self, AddedThread, OpenRecord, PriorityNeed};
use super::task_lookup::{cgroup_of, find_task};
use super::thread_in_the_way::{NoPlaceReason, ThreadInTheWay};
use super::{RunError, ShieldPlacement};
use crate::apply;
use crate::documents::applied::ShieldNote;
use crate::documents::plan::{Plan, Shield};
use crate::documents::process_note::ProcessNote;
use cpushield_linux::{CpuSet, Host, SchedPolicy, Store, Task, TaskId};
use std::collections::BTreeMap;

/// `SCHED_DEADLINE` (include/uapi/linux/sched.h, 6.12).
const DEADLINE: u32 = 6;

/// A thread in a shield.
#[derive(Debug)]
struct ProgramThread {
    task: Task,
    /// Its CPUs in the old version.
    now: CpuSet,
    /// Its CPUs in the new version.
    wanted: CpuSet,
}

/// The threads in a shield, with the CPUs that each gets from the new version.
#[derive(Debug)]
pub struct VersionChange {
    place: ShieldPlacement,
    /// The CPUs of the old version.
    old: CpuSet,
    /// The CPUs of the new version.
    new: CpuSet,
    /// Whether the new version has a group for programs, if the old one has.
    keeps_group: bool,
    threads: Vec<ProgramThread>,
    /// The needs that are on record only during the change.
    needs: Vec<PriorityNeed>,
    /// The entries of added threads before.
    added: Vec<AddedThread>,
    /// Threads that the new version has no place for.
    pub in_the_way: Vec<ThreadInTheWay>,
}

impl VersionChange {
    /// Looks at the threads in the shield of the old plan. The new plan is for the same shield.
    ///
    /// # Errors
    /// The threads cannot be read.
    pub fn new(host: &Host, old: &Plan, new: &Plan) -> Result<VersionChange, RunError> {
        let place = ShieldPlacement::new(host, old);
        let keeps_group = place.group.is_none() || has_group(new);
        let members = threads_in(host, &place, &old.shield.cpus)?;
        let mut cpus = NewCpus::new(&place, &old.shield, &new.shield, &members);
        let (mut threads, mut in_the_way) = (Vec::new(), Vec::new());
        for (task, now) in members {
            let reason = match () {
                () if !keeps_group => Some(NoPlaceReason::NoGroup),
                () => find_reason(&task, &now, &old.shield, &new.shield),
            };
            in_the_way.extend(reason.map(|reason| thread_in_the_way(&task, reason)));
            let wanted = cpus.choose(host, &task, &now);
            threads.push(ProgramThread { task, now, wanted });
        }
        let (old, new) = (old.shield.cpus.clone(), new.shield.cpus.clone());
        let (needs, added) = (Vec::new(), Vec::new());
        Ok(VersionChange { place, old, new, keeps_group, threads, needs, added, in_the_way })
    }

    /// Prepares the threads for a move by the kernel, which puts them on any CPU of the group:
    /// raises the kernel's threads above the real-time ones there. Those without a place in the new
    /// version become ordinary ones. Call [`VersionChange::finish`] or [`VersionChange::cancel`]
    /// after it.
    ///
    /// # Errors
    /// A kernel thread cannot be raised; then nothing has changed. Or the record cannot be written.
    pub fn prepare(&mut self, host: &Host, store: &Store) -> Result<Vec<ShieldNote>, RunError> {
        if !self.keeps_group {
            let threads = self.threads.iter().map(|thread| &thread.task);
            return demoted::demote(host, store, &self.place, threads);
        }
        if self.old == self.new {
            return Ok(Vec::new());
        }
        let mut open = record::open(host, store)?;
        self.record_both_versions(host, &mut open)?;
        let Err(error) = self.raise(host, &mut open) else { return Ok(Vec::new()) };
        drop(open);
        self.cancel(host, store);
        Err(error)
    }

    /// Records for added threads the CPUs of both versions, and as their original mask the one
    /// without any shield: the current one is a result of the old version.
    fn record_both_versions(
        &mut self,
        host: &Host,
        open: &mut OpenRecord<'_>,
    ) -> Result<(), RunError> {
        let threads = self.threads.iter().filter_map(|thread| {
            let mut added = open.record.added.iter().filter(|added| added.is_in(&self.place));
            let added = added.find(|added| added.task == thread.task.id)?;
            Some((added.clone(), thread))
        });
        let threads: Vec<(AddedThread, &ProgramThread)> = threads.collect();
        let masks = threads.iter().map(|(added, it)| (it.task.clone(), added.affinity.clone()));
        let masks: Vec<(Task, CpuSet)> = masks.collect();
        let whole = match self.place.group {
            Some(_) => apply::masks_without_cpusets(host, open.store(), &self.place.name, &masks)
                .unwrap_or_default(),
            None => BTreeMap::new(),
        };
        for (before, thread) in threads {
            let entries = open.record.added.iter_mut();
            for added in entries.filter(|added| **added == before) {
                added.given = added.given.union(&thread.wanted);
                let original = whole.get(&added.task);
                added.affinity = original.unwrap_or(&before.affinity).clone();
            }
            self.added.push(before);
        }
        open.save()
    }

    /// Raises the kernel's threads above all programs of the shield, on the CPUs of both versions.
    fn raise(&mut self, host: &Host, open: &mut OpenRecord<'_>) -> Result<(), RunError> {
        let cpus = self.old.union(&self.new);
        let known = open.record.needs.iter().filter(|need| self.is_old_need(need));
        let mut needs: Vec<PriorityNeed> = known.cloned().collect();
        for thread in &self.threads {
            // Skips a thread that has ended.
            let Ok(policy) = host.scheduling(thread.task.id.tid) else { continue };
            let (task, priority) = (thread.task.id, policy.rt_priority());
            needs.push(PriorityNeed { task, cpus: cpus.clone(), priority });
        }
        needs.retain(|need| need.priority > 0);
        needs.iter_mut().for_each(|need| need.cpus.clone_from(&cpus));
        let Some(highest) = needs.iter().max_by_key(|need| need.priority).cloned() else {
            return Ok(());
        };
        self.needs.clone_from(&needs);
        needs.retain(|need| *need != highest);
        open.record.needs.extend(needs);
        let asked = SchedPolicy::Fifo { priority: highest.priority };
        let order = order(asked, &cpus, &raise::threads(host, &cpus)?);
        let raised = raise::raise(host, open, &order, &cpus, highest.task);
        raised.map_err(|error| match (error, host.task(highest.task.tid, highest.task.tid)) {
            (RunError::DangerousRequest { why, .. }, Ok(task)) => {
                let thread = thread_in_the_way(&task, NoPlaceReason::KernelThreads { why });
                RunError::InTheWay { shield: self.place.name.clone(), threads: vec![thread] }
            }
            (error, _) => error,
        })
    }

    /// Whether a need is that of a program in the old version.
    fn is_old_need(&self, need: &PriorityNeed) -> bool {
        !need.cpus.is_empty() && need.cpus.is_subset(&self.old)
    }

    /// Gives each thread its CPUs, after the new version was applied, and lowers the kernel's
    /// threads where no program is left. Returns notes about what failed.
    #[must_use]
    pub fn finish(self, host: &Host, store: &Store) -> Vec<ShieldNote> {
        if !self.keeps_group {
            let forgotten = demoted::forget(host, store, &self.place.name);
            let error = forgotten.err().map(|error| error.to_string());
            return Vec::from_iter(error.map(|error| ShieldNote::ProgramsNotRecorded { error }));
        }
        let is_added = |id: TaskId| self.added.iter().any(|added| added.task == id);
        let wanted = self.threads.iter().map(|ProgramThread { task, wanted, .. }| {
            // Kernels since 6.2 remember the CPUs that it requested, some of which may be ordinary
            // ones now. It would get those instead of all when it leaves.
            let is_new = is_added(task.id) || !has_cpus(host, task, wanted);
            is_new.then_some((task, wanted))
        });
        let notes = place_threads(host, wanted.flatten());
        let mut notes: Vec<ShieldNote> = notes.into_iter().map(ShieldNote::from).collect();
        if self.old != self.new
            && let Err(error) = self.record_new_cpus(host, store)
        {
            notes.push(ShieldNote::ProgramsNotRecorded { error: error.to_string() });
        }
        notes
    }

    fn record_new_cpus(&self, host: &Host, store: &Store) -> Result<(), RunError> {
        let mut open = record::open(host, store)?;
        for added in open.record.added.iter_mut().filter(|added| added.is_in(&self.place)) {
            let thread = self.threads.iter().find(|thread| thread.task.id == added.task);
            if let Some(thread) = thread {
                added.given.clone_from(&thread.wanted);
            }
        }
        self.remove_needs(&mut open);
        for need in open.record.needs.iter_mut().filter(|need| self.is_old_need(need)) {
            need.cpus = self.new_cpus_of(&need.cpus);
        }
        self.forget_cpus(host, &mut open, &self.old.difference(&self.new));
        open.save()?;
        raise::lower_unneeded(host, &mut open, None).map(drop)
    }

    /// The CPUs in the new version of programs that had these in the old one.
    fn new_cpus_of(&self, cpus: &CpuSet) -> CpuSet {
        let threads = self.threads.iter().filter(|thread| thread.now.is_subset(cpus));
        let wanted: CpuSet = threads.map(|thread| &thread.wanted).collect();
        if wanted.is_empty() { self.new.clone() } else { wanted }
    }

    fn remove_needs(&self, open: &mut OpenRecord<'_>) {
        for need in &self.needs {
            let needs = &mut open.record.needs;
            if let Some(at) = needs.iter().rposition(|known| known == need) {
                needs.remove(at);
            }
        }
    }

    /// Forgets that threads were raised for CPUs that no program of the shield has now. Other
    /// programs may use these.
    fn forget_cpus(&self, host: &Host, open: &mut OpenRecord<'_>, cpus: &CpuSet) {
        let still = self.threads.iter().filter_map(|it| host.affinity(it.task.id.tid).ok());
        let left = still.fold(cpus.clone(), |left, still| left.difference(&still));
        for raised in &mut open.record.raised {
            raised.cpus = raised.cpus.difference(&left);
        }
    }

    /// Restores the CPUs of each thread, after the new version could not be applied, and lowers the
    /// kernel's threads. The failure of the change is reported; what cannot be restored stays on
    /// record.
    pub fn cancel(&self, host: &Host, store: &Store) {
        let before = self.threads.iter().map(|ProgramThread { task, now, .. }| {
            (!has_cpus(host, task, now)).then_some((task, now))
        });
        drop(place_threads(host, before.flatten()));
        let Ok(mut open) = record::open(host, store) else { return };
        drop(demoted::restore(host, &mut open, &self.place));
        for before in &self.added {
            let added = open.record.added.iter_mut().filter(|added| added.task == before.task);
            added.for_each(|added| added.clone_from(before));
        }
        self.remove_needs(&mut open);
        self.forget_cpus(host, &mut open, &self.new.difference(&self.old));
        drop(open.save().and_then(|()| raise::lower_unneeded(host, &mut open, None)));
    }
}

fn has_cpus(host: &Host, task: &Task, cpus: &CpuSet) -> bool {
    host.affinity(task.id.tid).is_ok_and(|now| now == *cpus)
}

/// Gives threads their CPUs. Kernels before 6.2 forget the affinities of threads
/// when their cpuset changes. Returns notes about what was refused.
pub(super) fn place_threads<'a>(
    host: &Host,
    threads: impl Iterator<Item = (&'a Task, &'a CpuSet)>,
) -> Vec<ProcessNote> {
    let mut notes = Vec::new();
    for (task, wanted) in threads.filter(|(task, _)| host.is_same_task(task.id)) {
        match host.set_affinity(task.id.tid, wanted) {
            Err(error) if !error.is_absent() => {
                let (comm, tid, answer) = (task.comm.clone(), task.id.tid, error.reason());
                notes.push(ProcessNote::AffinityRefused { comm, tid, answer });
            }
            Ok(()) | Err(_) => {}
        }
    }
    notes
}

fn thread_in_the_way(task: &Task, reason: NoPlaceReason) -> ThreadInTheWay {
    ThreadInTheWay { tid: task.id.tid, comm: task.comm.clone(), reason }
}

/// Why a thread has no place in a version that has a group.
fn find_reason(task: &Task, now: &CpuSet, old: &Shield, new: &Shield) -> Option<NoPlaceReason> {
    let left = now.intersection(&new.cpus.difference(&new.idle_siblings));
    match () {
        () if old.cpus == new.cpus => None,
        () if task.policy == DEADLINE => Some(NoPlaceReason::Deadline),
        () if task.rt_priority > PRIORITY_MAX => {
            Some(NoPlaceReason::NoPriorityAbove { priority: task.rt_priority })
        }
        () if left.is_empty() => Some(NoPlaceReason::NoCpuLeft { affinity: now.clone() }),
        () => None,
    }
}

/// Chooses CPUs of a new version for threads of the old one.
struct NewCpus<'a> {
    place: &'a ShieldPlacement,
    old: &'a Shield,
    balanced: bool,
    cpus: CpuSet,
    /// The threads that have only this CPU.
    load: BTreeMap<usize, usize>,
    /// The new CPU of a process that had only one.
    chosen: BTreeMap<(i32, usize), usize>,
}

impl<'a> NewCpus<'a> {
    fn new(
        place: &'a ShieldPlacement,
        old: &'a Shield,
        new: &Shield,
        members: &[(Task, CpuSet)],
    ) -> NewCpus<'a> {
        let cpus = new.cpus.difference(&new.idle_siblings);
        let mut load: BTreeMap<usize, usize> = cpus.iter().map(|cpu| (cpu, 0)).collect();
        let single = members.iter().filter(|(_, now)| now.len() == 1);
        for cpu in single.filter_map(|(_, now)| now.first()) {
            load.entry(cpu).and_modify(|threads| *threads += 1);
        }
        NewCpus { place, old, balanced: new.balanced, cpus, load, chosen: BTreeMap::new() }
    }

    /// The CPUs of a thread. One that could use every CPU of the shield still can, and one that had
    /// one CPU has one.
    fn choose(&mut self, host: &Host, task: &Task, now: &CpuSet) -> CpuSet {
        let left = now.intersection(&self.cpus);
        match (now.first(), left.is_empty()) {
            _ if self.is_free(host, task, now) => self.cpus.clone(),
            (_, false) => left,
            (Some(cpu), true) if now.len() == 1 && !self.balanced => {
                self.choose_one(task.pid, cpu).map_or_else(|| self.cpus.clone(), CpuSet::single)
            }
            _ => self.cpus.clone(),
        }
    }

    /// Whether a thread may use every CPU of the old version. In an unbalanced shield with one CPU,
    /// `run` and `add` have given it that CPU on purpose, but systemd gives services all of them.
    fn is_free(&self, host: &Host, task: &Task, now: &CpuSet) -> bool {
        let is_in_unit = || {
            let group = self.place.group.as_ref()?;
            let dir = cgroup_of(host, group, self.place.v2, task).ok()?;
            Some(self.place.unit_of(&dir).is_some())
        };
        let several = self.place.cpus.len() > 1 || self.old.balanced || task.policy == DEADLINE;
        self.place.cpus.is_subset(now) && (several || is_in_unit().unwrap_or(false))
    }

    /// The CPU with the fewest threads, the same for all threads of a process that shared one.
    fn choose_one(&mut self, pid: i32, cpu: usize) -> Option<usize> {
        if let Some(chosen) = self.chosen.get(&(pid, cpu)) {
            return Some(*chosen);
        }
        let (least, threads) =
            self.load.iter_mut().min_by_key(|(cpu, threads)| (**threads, **cpu))?;
        *threads += 1;
        self.chosen.insert((pid, cpu), *least);
        Some(*least)
    }
}

fn has_group(plan: &Plan) -> bool {
    let group = plan.shield.group();
    plan.steps.iter().any(|step| step.change.is_about_group(&group))
}

/// The threads in a shield with their affinities: those in its group, or without a group those that
/// may run on its CPUs only.
pub(super) fn threads_in(
    host: &Host,
    place: &ShieldPlacement,
    cpus: &CpuSet,
) -> Result<Vec<(Task, CpuSet)>, RunError> {
    let tasks: Vec<Task> = match &place.group {
        Some(_) => {
            let members = place.members(host)?.into_iter();
            members.filter_map(|tid| find_task(host, tid).ok()).collect()
        }
        None => host.tasks()?.into_iter().filter(|task| !task.kthread).collect(),
    };
    let placed = tasks.into_iter().filter_map(|task| {
        let affinity = host.affinity(task.id.tid).ok()?;
        let inside = place.group.is_some() || affinity.is_subset(cpus);
        (inside && !affinity.is_empty()).then_some((task, affinity))
    });
    Ok(placed.collect())
}
