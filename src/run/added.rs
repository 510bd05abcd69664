//! Takes running processes into the shield and lets them out again, exactly to where they were: the
//! cgroup, the CPUs and the policy of every thread are on record before the first is moved.

use super::confine::confine;
use super::order::{PRIORITY_MAX, order};
use super::record::{AddedThread, OpenRecord};
use super::spread::ThreadSpread;
use super::{RunError, ShieldPlacement, limits, raise, record};
use crate::apply;
use cpushield_linux::{CpuSet, Host, SchedPolicy, Store, Task, TaskId};
use serde::Serialize;
use std::collections::BTreeMap;

/// How often a process is looked at again for threads that were born while it was moved.
const ROUNDS_MAX: usize = 10;

/// Which CPUs a process gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CpuAssignment {
    /// This one, or the one with fewest programs.
    One(Option<usize>),
    /// Its threads are spread over all of the shield.
    All,
}

/// What was done with one process or thread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MovedProcess {
    /// The process or thread asked for.
    pub tid: i32,
    /// Its name.
    pub comm: String,
    /// How many threads were moved.
    pub threads: usize,
    /// The CPUs they may run on now.
    pub cpus: CpuSet,
    /// What else was done or could not be done.
    pub notes: Vec<String>,
}

/// Takes a process (its number), or one thread of it where cgroups are of version 1, into the
/// shield.
///
/// # Errors
/// It is none that can be taken in; or the kernel refused, and it is back where it was.
pub fn add(
    host: &Host,
    store: &Store,
    place: &ShieldPlacement,
    tid: i32,
    onto: CpuAssignment,
) -> Result<MovedProcess, RunError> {
    let task = wanted(host, place, tid)?;
    let mut open = record::open(host, store)?;
    // Entries of what has ended are of no use to anybody.
    open.record.added.retain(|added| host.is_same_task(added.task));
    let cpus = match onto {
        CpuAssignment::All => place.cpus.clone(),
        CpuAssignment::One(cpu) => CpuSet::one(place.choose(host, cpu)?),
    };
    let mut spread = (onto == CpuAssignment::All).then(|| ThreadSpread::over(&cpus));
    match take_in(host, &mut open, place, &task, &cpus, spread.as_mut()) {
        Ok((threads, notes)) => Ok(MovedProcess { tid, comm: task.comm, threads, cpus, notes }),
        Err(error) => {
            // The first error is the one to tell; what cannot be put back stays on record.
            let _ = let_out(host, &mut open, place, &task);
            Err(error)
        }
    }
}

/// The task, when it is one that may be taken in.
fn wanted(host: &Host, place: &ShieldPlacement, tid: i32) -> Result<Task, RunError> {
    let refuse = |why: &str, hint: &str| {
        let hint = Some(hint.to_owned()).filter(|hint| !hint.is_empty());
        Err(RunError::Task { tid, why: why.to_owned(), hint })
    };
    let task = match find(host, tid) {
        Err(error) if error.is_absent() => return refuse("is not there", ""),
        found => found?,
    };
    if task.kthread {
        return refuse("is a kernel thread", "`cpushield plan` says which of them can be moved");
    }
    if task.pid == 1 || u32::try_from(task.pid) == Ok(std::process::id()) {
        return refuse("starts other programs, which would all be born in the shield", "");
    }
    if task.pid != tid && place.v2 {
        return refuse(
            &format!(
                "is a thread of process {}, and cgroup v2 moves whole processes only",
                task.pid
            ),
            &format!("add {} --spread places each of its threads on a CPU of its own", task.pid),
        );
    }
    if place.members(host)?.contains(&tid) {
        return refuse("is in the shield already", "");
    }
    Ok(task)
}

/// A task by its number, with its process.
fn find(host: &Host, tid: i32) -> Result<Task, cpushield_linux::Error> {
    let path = format!("/proc/{tid}/status");
    let text = host.read(&path)?;
    let pid = text.lines().find_map(|line| line.strip_prefix("Tgid:"));
    let pid = pid.and_then(|pid| pid.trim().parse().ok()).ok_or_else(|| {
        cpushield_linux::Error::malformed(&path, 0, "a line Tgid: with a number", "")
    })?;
    host.task(pid, tid)
}

