//! Switches to other tasks, and the work items of kworkers.

use super::super::breach::StackOwner;
use super::super::parts::{IdleSince, InterruptionKind};
use super::super::{InterruptionTracker, Moment, SUSPENDED_MAX, TraceContext, UNKNOWN};
use crate::causes::Cause;
use crate::causes::culprit::KernelEvent;
use crate::trace::culprit_stats::{CulpritKey, TracedCulprit};
use crate::trace::decode::{ShortName, TaskLeft, TraceEvent};

impl InterruptionTracker {
    pub(super) fn on_switch(
        &mut self,
        context: &TraceContext,
        event: &TraceEvent,
        left: TaskLeft,
        (next, comm): (i32, ShortName),
    ) {
        let at = event.at;
        self.stats.switches += 1;
        self.privilege_level.unnamed = false;
        if let Some(history) = &mut self.history {
            history.moment(at, Moment::Switch { task: event.pid, left, next });
        }
        let waits = self.workload_waits(event.pid, left, next);
        self.leave_task(at, event.pid, left.sleeps());
        self.set_running_task(context, next);
        let resumes_in_kernel = self.resumes_in_kernel(next);
        if (self.runs_workload || (next == 0 && !waits)) && !resumes_in_kernel {
            if self.interruption.is_some() {
                self.charge_time(at);
                self.end_interruption(at);
            }
            self.undisturbed = IdleSince::Since(at);
        } else if !self.runs_workload {
            if self.interruption.is_none() {
                self.begin_interruption(at);
            }
            if let Some(interruption) = &mut self.interruption {
                interruption.workload_waits = waits;
            }
            if next == 0 { self.enter_idle(at) } else { self.enter_task(at, next, comm) }
        }
    }

    /// Whether this thread of the workload continues in the kernel. A thread other than the
    /// interrupted one does not: what is open belongs to that one, which waits. Where context
    /// tracking reports the return to user mode, this decides nothing.
    fn resumes_in_kernel(&self, next: i32) -> bool {
        let of_other = self.interruption.and_then(|it| it.of).is_some_and(|of| of != next);
        self.runs_workload && !self.frames.is_empty() && (self.tracked || !of_other)
    }

    /// Whether the workload could run, but waits for CPU time. A task that yields to the idle task
    /// does not: one of SCHED_DEADLINE ends its period this way (sched_yield(2)), and there is no
    /// request to reschedule.
    fn workload_waits(&self, pid: i32, left: TaskLeft, next: i32) -> bool {
        if !self.runs_workload || pid == 0 {
            return self.interruption.is_some_and(|interruption| interruption.workload_waits);
        }
        match left {
            TaskLeft::Blocks | TaskLeft::Waits => false,
            TaskLeft::Preempted => {
                next == 0 && self.interruption.is_some_and(|interruption| interruption.resched)
            }
            TaskLeft::Overtaken => true,
        }
    }

    /// The previous task leaves the CPU.
    fn leave_task(&mut self, at: u64, pid: i32, blocks: bool) {
        // No handler stays open across a switch, except a work item and, on RT, a softirq.
        while let Some(frame) = self.frames.last() {
            match frame.kind {
                InterruptionKind::Task
                | InterruptionKind::Syscall
                | InterruptionKind::PageFault
                | InterruptionKind::Kernel => break,
                InterruptionKind::Work => {
                    if let (Some(key), true) = (frame.key, self.suspended.len() < SUSPENDED_MAX) {
                        self.suspended.insert(pid, key);
                    }
                    self.pop_frame(at);
                }
                _ => self.pop_frame(at),
            }
        }
        if self.frames.last().is_some_and(|frame| frame.kind == InterruptionKind::Task) {
            self.pop_frame(at);
            return;
        }
        // What follows the workload (or idle) belongs to the interruption only when it was
        // announced.
        let continues = self.interruption.is_some_and(|interruption| {
            !self.frames.is_empty() || interruption.resched || (interruption.fault && blocks)
        });
        if !continues {
            self.end_unless_nested();
        }
        if self.runs_workload && blocks && pid != 0 {
            self.begin_sleep(at);
        }
        if self.interruption.is_none() {
            self.end_undisturbed(at);
            self.undisturbed = IdleSince::Unknown;
        }
    }

