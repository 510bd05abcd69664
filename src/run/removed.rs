//! Moves programs out of the shield: back to where they were before they were added, by the record,
//! or to the caller's cgroup when they were started in the shield (`destination`).

use super::destination::{Destination, StartedRemoval, find_destination};
use super::order::PRIORITY_MAX;
use super::placement::check_move;
use super::record::{AddedThread, OpenRecord};
use super::task_lookup::{belongs_to, cgroup_of, find_task, has_ended, move_to_group, threads_of};
use super::{RunError, ShieldPlacement, demoted, lock_limits, raise, record};
use crate::apply;
use crate::documents::moved_process::MovedProcess;
use crate::documents::plan::Plan;
use crate::documents::process_note::ProcessNote;
use crate::documents::shield_status::{ShieldWork, UnfinishedWork};
use crate::with_text;
use cpushield_linux::error::present;
use cpushield_linux::{CpuSet, Host, SchedPolicy, Store, Task, TaskId};
use serde::Serialize;
use std::collections::BTreeMap;

/// A process or thread to move out of the shield.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Removal {
    /// Its number.
    pub tid: i32,
    /// When it was started; `None` for the task that has the number now, whichever it is.
    pub started: Option<u64>,
    /// Where it goes if it was started in the shield.
    pub destination: Destination,
}

/// Moves a process or thread out of the shield, to where it was before it was added. One that was
/// started in the shield moves to the caller's cgroup, as an ordinary program.
///
/// # Errors
/// The task is not in the shield, or the kernel refused.
pub fn remove(
    host: &Host,
    store: &Store,
    place: &ShieldPlacement,
    tid: i32,
) -> Result<MovedProcess, RunError> {
    let removal = Removal { tid, started: None, destination: Destination::Caller };
    remove_to(host, store, place, removal)
}

/// The same for any removal.
pub(super) fn remove_to(
    host: &Host,
    store: &Store,
    place: &ShieldPlacement,
    removal: Removal,
) -> Result<MovedProcess, RunError> {
    let Removal { tid, started, destination } = removal;
    // The wait for the lock comes first: during it the number may get another task.
    let mut open = record::open(host, store)?;
    let absent = || RunError::Task { tid, why: "does not exist".to_owned(), hint: None };
    let task = present(find_task(host, tid))?.ok_or_else(absent)?;
    if started.is_some_and(|started| started != task.id.started) {
        return Err(absent());
    }
    open.forget_ended(host);
    if open.record.added.iter().any(|added| is_entry_of(added, place, &task)) {
        let gone_group = match destination {
            Destination::Caller => GoneGroup::ToRoot,
            Destination::OfUser { .. } => {
                let added = &mut open.record.added;
                replace_gone_group(host, (store, place), &task, destination, added)?;
                GoneGroup::Refused
            }
        };
        let (threads, notes) = move_out(host, &mut open, place, &task, gone_group)?;
        let cpus = host.affinity(tid)?;
        return Ok(MovedProcess { tid, comm: task.comm, threads, cpus, notes });
    }
    if !place.members(host)?.contains(&tid) {
        let (why, hint) = ("is not in the shield".to_owned(), None);
        return Err(RunError::Task { tid, why, hint });
    }
    move_started(host, &mut open, place, &task, destination)
}

fn active_placements(host: &Host, store: &Store) -> Result<Vec<ShieldPlacement>, RunError> {
    let plans = super::all_active(host, store)?;
    Ok(plans.iter().map(|plan| ShieldPlacement::new(host, plan)).collect())
}

/// What happens to a program if the group that it came from is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GoneGroup {
    /// It moves to the root group, which has no limits.
    ToRoot,
    /// It stays in the shield. A user can remove the group, and must not lose its limits with it.
    Refused,
}