/// The threads that go together: all of a process, or the one thread.
fn threads(host: &Host, task: &Task) -> Result<Vec<Task>, RunError> {
    if task.pid != task.id.tid {
        return Ok(vec![host.task(task.pid, task.id.tid)?]);
    }
    let names = host.list(&format!("/proc/{}/task", task.pid))?;
    let tids = names.iter().filter_map(|name| name.parse().ok());
    Ok(tids.filter_map(|tid| host.task(task.pid, tid).ok()).collect())
}

fn take_in(
    host: &Host,
    open: &mut OpenRecord<'_>,
    place: &ShieldPlacement,
    task: &Task,
    cpus: &CpuSet,
    mut spread: Option<&mut ThreadSpread>,
) -> Result<(usize, Vec<String>), RunError> {
    let mut notes = Vec::new();
    for _ in 0..ROUNDS_MAX {
        let known = |thread: &Task| open.record.added.iter().any(|added| added.task == thread.id);
        let fresh: Vec<Task> = threads(host, task)?.into_iter().filter(|t| !known(t)).collect();
        if fresh.is_empty() {
            break;
        }
        note_originals(host, open, place, &fresh, cpus)?;
        notes.extend(keep_kernel_above(host, open, task, &fresh, cpus)?);
        if let Some(group) = &place.group {
            let list = if task.pid == task.id.tid { "cgroup.procs" } else { "tasks" };
            host.write(&format!("{group}/{list}"), &task.id.tid.to_string())?;
        }
        for thread in &fresh {
            match confine(host, thread.id.tid, cpus) {
                Err(error) if !error.is_absent() => return Err(error.into()),
                _ => {}
            }
        }
        if let Some(spread) = &mut spread {
            spread.round(host, task.pid);
        }
    }
    let ours = open.record.added.iter().filter(|added| is_of(added, task)).count();
    Ok((ours, notes))
}

/// Whether the entry is one of those that go together with the task.
fn is_of(added: &AddedThread, task: &Task) -> bool {
    if task.pid == task.id.tid { added.pid == task.pid } else { added.task == task.id }
}

fn note_originals(
    host: &Host,
    open: &mut OpenRecord<'_>,
    place: &ShieldPlacement,
    threads: &[Task],
    cpus: &CpuSet,
) -> Result<(), RunError> {
    for thread in threads {
        let group = match &place.group {
            Some(group) => Some(group_of(host, group, place.v2, thread)?),
            None => None,
        };
        let affinity = host.affinity(thread.id.tid)?;
        let policy = host.scheduling(thread.id.tid)?;
        open.record.added.push(AddedThread {
            task: thread.id,
            pid: thread.pid,
            comm: thread.comm.clone(),
            group,
            affinity,
            lowered_from: (policy.rt_priority() > PRIORITY_MAX).then_some(policy),
            given: cpus.clone(),
        });
    }
    open.keep()
}

/// The directory of the cgroup a thread is in, in the hierarchy of the shield's group.
fn group_of(host: &Host, shield: &str, v2: bool, thread: &Task) -> Result<String, RunError> {
    let path = format!("/proc/{}/cgroup", thread.id.tid);
    let text = host.read(&path)?;
    let mount = shield.rsplit_once('/').map_or("", |(mount, _)| mount);
    let group = text.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, group) = (fields.next()?, fields.next()?);
        let ours = if v2 {
            controllers.is_empty()
        } else {
            controllers.split(',').any(|controller| controller == "cpuset")
        };
        ours.then(|| group.trim_end_matches('/').to_owned())
    });
    let group = group.ok_or_else(|| {
        cpushield_linux::Error::malformed(&path, 0, "a line of the hierarchy with cpusets", &text)
    })?;
    Ok(format!("{mount}{group}"))
}

