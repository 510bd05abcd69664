//! Moves running processes into the shield. The cgroup, the CPUs and the policy of every thread are
//! recorded before the first is moved, so that `removed` can restore them.

use super::confine::confine;
use super::order::{PRIORITY_MAX, order};
use super::placement::{check_move, memory_note};
use super::record::{AddedThread, OpenRecord};
use super::removed::{GoneGroup, move_out};
use super::spread::ThreadSpread;
use super::task_lookup::{belongs_to, cgroup_of, find_task, has_ended, move_to_group, threads_of};
use super::{RunError, ShieldPlacement, find_risks, limits, raise, record};
use crate::documents::moved_process::MovedProcess;
use crate::documents::process_note::ProcessNote;
use cpushield_linux::error::present;
use cpushield_linux::{CpuSet, Host, SchedPolicy, Store, Task};

/// How often to check a process again for threads that were created while it was moved.
const ROUNDS_MAX: usize = 10;

/// The CPUs that a process gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CpuAssignment {
    /// This one, or the one with the fewest threads.
    One(Option<usize>),
    /// Its threads are spread over all of the shield.
    All,
}

/// Moves a process into the shield, or a single thread where cgroups are of version 1.
///
/// # Errors
/// The task cannot be added, or the kernel refused and the task was moved back.
pub fn add(
    host: &Host,
    store: &Store,
    place: &ShieldPlacement,
    tid: i32,
    onto: CpuAssignment,
) -> Result<MovedProcess, RunError> {
    if let Some(protected) = protect_kernel(host, store, place, tid)? {
        return Ok(protected);
    }
    let task = check_task(host, place, tid)?;
    let mut open = record::open(host, store)?;
    open.forget_ended(host);
    let left = forget_left(host, &mut open, place, &task)?;
    let cpus = match onto {
        CpuAssignment::All => place.cpus.clone(),
        CpuAssignment::One(cpu) => CpuSet::single(place.choose(host, cpu)?.cpu),
    };
    place.check_online(host, &cpus)?;
    let mut spread = (onto == CpuAssignment::All).then(|| ThreadSpread::new(&cpus));
    let way_in = WayIn { place, cpus: &cpus, left: &left };
    match move_in(host, &mut open, &way_in, &task, spread.as_mut()) {
        Ok((threads, mut notes)) => {
            notes.extend(memory_note(host, store, place));
            Ok(MovedProcess { tid, comm: task.comm, threads, cpus, notes })
        }
        Err(error) => {
            // The first error is reported; what cannot be restored stays on record.
            let _ = move_out(host, &mut open, place, &task, GoneGroup::Refused);
            Err(error)
        }
    }
}

/// Raises kernel threads above a process of the shield that has raised itself above them; `None`
/// for any other task.
fn protect_kernel(
    host: &Host,
    store: &Store,
    place: &ShieldPlacement,
    tid: i32,
) -> Result<Option<MovedProcess>, RunError> {
    if !find_risks(host, place)?.iter().any(|risk| risk.key() == (tid, None)) {
        return Ok(None);
    }
    let task = find_task(host, tid)?;
    let (threads, cpus) = (threads_of(host, &task)?, place.cpus.clone());
    let mut open = record::open(host, store)?;
    let notes = raise_kernel_threads(host, &mut open, &task, &threads, &cpus)?;
    Ok(Some(MovedProcess { tid, comm: task.comm, threads: threads.len(), cpus, notes }))
}

/// Finds the task and checks that it may be added.
fn check_task(host: &Host, place: &ShieldPlacement, tid: i32) -> Result<Task, RunError> {
    let Some(task) = present(find_task(host, tid))? else {
        return refuse(tid, "does not exist", None);
    };
    if task.kthread {
        let hint = "`cpushield plan` shows which kernel threads can be moved".to_owned();
        return refuse(tid, "is a kernel thread", Some(hint));
    }
    if task.pid == 1 || Some(task.pid) == host.own_pid() {
        return refuse(tid, "starts other programs, which would all start in the shield", None);
    }
    if task.pid != tid && place.v2 {
        let why = format!(
            "is a thread of process {}; on cgroup v2, a shield takes only whole processes",
            task.pid
        );
        let hint = format!(
            "to place each of its threads on a separate CPU: cpushield add {} --spread",
            task.pid
        );
        return refuse(tid, &why, Some(hint));
    }
    if place.members(host)?.contains(&tid) {
        return refuse(tid, "is already in the shield", None);
    }
    Ok(task)
}

fn refuse<T>(tid: i32, why: &str, hint: Option<String>) -> Result<T, RunError> {
    Err(RunError::Task { tid, why: why.to_owned(), hint })
}

/// Removes the entries of threads that have left their shield, and returns them: where another
/// process has put a thread is its place now.
///
/// # Errors
/// The task is in this shield or in another one.
fn forget_left(
    host: &Host,
    open: &mut OpenRecord<'_>,
    place: &ShieldPlacement,
    task: &Task,
) -> Result<Vec<AddedThread>, RunError> {
    let mut left = Vec::new();
    for added in open.record.added.iter().filter(|added| belongs_to(added, task)) {
        match find_current_shield(host, open.store(), place, added)? {
            None => left.push(added.task),
            Some(shield) if shield != place.name => {
                let tid = task.id.tid;
                let hint = format!("cpushield remove --shield {shield} {tid}");
                return refuse(tid, &format!("is in shield {shield}"), Some(hint));
            }
            Some(_) if added.task == task.id => {
                return refuse(task.id.tid, "is already in the shield", None);
            }
            Some(_) => {}
        }
    }
    Ok(open.record.added.extract_if(.., |added| left.contains(&added.task)).collect())
}