/// Replaces the group that a program came from, if it is gone, by one with the limits of its user.
///
/// # Errors
/// As [`find_destination`].
fn replace_gone_group(
    host: &Host,
    (store, place): (&Store, &ShieldPlacement),
    task: &Task,
    destination: Destination,
    added: &mut [AddedThread],
) -> Result<(), RunError> {
    let first = added.iter().find(|added| is_entry_of(added, place, task));
    let gone = first.and_then(|first| first.group.clone()).filter(|group| !host.exists(group));
    let (Some(shield), Some(gone)) = (&place.group, gone) else { return Ok(()) };
    let shields = active_placements(host, store)?;
    let removal = StartedRemoval { destination, added, shields: &shields };
    let group = find_destination(host, (shield, place.v2), task, &removal)?;
    let entries = added.iter_mut().filter(|added| is_entry_of(added, place, task));
    for entry in entries.filter(|entry| entry.group.as_ref() == Some(&gone)) {
        entry.group = Some(group.clone());
    }
    Ok(())
}

/// Whether an entry says that a task was added to the shield.
fn is_entry_of(added: &AddedThread, place: &ShieldPlacement, task: &Task) -> bool {
    belongs_to(added, task) && added.is_in(place)
}

/// Moves a program that was started in the shield out of it.
fn move_started(
    host: &Host,
    open: &mut OpenRecord<'_>,
    place: &ShieldPlacement,
    task: &Task,
    destination: Destination,
) -> Result<MovedProcess, RunError> {
    let threads = threads_of(host, task)?;
    let masks = threads.iter().map(|thread| (thread.clone(), host.affinity(thread.id.tid)));
    let masks: Vec<_> = masks.filter_map(|(thread, mask)| Some((thread, mask.ok()?))).collect();
    let requests = ReleaseRequest::new(host, open.store(), place, &masks);
    let shields = active_placements(host, open.store())?;
    let group = match &place.group {
        Some(shield) => {
            check_move(host, shield)?;
            let added = &open.record.added;
            let removal = StartedRemoval { destination, added, shields: &shields };
            Some(find_destination(host, (shield, place.v2), task, &removal)?)
        }
        None => None,
    };
    // One that was there before the shield keeps its policy.
    let made_ordinary = match place.residents.contains(&task.pid) {
        true => Vec::new(),
        false => make_ordinary(host, task)?,
    };
    let made_ordinary = made_ordinary.into_iter();
    let notes = made_ordinary.map(|(tid, policy)| ProcessNote::MadeOrdinary { tid, policy });
    let notes = notes.collect();
    lock_limits::restore(host, open, task.pid)?;
    if let Some(group) = group {
        move_to_group(host, &group, task)?;
    }
    for thread in &threads {
        match requests.set_affinity(host, thread.id, &place.housekeeping) {
            Err(error) if !has_ended(&error) => return Err(error),
            _ => {}
        }
    }
    open.save()?;
    let (tid, comm, cpus) = (task.id.tid, task.comm.clone(), host.affinity(task.id.tid)?);
    Ok(MovedProcess { tid, comm, threads: threads.len(), cpus, notes })
}