    /// The workload goes to sleep; what follows does not interrupt it.
    fn begin_sleep(&mut self, at: u64) {
        let culprit = TracedCulprit::Event(KernelEvent::Slept);
        let key = CulpritKey { cause: Cause::Syscall, culprit };
        if self.interruption.is_none() {
            self.begin_interruption(at);
            self.stats.rows.row(key).untimed += 1;
        }
        self.stack_owner = StackOwner::Row(key);
        self.charge_time(at);
        if let Some(interruption) = &mut self.interruption
            && (!interruption.has_first || interruption.primary == Some(UNKNOWN))
        {
            interruption.has_first = true;
            interruption.primary = Some(key);
        }
        self.end_interruption(at);
    }

    /// A task other than the workload begins to run.
    fn enter_task(&mut self, at: u64, pid: i32, comm: ShortName) {
        self.charge_time(at);
        if self.interruption.is_some_and(|interruption| interruption.carrier)
            && self.frames.iter().all(|frame| frame.kind == InterruptionKind::Kernel)
        {
            // The IPI only woke the task.
            self.nest_first();
        }
        let task = CulpritKey { cause: Cause::Kthread, culprit: TracedCulprit::Task { pid, comm } };
        // A kworker is named after its work item.
        let unknown = if comm.starts_with(b"kworker/") { None } else { Some(task) };
        let item = || self.suspended.get(&pid).copied();
        let key = unknown.or_else(item);
        self.open_frame(at, InterruptionKind::Task, key, task);
    }

    /// The CPU idles while the workload waits for CPU time.
    fn enter_idle(&mut self, at: u64) {
        self.charge_time(at);
        let culprit = TracedCulprit::Event(KernelEvent::RuntimeExhausted);
        let key = CulpritKey { cause: Cause::Throttling, culprit };
        let in_kernel = self.frames.iter().all(|frame| frame.kind == InterruptionKind::Kernel);
        let is_first = self.interruption.is_some_and(|it| it.primary != Some(key));
        if in_kernel && is_first {
            // What ran before only measured or used the CPU time.
            self.nest_first();
        }
        self.push_frame(at, InterruptionKind::Task, key);
    }

    /// The event that began the interruption only led to what runs now, which becomes its cause.
    fn nest_first(&mut self) {
        let Some(interruption) = &mut self.interruption else { return };
        if let Some(key) = interruption.primary.take() {
            self.stats.rows.row(key).nested += 1;
        }
        interruption.has_first = false;
        interruption.carrier = false;
    }

    pub(super) fn on_work(&mut self, at: u64, pid: i32, function: u64) {
        // A kworker has one work item at a time: it finished that one on another CPU.
        let finished = self.suspended.remove(&pid);
        let mut frames = self.frames.iter_mut().rev();
        let mut task = frames.find(|frame| frame.kind == InterruptionKind::Task);
        if let (Some(finished), Some(frame)) = (finished, &mut task)
            && frame.key == Some(finished)
        {
            frame.key = None;
        }
        let unbound = task.is_some_and(|frame| match frame.otherwise.culprit {
            TracedCulprit::Task { comm, .. } => comm.starts_with(b"kworker/u"),
            _ => false,
        });
        self.enter(at);
        let culprit = TracedCulprit::Work { function, unbound };
        self.push_frame(
            at,
            InterruptionKind::Work,
            CulpritKey { cause: Cause::Workqueue, culprit },
        );
    }

    pub(super) fn on_work_end(&mut self, at: u64, pid: i32) {
        self.suspended.remove(&pid);
        self.close_frame(at, InterruptionKind::Work);
    }
}
