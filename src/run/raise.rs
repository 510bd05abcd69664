//! Raises kernel threads above real-time programs, as [`order`](super::order) determines, and
//! lowers them again.
//!
//! Several programs may need the same thread above them. It gets its original policy back only when
//! no program is left that could starve it. These programs are in the record, and among the
//! real-time threads that may run on its CPUs.

use super::order::{KernelThread, StartRequirements, is_vital};
use super::record::{OpenRecord, PriorityNeed};
use super::task_lookup::find_task;
use super::{RunError, ShieldPlacement};
use crate::documents::process_note::ProcessNote;
use crate::documents::shield_status::RaisedThread;
use cpushield_linux::error::present;
use cpushield_linux::{CpuSet, Error, Host, SchedPolicy, Task, TaskId};

/// The result of lowering raised threads.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RaisedThreads {
    /// Threads with their original policy.
    pub restored: Vec<String>,
    /// Threads that stay raised, and for which task.
    pub kept: Vec<ProcessNote>,
    /// Threads that another process changed: left alone.
    pub drifted: Vec<ProcessNote>,
}

/// Finds the kernel threads that matter for programs on these CPUs.
///
/// # Errors
/// `/proc` cannot be read.
pub fn threads(host: &Host, cpus: &CpuSet) -> Result<Vec<KernelThread>, RunError> {
    let mut threads = Vec::new();
    for task in host.tasks()?.into_iter().filter(is_candidate) {
        let read = host.affinity(task.id.tid).and_then(|affinity| {
            let policy = host.scheduling(task.id.tid)?;
            Ok(KernelThread { task: task.id, comm: task.comm, policy, affinity })
        });
        threads.extend(present(read)?.filter(|thread| {
            thread.affinity.intersects(cpus) || is_vital(&thread.comm, &thread.affinity, cpus)
        }));
    }
    Ok(threads)
}

/// Whether a task is a kernel thread that a real-time program may starve.
fn is_candidate(task: &Task) -> bool {
    let prefixes = ["rcu", "ktimers/", "ksoftirqd/", "irq_work/", "irq/"];
    task.kthread && prefixes.iter().any(|prefix| task.comm.starts_with(prefix))
}

/// Raises the threads that `program` requires, and reads their policies back. Without an error,
/// every vital thread is above the program's priority.
///
/// # Errors
/// A thread cannot be raised; those raised before are on record.
pub fn raise(
    host: &Host,
    open: &mut OpenRecord<'_>,
    order: &StartRequirements,
    cpus: &CpuSet,
    program: TaskId,
) -> Result<(), RunError> {
    let priority = order.policy.rt_priority();
    if priority == 0 {
        return Ok(());
    }
    let is_known = |need: &&mut PriorityNeed| need.task == program && need.cpus == *cpus;
    match open.record.needs.iter_mut().find(is_known) {
        Some(need) => need.priority = need.priority.max(priority),
        None => {
            open.record.needs.push(PriorityNeed { task: program, cpus: cpus.clone(), priority });
        }
    }
    for thread in &order.above {
        let raised = order.raise.iter().find(|(raised, _)| raised.task == thread.task);
        let cpus = cpus_of_need(thread, cpus);
        match open.record.raised.iter_mut().find(|raised| raised.task == thread.task) {
            Some(known) => {
                known.given = raised.map_or(known.given, |(_, policy)| *policy);
                known.cpus = known.cpus.union(&cpus);
            }
            None => open.record.raised.extend(raised.map(|(_, policy)| RaisedThread {
                task: thread.task,
                comm: thread.comm.clone(),
                cpus,
                original: thread.policy,
                given: *policy,
            })),
        }
    }
    open.save()?;
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

/// The CPUs of a program on which it could starve a thread: those of the thread. A thread that
/// lends its priority is needed for all of them.
fn cpus_of_need(thread: &KernelThread, cpus: &CpuSet) -> CpuSet {
    match is_vital(&thread.comm, &CpuSet::new(), cpus) {
        true => cpus.clone(),
        false => thread.affinity.intersection(cpus),
    }
}

fn cannot_raise(thread: &KernelThread, error: cpushield_linux::Error) -> RunError {
    RunError::DangerousRequest {
        why: format!(
            "cannot raise the priority of {} above the program's: {}",
            thread.comm,
            error.reason()
        ),
        instead: "run the program without --fifo or --rr: nothing competes with it in a shield"
            .to_owned(),
    }
}

/// Removes the need of `program`, if any, and lowers the threads that programs no longer need.
///
/// # Errors
/// The record cannot be written, or `/proc` cannot be read.
pub fn lower_unneeded(
    host: &Host,
    open: &mut OpenRecord<'_>,
    program: Option<TaskId>,
) -> Result<RaisedThreads, RunError> {
    let mut lowered = RaisedThreads::default();
    if open.record.raised.is_empty() && open.record.needs.is_empty() {
        return Ok(lowered);
    }
    open.record.needs.retain(|need| Some(need.task) != program && is_alive(host, need.task));
    let programs = real_time_programs(host)?;
    let mut left = Vec::new();
    for raised in std::mem::take(&mut open.record.raised) {
        let original = raised.clone();
        match lower_thread(host, raised, &open.record.needs, &programs, &mut lowered) {
            Ok(raised) => left.extend(raised),
            // The thread has ended.
            Err(error) if error.is_absent() => {}
            Err(error) => {
                let (comm, answer) = (original.comm.clone(), error.reason());
                lowered.kept.push(ProcessNote::NotLowered { comm, answer });
                left.push(original);
            }
        }
    }
    open.record.raised = left;
    open.save()?;
    Ok(lowered)
}

/// Whether the task exists and has not ended.
fn is_alive(host: &Host, id: TaskId) -> bool {
    host.task(id.tid, id.tid).is_ok_and(|task| task.id == id && !task.has_ended())
}

/// A user-space thread with a real-time priority.
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
        // Skips a thread that has ended.
        if let Ok(affinity) = host.affinity(task.id.tid) {
            programs.push(RtProgram { task, affinity });
        }
    }
    Ok(programs)
}