/// Restores the recorded state of a process or thread, and removes it from the record. Returns the
/// number of restored threads and notes.
pub(super) fn move_out(
    host: &Host,
    open: &mut OpenRecord<'_>,
    place: &ShieldPlacement,
    task: &Task,
    gone_group: GoneGroup,
) -> Result<(usize, Vec<ProcessNote>), RunError> {
    let own_entries = open.record.added.iter().filter(|added| is_entry_of(added, place, task));
    let entries: Vec<AddedThread> = own_entries.cloned().collect();
    let mut notes = Vec::new();
    let mut failed = None;
    if entries.iter().any(|entry| entry.granted) {
        make_ordinary(host, task)?;
    }
    if !entries.is_empty() {
        lock_limits::restore(host, open, task.pid)?;
    }
    let in_shield = read_masks(host, task)?;
    let mut moved = false;
    if let Some(first) = entries.first() {
        match move_back(host, place, (first, gone_group), task, &mut notes) {
            Ok(has_moved) => moved = has_moved,
            Err(error) if has_ended(&error) => {}
            Err(error) => failed = Some(error),
        }
    }
    let still_in = failed.is_some();
    let (mut restored, mut unrestored) = (0, Vec::new());
    // A thread that was created in the shield gets what the first one had.
    let mut threads = Vec::new();
    for thread in threads_of(host, task)? {
        let own_entry = entries.iter().find(|added| added.task == thread.id);
        if let Some(entry) = own_entry.or(entries.first()) {
            threads.push((thread, entry.clone()));
        }
    }
    let masks: Vec<_> =
        threads.iter().map(|(t, entry)| (t.clone(), entry.affinity.clone())).collect();
    let requests = ReleaseRequest::new(host, open.store(), place, &masks);
    let first = entries.first().filter(|_| moved && !place.v2);
    for (thread, entry) in &threads {
        // A thread that fails or ends during this does not stop the others.
        let in_group = first.map_or(Ok(()), |first| move_thread_back(host, first, entry));
        let was = in_shield.get(&thread.id);
        let restored_thread = in_group
            .and_then(|()| restore_thread(host, entry, (thread, was), &requests, &mut notes));
        match restored_thread {
            Ok(ours) => restored += usize::from(ours),
            Err(error) if has_ended(&error) => {}
            Err(error) => {
                unrestored.push(thread.id);
                failed = failed.or(Some(error));
            }
        }
    }
    open.record.added.retain(|added| {
        !is_entry_of(added, place, task) || still_in || unrestored.contains(&added.task)
    });
    if failed.is_none() {
        open.record.needs.retain(|need| need.task != task.id);
    }
    let lowered = raise::lower_unneeded(host, open, None)?;
    notes.extend(lowered.kept.into_iter().chain(lowered.drifted));
    open.save()?;
    match failed {
        Some(error) => Err(error),
        None => Ok((restored, notes)),
    }
}

/// The masks of the threads of a process. A move to a cpuset of cgroup v1 replaces them with its
/// CPUs (`cpuset_attach_task()`, kernel/cgroup/cpuset.c, 6.12).
fn read_masks(host: &Host, task: &Task) -> Result<BTreeMap<TaskId, CpuSet>, RunError> {
    let mut masks = BTreeMap::new();
    for thread in threads_of(host, task)? {
        if let Some(cpus) = present(host.affinity(thread.id.tid))? {
            masks.insert(thread.id, cpus);
        }
    }
    Ok(masks)
}

/// How often to look for real-time threads that were created since. Each time, their creators
/// are ordinary already. A program with a right of its own to such a priority can continue forever.
const ROUNDS: usize = 16;

/// Makes the real-time threads of a process ordinary ones, also those that are created during this:
/// a thread inherits the policy of its creator (sched(7)). Returns the policies that they had.
fn make_ordinary(host: &Host, task: &Task) -> Result<Vec<(i32, SchedPolicy)>, RunError> {
    let mut changed = Vec::new();
    for _ in 0..ROUNDS {
        let known = changed.len();
        for thread in threads_of(host, task)? {
            let tid = thread.id.tid;
            let Some(policy) = present(host.scheduling(tid))? else { continue };
            if policy.rt_priority() == 0 && !matches!(policy, SchedPolicy::Deadline { .. }) {
                continue;
            }
            if present(host.set_scheduling(tid, SchedPolicy::Other { nice: 0 }))?.is_some() {
                changed.push((tid, policy));
            }
        }
        if changed.len() == known {
            break;
        }
    }
    Ok(changed)
}

/// Moves a process or thread back to its cgroup, if it is still in the shield's. Returns whether it
/// has moved.
fn move_back(
    host: &Host,
    place: &ShieldPlacement,
    (added, gone_group): (&AddedThread, GoneGroup),
    task: &Task,
    notes: &mut Vec<ProcessNote>,
) -> Result<bool, RunError> {
    let (Some(shield), Some(group)) = (&place.group, &added.group) else { return Ok(false) };
    let now = cgroup_of(host, shield, place.v2, task)?;
    if !place.contains_group(&now) {
        if now != *group {
            notes.push(ProcessNote::GroupChanged { group: now });
        }
        return Ok(false);
    }
    check_move(host, shield)?;
    match move_to_group(host, group, task) {
        Err(error) if error.is_absent() && !host.exists(group) => {
            if gone_group == GoneGroup::Refused {
                return Err(RunError::NoDestination { tid: task.id.tid });
            }
            let mount = shield.rsplit_once('/').map_or("", |(mount, _)| mount);
            notes.push(ProcessNote::GroupGone { group: group.clone() });
            move_to_group(host, mount, task)?;
        }
        done => done?,
    }
    Ok(true)
}