/// Real-time threads are no danger to the kernel when they arrive.
fn keep_kernel_above(
    host: &Host,
    open: &mut OpenRecord<'_>,
    task: &Task,
    threads: &[Task],
    cpus: &CpuSet,
) -> Result<Vec<String>, RunError> {
    let mut highest = SchedPolicy::Other { nice: 0 };
    for thread in threads {
        let policy = host.scheduling(thread.id.tid)?;
        limits::check(policy)?;
        if policy.rt_priority() > highest.rt_priority() {
            highest = policy;
        }
    }
    if highest.rt_priority() == 0 {
        return Ok(Vec::new());
    }
    let order = order(highest, cpus, &raise::threads(host, cpus)?);
    raise::raise(host, open, &order, cpus, task.id)?;
    for thread in threads {
        let lowered = match host.scheduling(thread.id.tid)? {
            SchedPolicy::Fifo { priority } if priority > PRIORITY_MAX => {
                SchedPolicy::Fifo { priority: PRIORITY_MAX }
            }
            SchedPolicy::Rr { priority } if priority > PRIORITY_MAX => {
                SchedPolicy::Rr { priority: PRIORITY_MAX }
            }
            _ => continue,
        };
        host.set_scheduling(thread.id.tid, lowered)?;
    }
    Ok(order.sentences(highest))
}

/// Lets a process or thread out of the shield, to where it was before it was added. One that was
/// started in the shield goes where the caller is, as an ordinary program.
///
/// # Errors
/// It is not in the shield, or the kernel refused.
pub fn remove(
    host: &Host,
    store: &Store,
    place: &ShieldPlacement,
    tid: i32,
) -> Result<MovedProcess, RunError> {
    let task = match find(host, tid) {
        Err(error) if error.is_absent() => {
            let (why, hint) = ("is not there".to_owned(), None);
            return Err(RunError::Task { tid, why, hint });
        }
        found => found?,
    };
    let mut open = record::open(host, store)?;
    if open.record.added.iter().any(|added| is_of(added, &task)) {
        let (threads, notes) = let_out(host, &mut open, place, &task)?;
        let cpus = host.affinity(tid)?;
        return Ok(MovedProcess { tid, comm: task.comm, threads, cpus, notes });
    }
    if !place.members(host)?.contains(&tid) {
        let (why, hint) = ("is not in the shield".to_owned(), None);
        return Err(RunError::Task { tid, why, hint });
    }
    expel(host, store, place, &task)
}

/// Moves a program that was started in the shield to where the caller is.
fn expel(
    host: &Host,
    store: &Store,
    place: &ShieldPlacement,
    task: &Task,
) -> Result<MovedProcess, RunError> {
    let threads = threads(host, task)?;
    let in_shield = |thread: &Task| Some((thread.clone(), host.affinity(thread.id.tid).ok()?));
    let had: Vec<_> = threads.iter().filter_map(in_shield).collect();
    let asks = ReleaseRequest::of(host, store, place, &had);
    let mut notes = Vec::new();
    for thread in &threads {
        let policy = host.scheduling(thread.id.tid)?;
        if policy.rt_priority() > 0 || matches!(policy, SchedPolicy::Deadline { .. }) {
            host.set_scheduling(thread.id.tid, SchedPolicy::Other { nice: 0 })?;
            notes.push(format!("{} had {policy}, now SCHED_OTHER", thread.id.tid));
        }
    }
    if let Some(shield) = &place.group {
        let own = i32::try_from(std::process::id()).unwrap_or(0);
        let group = group_of(host, shield, place.v2, &host.task(own, own)?)?;
        let list = if task.pid == task.id.tid { "cgroup.procs" } else { "tasks" };
        host.write(&format!("{group}/{list}"), &task.id.tid.to_string())?;
    }
    for thread in &threads {
        asks.set(host, thread.id, &place.housekeeping)?;
    }
    let (tid, comm, cpus) = (task.id.tid, task.comm.clone(), host.affinity(task.id.tid)?);
    Ok(MovedProcess { tid, comm, threads: threads.len(), cpus, notes })
}

