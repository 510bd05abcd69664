//! How each event changes the state of its CPU.

use super::super::culprit_stats::{CulpritKey, SoftirqOrigin, TracedCulprit};
use super::super::decode::{ShortName, TraceEvent};
use super::super::trace_events::X86Vector;
use super::breach::StackOwner;
use super::entry_text::Privilege;
use super::parts::{IdleSince, InterruptionKind};
use super::{HRTIMER_SOFTIRQ, InterruptionTracker, SUSPENDED_MAX, TraceContext, UNKNOWN};
use crate::causes::Cause;
use crate::causes::culprit::{KernelEvent, is_exception_signal};

/// An interrupt that a CPU sends to itself arrives within this time after its sender has ended.
const SOON_NS: u64 = 50_000;

impl InterruptionTracker {
    pub(super) fn on_vector(&mut self, context: &TraceContext, at: u64, vector: X86Vector) {
        let privilege = self.count_interrupt();
        let (mut key, mut otherwise) = culprit_of_vector(vector);
        if vector == X86Vector::IrqWork {
            otherwise.culprit = TracedCulprit::Raised(self.find_raiser(context, at));
            key = Some(otherwise);
        }
        self.enter_from(at, privilege);
        let alone = self.interruption.is_some_and(|interruption| !interruption.has_first);
        let fault = self.interruption.is_some_and(|interruption| interruption.fault);
        self.open_frame(at, InterruptionKind::Vector(vector), key, otherwise);
        self.set_in_fault(fault);
        if alone
            && matches!(vector, X86Vector::Reschedule | X86Vector::CallOne)
            && let Some(interruption) = &mut self.interruption
        {
            interruption.carrier = true;
        }
    }

    /// Finds what queued `irq_work`. It interrupts its own CPU at once or as soon as interrupts are
    /// enabled (`arch_irq_work_raise()`, arch/x86/kernel/irq_work.c, 4.17 to 6.18). So the origin
    /// is what runs now or what has just run.
    fn find_raiser(&self, context: &TraceContext, at: u64) -> SoftirqOrigin {
        let inner = self.frames.iter().rev().find(|frame| frame.kind != InterruptionKind::Kernel);
        let now = inner
            .map(|frame| frame.identity())
            .or(self.interruption.and_then(|interruption| interruption.primary));
        let soon_ticks = ns_to_ticks(SOON_NS, context.ticks_per_ns);
        let before = self
            .previous
            .filter(|(end, _)| at.saturating_sub(*end) <= soon_ticks)
            .map(|(_, key)| key);
        now.or(before)
            .map_or(SoftirqOrigin::Unknown, |key| SoftirqOrigin::from_culprit(key.culprit))
    }

    /// Restores whether a page fault is open: an interrupt inside it does not end it.
    fn set_in_fault(&mut self, fault: bool) {
        if let Some(interruption) = &mut self.interruption {
            interruption.fault = fault;
        }
    }

    pub(super) fn on_irq(&mut self, at: u64, number: u32, name: ShortName) {
        let culprit = TracedCulprit::Irq { number, name };
        // The next handler of a shared line is not a new interrupt.
        let same = self.interruption.is_some_and(|interruption| match interruption.last_handler {
            Some(TracedCulprit::Irq { number: n, name: first }) => n == number && first != name,
            _ => false,
        });
        let line =
            self.interruption.and_then(|interruption| interruption.last_handler).filter(|_| same);
        if !same {
            let privilege = self.count_interrupt();
            self.enter_from(at, privilege);
        }
        let fault = self.interruption.is_some_and(|interruption| interruption.fault);
        self.push_frame(at, InterruptionKind::Irq, CulpritKey { cause: Cause::Irq, culprit });
        self.set_in_fault(fault);
        if let Some(interruption) = &mut self.interruption {
            interruption.last_handler = line.or(Some(culprit));
        }
    }

    pub(super) fn on_softirq(&mut self, at: u64, number: u8) {
        let bit = 1u64.checked_shl(number.into()).unwrap_or(0);
        let ours = self.raised & bit != 0 && self.interruption.is_some();
        self.raised &= !bit;
        if !ours {
            self.enter(at);
        }
        let by = self.raisers.get_mut(usize::from(number)).map(std::mem::take).unwrap_or_default();
        let culprit = TracedCulprit::Softirq { number, by };
        self.push_frame(
            at,
            InterruptionKind::Softirq,
            CulpritKey { cause: Cause::Softirq, culprit },
        );
    }