/// Moves a thread of a process, which is in the group of `first` again, to the group that it had
/// itself. On cgroup v1 each thread may have its own: `tasks` takes single threads
/// (Documentation/admin-guide/cgroup-v1/cgroups.rst, 6.12). The process moves as a whole before, so
/// that no thread that is created in between stays in the shield.
fn move_thread_back(host: &Host, first: &AddedThread, added: &AddedThread) -> Result<(), RunError> {
    let Some(group) = added.group.as_ref().filter(|_| added.group != first.group) else {
        return Ok(());
    };
    match host.write(&format!("{group}/tasks"), &added.task.tid.to_string()) {
        Err(error) if error.is_absent() && !host.exists(group) => Ok(()),
        done => Ok(done?),
    }
}

/// The masks that threads request when they leave the shield.
struct ReleaseRequest<'a> {
    place: &'a ShieldPlacement,
    /// The mask that the kernel should remember for a thread, where it cannot have all of it yet.
    whole: BTreeMap<TaskId, CpuSet>,
}

impl ReleaseRequest<'_> {
    /// Makes the requests of threads with these masks outside of the shield, or in it.
    fn new<'a>(
        host: &Host,
        store: &Store,
        place: &'a ShieldPlacement,
        masks: &[(Task, CpuSet)],
    ) -> ReleaseRequest<'a> {
        // Without a cpuset nothing would keep them off the shield. An error must not keep a thread
        // in it.
        let known = place
            .group
            .as_ref()
            .and_then(|_| apply::masks_without_cpusets(host, store, &place.name, masks).ok());
        ReleaseRequest { place, whole: known.unwrap_or_default() }
    }

    /// Sets the mask of a thread. The kernel applies the part of the mask that the cpuset has now,
    /// and the rest when the shield is gone (`__sched_setaffinity()`, kernel/sched/core.c, 6.2).
    fn set_affinity(&self, host: &Host, id: TaskId, cpus: &CpuSet) -> Result<(), RunError> {
        let shield = self.place.cpus.union(&self.place.idle);
        if let Some(whole) = self.whole.get(&id)
            && host.set_affinity(id.tid, whole).is_ok()
            && !host.affinity(id.tid)?.intersects(&shield)
        {
            return Ok(());
        }
        Ok(host.set_affinity(id.tid, cpus)?)
    }
}

/// Restores the affinity and policy of a thread, which had the mask `was` before it left. Returns
/// whether its affinity was restored.
fn restore_thread(
    host: &Host,
    added: &AddedThread,
    (thread, was): (&Task, Option<&CpuSet>),
    requests: &ReleaseRequest<'_>,
    notes: &mut Vec<ProcessNote>,
) -> Result<bool, RunError> {
    let tid = thread.id.tid;
    let now = host.affinity(tid)?;
    // The mask is ours if it is, or was before the move, the given one or a CPU of it (spread), or
    // if it is the kernel's result of the move.
    let is_ours = |cpus: &CpuSet| cpus.is_subset(&added.given) || *cpus == added.affinity;
    let ours = is_ours(&now) || was.is_some_and(is_ours) || now == requests.place.housekeeping;
    if ours {
        requests.set_affinity(host, thread.id, &added.affinity)?;
    } else {
        notes.push(ProcessNote::AffinityChanged { comm: added.comm.clone(), tid, cpus: now });
    }
    if let Some(policy) = added.lowered_from.filter(|_| added.task == thread.id) {
        if host.scheduling(tid)?.rt_priority() == PRIORITY_MAX {
            host.set_scheduling(tid, policy)?;
        } else {
            notes.push(ProcessNote::PolicyChanged { comm: added.comm.clone(), tid });
        }
    }
    Ok(ours)
}