/// Puts back what the record knows of a process or thread, and forgets it.
fn let_out(
    host: &Host,
    open: &mut OpenRecord<'_>,
    place: &ShieldPlacement,
    task: &Task,
) -> Result<(usize, Vec<String>), RunError> {
    let entries: Vec<AddedThread> =
        open.record.added.iter().filter(|added| is_of(added, task)).cloned().collect();
    let mut notes = Vec::new();
    let mut failed = None;
    if let Some(first) = entries.first() {
        match move_back(host, place, first, task, &mut notes) {
            Err(error) if !has_ended(&error) => failed = Some(error),
            _ => {}
        }
    }
    let still_in = failed.is_some();
    let (mut back, mut kept) = (0, Vec::new());
    // A thread that was born in the shield has what the first one had.
    let entry_of = |thread: &Task| {
        entries.iter().find(|added| added.task == thread.id).or(entries.first()).cloned()
    };
    let of_entry = |thread: Task| entry_of(&thread).map(|entry| (thread, entry));
    let threads: Vec<(Task, AddedThread)> =
        threads(host, task)?.into_iter().filter_map(of_entry).collect();
    let had: Vec<_> =
        threads.iter().map(|(t, entry)| (t.clone(), entry.affinity.clone())).collect();
    let asks = ReleaseRequest::of(host, open.store(), place, &had);
    for (thread, entry) in &threads {
        // One that fails, and one that ends meanwhile, keeps no other from its own.
        match restore(host, entry, thread, &asks, &mut notes) {
            Ok(ours) => back += usize::from(ours),
            Err(error) if has_ended(&error) => {}
            Err(error) => {
                kept.push(thread.id);
                failed = failed.or(Some(error));
            }
        }
    }
    open.record.added.retain(|added| !is_of(added, task) || still_in || kept.contains(&added.task));
    if failed.is_none() {
        open.record.needs.retain(|need| need.task != task.id);
    }
    raise::settle(host, open, None)?;
    open.keep()?;
    match failed {
        Some(error) => Err(error),
        None => Ok((back, notes)),
    }
}

/// Whether the kernel's answer is that there is no such task any more.
fn has_ended(error: &RunError) -> bool {
    matches!(error, RunError::Machine(error) if error.is_absent())
}

/// Moves a process or thread back to its cgroup, when it is still in ours.
fn move_back(
    host: &Host,
    place: &ShieldPlacement,
    added: &AddedThread,
    task: &Task,
    notes: &mut Vec<String>,
) -> Result<(), RunError> {
    let (Some(shield), Some(group)) = (&place.group, &added.group) else { return Ok(()) };
    let now = group_of(host, shield, place.v2, task)?;
    if now != *shield {
        if now != *group {
            notes.push(format!("another process moved it to {now}, so it stays there"));
        }
        return Ok(());
    }
    let list = if task.pid == task.id.tid { "cgroup.procs" } else { "tasks" };
    let tid = task.id.tid.to_string();
    match host.write(&format!("{group}/{list}"), &tid) {
        Err(error) if error.is_absent() && !host.exists(group) => {
            let mount = shield.rsplit_once('/').map_or("", |(mount, _)| mount);
            notes.push(format!("{group} is no more, so it is in the root group"));
            host.write(&format!("{mount}/{list}"), &tid)?;
            Ok(())
        }
        done => Ok(done?),
    }
}

/// What threads that leave the shield are to ask for.
struct ReleaseRequest<'a> {
    place: &'a ShieldPlacement,
    /// What the kernel shall remember of a thread, where that is more than it may have now.
    whole: BTreeMap<TaskId, CpuSet>,
}

