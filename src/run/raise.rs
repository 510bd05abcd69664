//! Puts the kernel's threads above real-time programs and back, as [`order`](super::order) says.
//!
//! Several programs may need the same thread above them; it goes back to its original when none is
//! left that could starve it, and no earlier: whoever needs it is found in the record and among the
//! real-time threads that may run on its CPUs.

use super::order::{KernelThread, StartRequirements, is_vital};
use super::record::{OpenRecord, PriorityNeed, RaisedThread};
use super::{RunError, ShieldPlacement};
use cpushield_linux::{CpuSet, Error, Host, SchedPolicy, Task, TaskId};

/// What became of raised threads.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RaisedThreads {
    /// Threads that have their original policy again.
    pub restored: Vec<String>,
    /// Threads that stay raised, and for whom.
    pub kept: Vec<String>,
    /// Threads that somebody else changed meanwhile: left alone.
    pub drifted: Vec<String>,
}

/// The kernel threads that matter for programs on these CPUs.
///
/// # Errors
/// `/proc` cannot be read.
pub fn threads(host: &Host, cpus: &CpuSet) -> Result<Vec<KernelThread>, RunError> {
    let named = |task: &Task| {
        let prefixes = ["rcu", "ktimers/", "ksoftirqd/", "irq_work/", "irq/"];
        task.kthread && prefixes.iter().any(|prefix| task.comm.starts_with(prefix))
    };
    let matters = |thread: &KernelThread| {
        thread.affinity.intersects(cpus) || is_vital(&thread.comm, &thread.affinity, cpus)
    };
    let mut threads = Vec::new();
    for task in host.tasks()?.into_iter().filter(named) {
        let read = host.affinity(task.id.tid).and_then(|affinity| {
            let policy = host.scheduling(task.id.tid)?;
            Ok(KernelThread { task: task.id, comm: task.comm, policy, affinity })
        });
        match read {
            Ok(thread) if matters(&thread) => threads.push(thread),
            Ok(_) => {}
            Err(error) if error.is_absent() => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(threads)
}

/// Raises what the order says for `who`, and reads it back: when this returns without error, every
/// vital thread is above the program's priority.
///
/// # Errors
/// A thread cannot be raised; those raised before are on record.
pub fn raise(
    host: &Host,
    open: &mut OpenRecord<'_>,
    order: &StartRequirements,
    cpus: &CpuSet,
    who: TaskId,
) -> Result<(), RunError> {
    let priority = order.policy.rt_priority();
    if priority == 0 {
        return Ok(());
    }
    open.record.needs.push(PriorityNeed { task: who, cpus: cpus.clone(), priority });
    for (thread, policy) in &order.raise {
        let known = open.record.raised.iter_mut().find(|raised| raised.task == thread.task);
        match known {
            Some(raised) => {
                raised.given = *policy;
                raised.cpus = raised.cpus.union(cpus);
            }
            None => open.record.raised.push(RaisedThread {
                task: thread.task,
                comm: thread.comm.clone(),
                cpus: cpus.clone(),
                original: thread.policy,
                given: *policy,
            }),
        }
    }
    open.keep()?;
    for (thread, policy) in &order.raise {
        host.set_scheduling(thread.task.tid, *policy)
            .map_err(|error| cannot_raise(thread, error))?;
    }
    for thread in &order.above {
        let now = host.scheduling(thread.task.tid).map_err(|error| cannot_raise(thread, error))?;
        if !now.is_above(priority) {
            let error = cpushield_linux::Error::malformed(
                &format!("/proc/{}", thread.task.tid),
                0,
                "a policy above the program's",
                &now.to_string(),
            );
            return Err(cannot_raise(thread, error));
        }
    }
    Ok(())
}

fn cannot_raise(thread: &KernelThread, error: cpushield_linux::Error) -> RunError {
    RunError::Unsafe {
        why: format!("{} cannot be put above the program: {}", thread.comm, error.reason()),
        instead: "run it without --fifo and --rr: nothing competes with it in a shield".to_owned(),
    }
}

/// Gives up the need of `who`, if any, and lowers what nobody needs any more.
///
/// # Errors
/// The record cannot be kept, or `/proc` cannot be read.
pub fn settle(
    host: &Host,
    open: &mut OpenRecord<'_>,
    who: Option<TaskId>,
) -> Result<RaisedThreads, RunError> {
    let mut settled = RaisedThreads::default();
    if open.record.raised.is_empty() && open.record.needs.is_empty() {
        return Ok(settled);
    }
    open.record.needs.retain(|need| Some(need.task) != who && is_alive(host, need.task));
    let programs = real_time_programs(host)?;
    let mut left = Vec::new();
    for raised in std::mem::take(&mut open.record.raised) {
        let stays = raised.clone();
        match settle_one(host, raised, &open.record.needs, &programs, &mut settled) {
            Ok(raised) => left.extend(raised),
            // It has ended.
            Err(error) if error.is_absent() => {}
            Err(error) => {
                settled.kept.push(format!("{}: {}", stays.comm, error.reason()));
                left.push(stays);
            }
        }
    }
    open.record.raised = left;
    open.keep()?;
    Ok(settled)
}

/// Whether the task is there and has not ended.
fn is_alive(host: &Host, id: TaskId) -> bool {
    host.task(id.tid, id.tid).is_ok_and(|task| task.id == id && !task.has_ended())
}

/// A user's thread with a real-time priority.
struct RtProgram {
    task: Task,
    affinity: CpuSet,
}

fn is_real_time(task: &Task) -> bool {
    !task.kthread && task.rt_priority > 0 && !task.has_ended()
}

fn real_time_programs(host: &Host) -> Result<Vec<RtProgram>, RunError> {
    let mut programs = Vec::new();
    for task in host.tasks()?.into_iter().filter(is_real_time) {
        // A thread that has ended needs nothing.
        if let Ok(affinity) = host.affinity(task.id.tid) {
            programs.push(RtProgram { task, affinity });
        }
    }
    Ok(programs)
}

/// Lowers one thread as far as it goes; returns it when it stays on record.
fn settle_one(
    host: &Host,
    mut raised: RaisedThread,
    needs: &[PriorityNeed],
    programs: &[RtProgram],
    settled: &mut RaisedThreads,
) -> Result<Option<RaisedThread>, Error> {
    let comm = raised.comm.clone();
    if !host.is_same_task(raised.task) {
        return Ok(None);
    }
    let now = host.scheduling(raised.task.tid)?;
    if now != raised.given && now != raised.original {
        settled.drifted.push(format!("{comm}: {now}"));
        return Ok(None);
    }
    let by_record = needs.iter().filter(|need| need.cpus.intersects(&raised.cpus));
    let by_record = by_record.map(|need| (need.priority, need.task.tid));
    let running = programs.iter().filter(|program| program.affinity.intersects(&raised.cpus));
    let running = running.map(|program| (program.task.rt_priority, program.task.id.tid));
    let Some((priority, tid)) = by_record.chain(running).max() else {
        host.set_scheduling(raised.task.tid, raised.original)?;
        settled.restored.push(comm);
        return Ok(None);
    };
    let wanted = if raised.original.is_above(priority) {
        raised.original
    } else {
        SchedPolicy::Fifo { priority: (priority + 1).min(99) }
    };
    host.set_scheduling(raised.task.tid, wanted)?;
    raised.given = wanted;
    settled.kept.push(format!("{comm}, for task {tid} of priority {priority}"));
    Ok(Some(raised))
}

/// What became of real-time programs that were made ordinary ones.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DemotedPrograms {
    /// Those that are.
    pub done: Vec<String>,
    /// Those that are not, and why.
    pub failed: Vec<String>,
}

/// Takes the real-time priority away from every program of the shield, so that no kernel thread
/// needs to stay above it. For undo: a program that nobody waits for may run on, but not where it
/// can starve the kernel. Where the shield has no group its programs are those that are confined to
/// its CPUs and that were `born` since. One that ends meanwhile is none.
///
/// # Errors
/// `/proc` cannot be read, or the list of the group's threads.
pub fn disarm(
    host: &Host,
    place: &ShieldPlacement,
    born: &dyn Fn(TaskId) -> bool,
) -> Result<DemotedPrograms, RunError> {
    let tids = match place.group {
        Some(_) => place.members(host)?,
        None => confined(host, place, born)?,
    };
    let mut disarmed = DemotedPrograms::default();
    for tid in tids {
        let Ok(policy) = host.scheduling(tid) else { continue };
        if policy.rt_priority() == 0 {
            continue;
        }
        let comm = host.task(tid, tid).map_or_else(|_| String::new(), |task| task.comm);
        match host.set_scheduling(tid, SchedPolicy::Other { nice: 0 }) {
            Ok(()) => disarmed.done.push(format!("{comm} ({tid}, {policy})")),
            Err(error) if error.is_absent() => {}
            Err(error) => {
                disarmed.failed.push(format!("{comm} ({tid}) keeps {policy}: {}", error.reason()));
            }
        }
    }
    Ok(disarmed)
}

/// Real-time tasks that may run on the shield's CPUs only.
fn confined(
    host: &Host,
    place: &ShieldPlacement,
    born: &dyn Fn(TaskId) -> bool,
) -> Result<Vec<i32>, RunError> {
    let shield = place.cpus.union(&place.idle);
    let programs = real_time_programs(host)?.into_iter();
    let ours =
        programs.filter(|program| program.affinity.is_subset(&shield) && born(program.task.id));
    Ok(ours.map(|program| program.task.id.tid).collect())
}