    pub(super) fn on_raise(&mut self, number: u8) {
        let bit = 1u64.checked_shl(number.into()).unwrap_or(0);
        if self.raised & bit == 0
            && let Some(raiser) = self.raisers.get_mut(usize::from(number))
        {
            *raiser = self.frames.last().map_or(SoftirqOrigin::Unknown, |frame| {
                SoftirqOrigin::from_culprit(frame.identity().culprit)
            });
        }
        self.raised |= bit;
        if let Some(frame) = self.frames.last_mut()
            && frame.kind == InterruptionKind::Vector(X86Vector::LocalTimer)
            && number == HRTIMER_SOFTIRQ
        {
            let culprit = TracedCulprit::Event(KernelEvent::HrtimersInSoftirq);
            frame.otherwise = CulpritKey { cause: Cause::Hrtimer, culprit };
        }
    }

    pub(super) fn on_hrtimer(&mut self, context: &TraceContext, at: u64, function: u64) {
        if !context.tick.contains(&function) {
            return self.enter_function(at, InterruptionKind::Hrtimer, Cause::Hrtimer, function);
        }
        self.enter(at);
        let culprit = TracedCulprit::Tick { function, needed: self.tick_needed };
        self.push_frame(at, InterruptionKind::Hrtimer, CulpritKey { cause: Cause::Tick, culprit });
    }