/// The name of the shield in which a recorded thread still is.
pub(super) fn find_current_shield(
    host: &Host,
    store: &Store,
    place: &ShieldPlacement,
    added: &AddedThread,
) -> Result<Option<String>, RunError> {
    if added.is_in(place) {
        return Ok(place.has(host, added.task.tid)?.then(|| place.name.clone()));
    }
    for plan in super::all_active(host, store)? {
        let other = ShieldPlacement::new(host, &plan);
        if added.is_in(&other) && other.has(host, added.task.tid)? {
            return Ok(Some(other.name));
        }
    }
    Ok(None)
}

/// The shield and the CPUs that threads get, and the entries of those that have left before.
struct WayIn<'a> {
    place: &'a ShieldPlacement,
    cpus: &'a CpuSet,
    left: &'a [AddedThread],
}

/// Moves the threads of a task in. Returns their number and notes.
fn move_in(
    host: &Host,
    open: &mut OpenRecord<'_>,
    way_in: &WayIn<'_>,
    task: &Task,
    mut spread: Option<&mut ThreadSpread>,
) -> Result<(usize, Vec<ProcessNote>), RunError> {
    let WayIn { place, cpus, .. } = way_in;
    let (mut moved, mut notes) = (0, Vec::new());
    for _ in 0..ROUNDS_MAX {
        let added = &open.record.added;
        let threads = threads_of(host, task)?.into_iter();
        let fresh: Vec<Task> =
            threads.filter(|thread| added.iter().all(|added| added.task != thread.id)).collect();
        if fresh.is_empty() {
            break;
        }
        let fresh = record_originals(host, open, way_in, fresh)?;
        moved += fresh.len();
        notes.extend(raise_kernel_threads(host, open, task, &fresh, cpus)?);
        if let Some(group) = place.entry_group(host)? {
            check_move(host, &group)?;
            move_to_group(host, &group, task)?;
        }
        for thread in &fresh {
            present(confine(host, thread.id.tid, cpus))?;
        }
        if let Some(spread) = &mut spread {
            spread.place_new_threads(host, task.pid);
        }
    }
    Ok((moved, notes))
}

/// Records the state of threads. Returns those that have not ended since they were listed.
fn record_originals(
    host: &Host,
    open: &mut OpenRecord<'_>,
    way_in: &WayIn<'_>,
    threads: Vec<Task>,
) -> Result<Vec<Task>, RunError> {
    let mut alive = Vec::new();
    for thread in threads {
        match read_original(host, way_in, &thread) {
            Ok(original) => {
                open.record.added.push(original);
                alive.push(thread);
            }
            Err(error) if has_ended(&error) => {}
            Err(error) => return Err(error),
        }
    }
    open.save()?;
    Ok(alive)
}

fn read_original(host: &Host, way_in: &WayIn<'_>, thread: &Task) -> Result<AddedThread, RunError> {
    let WayIn { place, cpus, left } = *way_in;
    let group = match &place.group {
        Some(group) => Some(cgroup_of(host, group, place.v2, thread)?),
        None => None,
    };
    let affinity = host.affinity(thread.id.tid)?;
    let policy = host.scheduling(thread.id.tid)?;
    // It has kept what it got when it was in the shield before.
    let before = left.iter().find(|left| left.task == thread.id);
    let lowered_from = match policy.rt_priority() {
        PRIORITY_MAX => before.and_then(|before| before.lowered_from),
        higher => (higher > PRIORITY_MAX).then_some(policy),
    };
    Ok(AddedThread {
        task: thread.id,
        pid: thread.pid,
        comm: thread.comm.clone(),
        shield: place.name.clone(),
        group,
        affinity,
        lowered_from,
        given: cpus.clone(),
        granted: left.iter().any(|left| left.pid == thread.pid && left.granted),
    })
}

/// Raises kernel threads above the real-time threads that arrive, so that these cannot starve them.
fn raise_kernel_threads(
    host: &Host,
    open: &mut OpenRecord<'_>,
    task: &Task,
    threads: &[Task],
    cpus: &CpuSet,
) -> Result<Vec<ProcessNote>, RunError> {
    let mut highest = SchedPolicy::Other { nice: 0 };
    for thread in threads {
        let Some(policy) = present(host.scheduling(thread.id.tid))? else { continue };
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
        let lowered = match present(host.scheduling(thread.id.tid))? {
            Some(SchedPolicy::Fifo { priority }) if priority > PRIORITY_MAX => {
                SchedPolicy::Fifo { priority: PRIORITY_MAX }
            }
            Some(SchedPolicy::Rr { priority }) if priority > PRIORITY_MAX => {
                SchedPolicy::Rr { priority: PRIORITY_MAX }
            }
            _ => continue,
        };
        present(host.set_scheduling(thread.id.tid, lowered))?;
    }
    Ok(order.notes(highest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use cpushield_linux::TaskId;

    fn added(tid: i32, pid: i32) -> AddedThread {
        AddedThread {
            task: TaskId { tid, started: 7 },
            pid,
            comm: "x".to_owned(),
            shield: "a".to_owned(),
            group: None,
            affinity: CpuSet::single(0),
            lowered_from: None,
            given: CpuSet::single(3),
            granted: false,
        }
    }

    #[test]
    fn a_process_moves_with_its_threads_and_a_thread_alone() {
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
        assert!(belongs_to(&added(11, 10), &task(10, 10)));
        assert!(belongs_to(&added(11, 10), &task(11, 10)));
        assert!(!belongs_to(&added(12, 10), &task(11, 10)));
        assert!(!belongs_to(&added(10, 10), &task(20, 20)));
    }
}