/// Lowers a thread as far as possible. Returns it when it stays on record.
fn lower_thread(
    host: &Host,
    mut raised: RaisedThread,
    needs: &[PriorityNeed],
    programs: &[RtProgram],
    lowered: &mut RaisedThreads,
) -> Result<Option<RaisedThread>, Error> {
    let comm = raised.comm.clone();
    if !host.is_same_task(raised.task) {
        return Ok(None);
    }
    let now = host.scheduling(raised.task.tid)?;
    if now != raised.given && now != raised.original {
        lowered.drifted.push(ProcessNote::RaisedThreadChanged { comm, policy: now });
        return Ok(None);
    }
    let by_record = needs.iter().filter(|need| need.cpus.intersects(&raised.cpus));
    let by_record = by_record.map(|need| (need.priority, need.task.tid));
    let running = programs.iter().filter(|program| program.affinity.intersects(&raised.cpus));
    let running = running.map(|program| (program.task.rt_priority, program.task.id.tid));
    let Some((priority, tid)) = by_record.chain(running).max() else {
        host.set_scheduling(raised.task.tid, raised.original)?;
        lowered.restored.push(comm);
        return Ok(None);
    };
    let wanted = if raised.original.is_above(priority) {
        raised.original
    } else {
        SchedPolicy::Fifo { priority: (priority + 1).min(99) }
    };
    host.set_scheduling(raised.task.tid, wanted)?;
    raised.given = wanted;
    lowered.kept.push(ProcessNote::StaysRaised { comm, tid, priority });
    Ok(Some(raised))
}

/// The result of demoting real-time programs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DemotedPrograms {
    /// Demoted programs.
    pub done: Vec<String>,
    /// Programs that could not be demoted, and why.
    pub failed: Vec<ProcessNote>,
}

/// Makes every real-time program of the shield an ordinary one, so that no kernel thread needs to
/// stay above it. For undo: a program without a `run` may continue, but must not starve the kernel.
/// One that was there before the shield keeps its policy.
/// A shield without a group has those programs that are confined to its CPUs and newer than it
/// (`is_newer`).
///
/// # Errors
/// `/proc` cannot be read, or the list of the group's threads.
pub fn demote_programs(
    host: &Host,
    place: &ShieldPlacement,
    is_newer: &dyn Fn(TaskId) -> bool,
) -> Result<DemotedPrograms, RunError> {
    let tids = match place.group {
        Some(_) => place.members(host)?,
        None => find_confined(host, place, is_newer)?,
    };
    let mut demoted = DemotedPrograms::default();
    for tid in tids {
        let Ok(policy) = host.scheduling(tid) else { continue };
        let is_resident = || {
            let process = find_task(host, tid).map(|task| task.pid);
            process.is_ok_and(|pid| place.residents.contains(&pid))
        };
        if policy.rt_priority() == 0 || is_resident() {
            continue;
        }
        let comm = host.task(tid, tid).map_or_else(|_| String::new(), |task| task.comm);
        demoted.demote(host, tid, comm, policy);
    }
    Ok(demoted)
}

impl DemotedPrograms {
    /// Makes a thread with this policy an ordinary one, unless it has ended.
    pub(super) fn demote(&mut self, host: &Host, tid: i32, comm: String, policy: SchedPolicy) {
        match host.set_scheduling(tid, SchedPolicy::Other { nice: 0 }) {
            Ok(()) => self.done.push(format!("{comm} ({tid}, {policy})")),
            Err(error) if error.is_absent() => {}
            Err(error) => {
                let answer = error.reason();
                self.failed.push(ProcessNote::KeepsPolicy { comm, tid, policy, answer });
            }
        }
    }
}

/// Finds real-time tasks that may run only on the shield's CPUs.
fn find_confined(
    host: &Host,
    place: &ShieldPlacement,
    is_newer: &dyn Fn(TaskId) -> bool,
) -> Result<Vec<i32>, RunError> {
    let shield = place.cpus.union(&place.idle);
    let programs = real_time_programs(host)?.into_iter();
    let ours =
        programs.filter(|program| program.affinity.is_subset(&shield) && is_newer(program.task.id));
    Ok(ours.map(|program| program.task.id.tid).collect())
}