    pub(super) fn on_work(&mut self, at: u64, function: u64) {
        let task = self.frames.iter().rev().find(|frame| frame.kind == InterruptionKind::Task);
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

    /// Counts something without a duration inside what runs.
    pub(super) fn count_untimed(&mut self, cause: Cause, culprit: TracedCulprit) {
        let row = self.stats.rows.row(CulpritKey { cause, culprit });
        row.nested += 1;
        row.untimed += 1;
    }

    /// The kernel accessed memory for the workload that was not mapped.
    pub(super) fn on_kernel_fault(&mut self, bits: u64) {
        if self.runs_workload && self.task != Some(0) {
            let bits = u8::try_from(bits & 0xff).unwrap_or(u8::MAX);
            self.count_untimed(Cause::PageFault, TracedCulprit::KernelFault(bits));
        }
    }

    pub(super) fn on_frequency(&mut self) {
        self.count_untimed(Cause::Frequency, TracedCulprit::Event(KernelEvent::FrequencySet));
    }

    pub(super) fn on_machine_check(&mut self, bank: u64) {
        let bank = u8::try_from(bank).unwrap_or(u8::MAX);
        self.count_untimed(Cause::MachineCheck, TracedCulprit::Bank(bank));
    }

    /// Names a function call that flushes the TLB, on kernels without its function. Reason 1 is
    /// `TLB_REMOTE_SHOOTDOWN` (`enum tlb_flush_reason`, include/linux/mm_types.h, 4.17 to 6.18).
    pub(super) fn on_tlb_flush(&mut self, reason: u64) {
        if let Some(frame) = self.frames.last_mut()
            && reason == 1
            && frame.key.is_none()
            && matches!(
                frame.kind,
                InterruptionKind::Vector(X86Vector::CallMany | X86Vector::CallOne)
            )
        {
            frame.otherwise.culprit = TracedCulprit::Event(KernelEvent::TlbShootdown);
        }
    }

    /// A signal reaches the workload on its way back to user mode. It comes from what runs, from
    /// what has just run, or from an exception without an event.
    pub(super) fn on_signal(&mut self, at: u64, number: u8, code: i32) {
        if !self.runs_workload || self.task == Some(0) {
            return;
        }
        let exception = is_exception_signal(number, code);
        let cause = if exception { Cause::Exception } else { Cause::Signal };
        let code = if code == 0x80 { i8::MIN } else { i8::try_from(code).unwrap_or(1) };
        let key = CulpritKey { cause, culprit: TracedCulprit::Signal { number, code } };
        let fault = self.interruption.is_some_and(|interruption| interruption.fault);
        if exception && !fault {
            self.count_exception();
            self.enter(at);
        } else if self.interruption.is_none() {
            self.begin_interruption(at);
        }
        self.charge_time(at);
        self.stack_owner = StackOwner::Row(key);
        self.stats.rows.row(key).untimed += 1;
        let names_entry = exception && self.is_unnamed();
        let Some(interruption) = &mut self.interruption else { return };
        let woken_by_ipi = interruption.carrier
            && self.frames.iter().all(|frame| frame.kind == InterruptionKind::Kernel);
        if let (true, Some(ipi)) = (woken_by_ipi, interruption.primary) {
            self.stats.rows.row(ipi).nested += 1;
        }
        if woken_by_ipi || !interruption.has_first || names_entry {
            (interruption.has_first, interruption.carrier, interruption.primary) =
                (true, false, Some(key));
        } else {
            self.stats.rows.row(key).nested += 1;
        }
        interruption.last = at;
    }

    pub(super) fn enter_function(
        &mut self,
        at: u64,
        kind: InterruptionKind,
        cause: Cause,
        address: u64,
    ) {
        self.enter(at);
        self.push_frame(at, kind, CulpritKey { cause, culprit: TracedCulprit::Function(address) });
    }

    pub(super) fn on_call(&mut self, context: &TraceContext, at: u64, address: u64) {
        self.enter_function(at, InterruptionKind::Call, Cause::IpiCall, address);
        if let Some(interruption) = &mut self.interruption
            && context.wake_function != Some(address)
        {
            interruption.carrier = false;
        }
    }

    pub(super) fn on_work_end(&mut self, at: u64, pid: i32) {
        self.suspended.remove(&pid);
        self.close_frame(at, InterruptionKind::Work);
    }

    pub(super) fn on_page_fault(&mut self, at: u64, bits: u64) {
        self.count_user_entry();
        if !self.runs_workload {
            return;
        }
        self.enter(at);
        let bits = u8::try_from(bits & 0xff).unwrap_or(0);
        let key = CulpritKey { cause: Cause::PageFault, culprit: TracedCulprit::Fault(bits) };
        self.push_frame(at, InterruptionKind::PageFault, key);
        if !self.frames.iter().any(|frame| frame.kind == InterruptionKind::Kernel) {
            // No event reports its end.
            self.pop_frame(at);
            self.stack_owner = StackOwner::Row(key);
            self.stats.rows.row(key).untimed += 1;
            if let Some(interruption) = &mut self.interruption {
                interruption.fault = true;
            }
        }
    }

    pub(super) fn on_nmi(
        &mut self,
        context: &TraceContext,
        at: u64,
        handler: u64,
        took_ns: u64,
        handled: bool,
    ) {
        let key = CulpritKey { cause: Cause::Nmi, culprit: TracedCulprit::Function(handler) };
        let start =
            at.saturating_sub(ns_to_ticks(took_ns, context.ticks_per_ns)).max(self.charged_until);
        let last_handler = self.interruption.and_then(|interruption| interruption.last_handler);
        let same = matches!(last_handler, Some(TracedCulprit::Function(first)) if first != handler);
        let mut inside = false;
        if !same {
            let privilege = self.count_nmi();
            self.enter_from(start, privilege);
            inside = privilege == Privilege::Kernel && !self.frames.is_empty();
        }
        self.charge_time(start);
        self.charged_until = at;
        let Some(interruption) = &mut self.interruption else { return };
        let is_first = match same {
            true => {
                handled
                    && interruption.primary.map(|first| first.culprit) == interruption.last_handler
            }
            false => !interruption.has_first && !inside,
        };
        if is_first {
            interruption.has_first = true;
            interruption.primary = Some(key);
        } else if !same {
            self.stats.rows.row(key).nested += 1;
        }
        if self.frames.is_empty() {
            interruption.last = at;
        }
        if !same {
            interruption.last_handler = Some(TracedCulprit::Function(handler));
        }
        self.stats.rows.row(key).ticks += at - start;
        if let Some(history) = &mut self.history {
            history.nmi((start, at), self.frames.len() + 1, key);
        }
    }

    pub(super) fn on_syscall(&mut self, at: u64, number: u64) {
        self.count_user_entry();
        if self.runs_workload {
            self.enter(at);
            let culprit = TracedCulprit::Syscall(number);
            self.push_frame(
                at,
                InterruptionKind::Syscall,
                CulpritKey { cause: Cause::Syscall, culprit },
            );
        }
    }

    pub(super) fn on_syscall_end(&mut self, at: u64) {
        self.close_frame(at, InterruptionKind::Syscall);
        if self.runs_workload && self.interruption.is_none() {
            // It slept in the call and returns to user mode only now.
            self.undisturbed = IdleSince::Since(at);
        }
    }

    pub(super) fn on_user_exit(&mut self, at: u64) {
        self.tracked = true;
        self.stats.entries += 1;
        (self.privilege_level.unnamed, self.privilege_level.in_user) = (true, false);
        if self.runs_workload && self.task != Some(0) {
            self.end_unless_nested();
            if self.interruption.is_none() {
                self.begin_interruption(at);
                self.push_frame(at, InterruptionKind::Kernel, UNKNOWN);
            }
        }
    }

    pub(super) fn on_user_enter(&mut self, at: u64) {
        self.tracked = true;
        (self.privilege_level.unnamed, self.privilege_level.in_user) = (false, true);
        if !self.runs_workload || self.task == Some(0) {
            return;
        }
        if self.interruption.is_some() {
            self.charge_time(at);
            self.end_interruption(at);
        } else {
            self.undisturbed = IdleSince::Since(at);
        }
    }

    pub(super) fn on_switch(
        &mut self,
        context: &TraceContext,
        event: &TraceEvent,
        blocks: bool,
        next: i32,
        comm: ShortName,
    ) {
        let at = event.at;
        self.stats.switches += 1;
        self.privilege_level.unnamed = false;
        self.leave_task(at, event.pid, blocks);
        self.set_running_task(context, next);
        let resumes_in_kernel = self.runs_workload && !self.frames.is_empty();
        if (self.runs_workload || next == 0) && !resumes_in_kernel {
            if self.interruption.is_some() {
                self.charge_time(at);
                self.end_interruption(at);
            }
            self.undisturbed = IdleSince::Since(at);
        } else if !self.runs_workload {
            if self.interruption.is_none() {
                self.begin_interruption(at);
            }
            self.enter_task(at, next, comm);
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
        if let Some(interruption) = &mut self.interruption
            && interruption.carrier
            && self.frames.iter().all(|frame| frame.kind == InterruptionKind::Kernel)
        {
            // The IPI only woke the task; the task is the cause.
            if let Some(key) = interruption.primary.take() {
                self.stats.rows.row(key).nested += 1;
            }
            interruption.has_first = false;
            interruption.carrier = false;
        }
        let task = CulpritKey { cause: Cause::Kthread, culprit: TracedCulprit::Task { pid, comm } };
        // A kworker is named after its work item.
        let unknown = if comm.starts_with(b"kworker/") { None } else { Some(task) };
        let key = self.suspended.get(&pid).copied().or(unknown);
        self.open_frame(at, InterruptionKind::Task, key, task);
    }
}

/// The culprit of a vector when it is known at once, and the culprit when nothing inside names it.
fn culprit_of_vector(vector: X86Vector) -> (Option<CulpritKey>, CulpritKey) {
    let known = match vector {
        X86Vector::LocalTimer => {
            return (None, event_key(Cause::Hrtimer, KernelEvent::NoHrtimerExpired));
        }
        X86Vector::CallMany | X86Vector::CallOne => return (None, unnamed_key(Cause::IpiCall)),
        X86Vector::Reschedule => unnamed_key(Cause::IpiReschedule),
        X86Vector::IrqWork => unnamed_key(Cause::IpiIrqWork),
        X86Vector::Platform => event_key(Cause::Unattributed, KernelEvent::PlatformIpi),
        X86Vector::Spurious => event_key(Cause::Unattributed, KernelEvent::SpuriousInterrupt),
        X86Vector::Error => event_key(Cause::MachineCheck, KernelEvent::ApicError),
        X86Vector::Thermal => event_key(Cause::MachineCheck, KernelEvent::Thermal),
        X86Vector::Threshold => event_key(Cause::MachineCheck, KernelEvent::MachineCheckThreshold),
        X86Vector::Deferred => event_key(Cause::MachineCheck, KernelEvent::DeferredMachineCheck),
    };
    (Some(known), known)
}

/// Converts nanoseconds to ticks.
pub fn ns_to_ticks(ns: u64, ticks_per_ns: f64) -> u64 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
    let ticks = (ns as f64 * ticks_per_ns) as u64;
    ticks
}

fn event_key(cause: Cause, event: KernelEvent) -> CulpritKey {
    CulpritKey { cause, culprit: TracedCulprit::Event(event) }
}

fn unnamed_key(cause: Cause) -> CulpritKey {
    CulpritKey { cause, culprit: TracedCulprit::Unknown }
}