/// What was restored before an undo.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ReleasedPrograms {
    /// Processes that were moved back.
    pub back: Vec<MovedProcess>,
    /// Real-time programs that continue as ordinary ones, because nothing now protects the
    /// kernel from them.
    pub disarmed: Vec<String>,
    /// Kernel threads that have their original policy again.
    pub restored: Vec<String>,
    /// What could not be restored, and why.
    #[serde(with = "with_text::list")]
    pub notes: Vec<ProcessNote>,
}

/// The plan of the shield to release, the named one or the only one, where work was interrupted.
/// `None` where the programs were released before, or where undo refuses this shield.
fn interrupted_plan(
    host: &Host,
    store: &Store,
    name: Option<&str>,
    work: ShieldWork,
) -> Result<Option<Plan>, RunError> {
    // An undo had released the programs first; an apply or a change had not.
    if work == ShieldWork::Undo {
        return Ok(None);
    }
    let mut plans = apply::active_plans(host, store).map_err(RunError::Journal)?;
    plans.retain(|plan| name.is_none_or(|name| plan.shield.name == name));
    let (Some(plan), true) = (plans.pop(), plans.is_empty()) else { return Ok(None) };
    let unfinished = apply::unfinished_shield(host, store).map_err(RunError::Journal)?;
    Ok(unfinished.is_none_or(|name| name == plan.shield.name).then_some(plan))
}

/// Moves all programs out of a shield, the named one or the only one, and restores the kernel's
/// threads. Call it before undo. It does nothing where nothing is on record or in the group.
///
/// # Errors
/// The record cannot be read or written.
pub fn release(
    host: &Host,
    store: &Store,
    name: Option<&str>,
) -> Result<ReleasedPrograms, RunError> {
    let mut released = ReleasedPrograms::default();
    let plan = match super::active(host, store, name) {
        Err(RunError::Unfinished { unfinished: UnfinishedWork::Interrupted { work }, .. }) => {
            interrupted_plan(host, store, name, work)?
        }
        plan => plan?,
    };
    let place = plan.map(|plan| ShieldPlacement::new(host, &plan));
    let mut open = record::open(host, store)?;
    if let Some(place) = &place {
        demoted::restore(host, &mut open, place)?;
        let added = open.record.added.iter().filter(|added| added.is_in(place));
        let mut pids: Vec<i32> = added.map(|added| added.pid).collect();
        pids.sort_unstable();
        pids.dedup();
        for pid in pids {
            let Ok(task) = find_task(host, pid) else { continue };
            match move_out(host, &mut open, place, &task, GoneGroup::ToRoot) {
                Ok((0, notes)) => released.notes.extend(notes),
                Ok((threads, notes)) => {
                    let cpus = host.affinity(pid).unwrap_or_default();
                    released.back.push(MovedProcess {
                        tid: pid,
                        comm: task.comm,
                        threads,
                        cpus,
                        notes,
                    });
                }
                Err(error) => {
                    let (comm, error) = (task.comm, error.to_string());
                    released.notes.push(ProcessNote::NotMovedBack { comm, tid: pid, error });
                }
            }
        }
        released.notes.extend(lock_limits::restore_all(host, &mut open, &place.name));
        let before = crate::apply::lived_before(host, store).map_err(RunError::Journal)?;
        let demoted = raise::demote_programs(host, place, &|id| {
            before.as_ref().is_some_and(|before| !before.contains(&id))
        })?;
        // An ordinary program needs no kernel thread above it.
        let members = place.members(host)?;
        open.record.needs.retain(|need| !members.contains(&need.task.tid));
        open.save()?;
        released.disarmed = demoted.done;
        released.notes.extend(demoted.failed);
    }
    open.forget_ended(host);
    let lowered = raise::lower_unneeded(host, &mut open, None)?;
    released.restored = lowered.restored;
    released.notes.extend(lowered.kept.into_iter().chain(lowered.drifted));
    Ok(released)
}