impl ReleaseRequest<'_> {
    /// For threads that had these masks outside the shield, or have these in it.
    fn of<'a>(
        host: &Host,
        store: &Store,
        place: &'a ShieldPlacement,
        had: &[(Task, CpuSet)],
    ) -> ReleaseRequest<'a> {
        // Without a cpuset nothing would keep them off the shield; and what cannot be found out
        // keeps nobody in it.
        let known =
            place.group.as_ref().and_then(|_| apply::masks_without_cpusets(host, store, had).ok());
        ReleaseRequest { place, whole: known.unwrap_or_default() }
    }

    /// Sets the mask of a thread. The kernel takes of the whole what the cpuset has now and the
    /// rest when the shield is gone (`__sched_setaffinity()`, kernel/sched/core.c, 6.2).
    fn set(&self, host: &Host, id: TaskId, cpus: &CpuSet) -> Result<(), RunError> {
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

/// Gives one thread its CPUs and its policy again; whether it was given its CPUs.
fn restore(
    host: &Host,
    added: &AddedThread,
    thread: &Task,
    asks: &ReleaseRequest<'_>,
    notes: &mut Vec<String>,
) -> Result<bool, RunError> {
    let tid = thread.id.tid;
    let now = host.affinity(tid)?;
    // Ours is what was given, a CPU of it (spread), or what the kernel made of it by the move.
    let ours =
        now.is_subset(&added.given) || now == added.affinity || now == asks.place.housekeeping;
    if ours {
        asks.set(host, thread.id, &added.affinity)?;
    } else {
        notes.push(format!(
            "another process moved {} ({tid}) to CPU {now}, so it stays there",
            added.comm
        ));
    }
    if let Some(policy) = added.lowered_from.filter(|_| added.task == thread.id) {
        if host.scheduling(tid)?.rt_priority() == PRIORITY_MAX {
            host.set_scheduling(tid, policy)?;
        } else {
            notes.push(format!("another process changed the policy of {} ({tid})", added.comm));
        }
    }
    Ok(ours)
}

/// What was put back before a shield is taken down.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ReleasedPrograms {
    /// Processes that are back where they were before they were added.
    pub back: Vec<MovedProcess>,
    /// Real-time programs that run on as ordinary ones, because nothing protects the kernel from
    /// them any more.
    pub disarmed: Vec<String>,
    /// Kernel threads that have their original policy again.
    pub restored: Vec<String>,
    /// What could not be put back, and why.
    pub notes: Vec<String>,
}

/// Lets all programs out of the shield and puts the kernel's threads back. To be done before a
/// shield is undone; does nothing where nothing is on record or in the group.
///
/// # Errors
/// The record cannot be read or kept.
pub fn release(host: &Host, store: &Store) -> Result<ReleasedPrograms, RunError> {
    let mut released = ReleasedPrograms::default();
    let place = super::active(host, store)?.map(|plan| ShieldPlacement::of(host, &plan));
    let mut open = record::open(host, store)?;
    let mut pids: Vec<i32> = open.record.added.iter().map(|added| added.pid).collect();
    pids.sort_unstable();
    pids.dedup();
    if let Some(place) = &place {
        for pid in pids {
            let Ok(task) = find(host, pid) else { continue };
            match let_out(host, &mut open, place, &task) {
                Ok((0, _)) => {}
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
                Err(error) => released.notes.push(format!("{} ({pid}): {error}", task.comm)),
            }
        }
        let before = crate::apply::lived_before(host, store).map_err(RunError::Journal)?;
        let born = |id| before.as_ref().is_some_and(|before| !before.contains(&id));
        let disarmed = raise::disarm(host, place, &born)?;
        released.disarmed = disarmed.done;
        released.notes.extend(disarmed.failed);
    }
    open.record.added.retain(|added| host.is_same_task(added.task));
    let settled = raise::settle(host, &mut open, None)?;
    released.restored = settled.restored;
    released.notes.extend(settled.kept.iter().map(|kept| format!("still raised: {kept}")));
    released.notes.extend(settled.drifted.iter().map(|d| format!("left alone: {d}")));
    Ok(released)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn added(tid: i32, pid: i32) -> AddedThread {
        AddedThread {
            task: TaskId { tid, started: 7 },
            pid,
            comm: "x".to_owned(),
            group: None,
            affinity: CpuSet::one(0),
            lowered_from: None,
            given: CpuSet::one(3),
        }
    }

    #[test]
    fn a_process_goes_with_its_threads_and_a_thread_alone() {
        let task = |tid, pid| Task {
            id: TaskId { tid, started: 7 },
            pid,
            parent: 1,
            comm: "x".to_owned(),
            kthread: false,
            bound: false,
            cpu: 0,
            state: 'S',
            nice: 0,
            rt_priority: 0,
            policy: 0,
        };
        assert!(is_of(&added(11, 10), &task(10, 10)));
        assert!(is_of(&added(11, 10), &task(11, 10)));
        assert!(!is_of(&added(12, 10), &task(11, 10)));
        assert!(!is_of(&added(10, 10), &task(20, 20)));
    }
}
