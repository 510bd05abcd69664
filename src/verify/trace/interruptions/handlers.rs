//! What each event does to the stay of its CPU.

use super::super::culprit_stats::{CulpritKey, SoftirqOrigin, TracedCulprit};
use super::super::decode::{ShortName, TraceEvent};
use super::super::trace_events::X86Vector;
use super::breach::StackOwner;
use super::parts::{IdleSince, InterruptionKind};
use super::privilege::Privilege;
use super::{HRTIMER_SOFTIRQ, InterruptionTracker, SUSPENDED_MAX, TraceContext, UNKNOWN};
use crate::causes::Cause;
use crate::causes::culprit::{KernelEvent, is_exception_signal};

/// An interrupt that a CPU sends to itself comes within this time after what sent it has ended.
const SOON_NS: u64 = 50_000;

impl InterruptionTracker {
    pub(super) fn vector(&mut self, shared: &TraceContext, at: u64, vector: X86Vector) {
        let privilege = self.count_interrupt();
        let (mut key, mut otherwise) = identity(vector);
        if vector == X86Vector::IrqWork {
            otherwise.who = TracedCulprit::Raised(self.raiser(shared, at));
            key = Some(otherwise);
        }
        self.enter_from(at, privilege);
        let alone = self.stay.is_some_and(|stay| !stay.has_first);
        let fault = self.stay.is_some_and(|stay| stay.fault);
        self.open(at, InterruptionKind::Vector(vector), key, otherwise);
        self.stays_in_fault(fault);
        if alone
            && matches!(vector, X86Vector::Reschedule | X86Vector::CallOne)
            && let Some(stay) = &mut self.stay
        {
            stay.carrier = true;
        }
    }

    /// Who had `irq_work` run: it interrupts its own CPU at once, or as soon as that lets it
    /// (`arch_irq_work_raise()`, arch/x86/kernel/irq_work.c, 4.17 to 6.18). So it is what runs now,
    /// or what has just run.
    fn raiser(&self, shared: &TraceContext, at: u64) -> SoftirqOrigin {
        let inner = self.frames.iter().rev().find(|frame| frame.kind != InterruptionKind::Kernel);
        let now = inner.map(|frame| frame.identity()).or(self.stay.and_then(|stay| stay.primary));
        let soon = |end: u64| at.saturating_sub(end) <= ticks(SOON_NS, shared.ticks_per_ns);
        let before = self.before.filter(|(end, _)| soon(*end)).map(|(_, key)| key);
        now.or(before).map_or(SoftirqOrigin::Nobody, |key| SoftirqOrigin::of(key.who))
    }

    /// The page fault that was interrupted still goes on.
    fn stays_in_fault(&mut self, fault: bool) {
        if let Some(stay) = &mut self.stay {
            stay.fault = fault;
        }
    }

    pub(super) fn irq(&mut self, at: u64, number: u32, name: ShortName) {
        let who = TracedCulprit::Irq { number, name };
        // The next handler of a shared line, not the next interrupt.
        let same = self.stay.is_some_and(|stay| match stay.shared {
            Some(TracedCulprit::Irq { number: n, name: first }) => n == number && first != name,
            _ => false,
        });
        let line = self.stay.and_then(|stay| stay.shared).filter(|_| same);
        if !same {
            let privilege = self.count_interrupt();
            self.enter_from(at, privilege);
        }
        let fault = self.stay.is_some_and(|stay| stay.fault);
        self.push(at, InterruptionKind::Irq, CulpritKey { cause: Cause::Irq, who });
        self.stays_in_fault(fault);
        if let Some(stay) = &mut self.stay {
            stay.shared = line.or(Some(who));
        }
    }

    pub(super) fn softirq(&mut self, at: u64, number: u8) {
        let bit = 1u64.checked_shl(number.into()).unwrap_or(0);
        let ours = self.raised & bit != 0 && self.stay.is_some();
        self.raised &= !bit;
        if !ours {
            self.enter(at);
        }
        let by = self.raisers.get_mut(usize::from(number)).map(std::mem::take).unwrap_or_default();
        let who = TracedCulprit::Softirq { number, by };
        self.push(at, InterruptionKind::Softirq, CulpritKey { cause: Cause::Softirq, who });
    }

    pub(super) fn raise(&mut self, number: u8) {
        let bit = 1u64.checked_shl(number.into()).unwrap_or(0);
        if self.raised & bit == 0
            && let Some(raiser) = self.raisers.get_mut(usize::from(number))
        {
            *raiser = self
                .frames
                .last()
                .map_or(SoftirqOrigin::Nobody, |frame| SoftirqOrigin::of(frame.identity().who));
        }
        self.raised |= bit;
        if let Some(frame) = self.frames.last_mut()
            && frame.kind == InterruptionKind::Vector(X86Vector::LocalTimer)
            && number == HRTIMER_SOFTIRQ
        {
            let who = TracedCulprit::Event(KernelEvent::HrtimersInSoftirq);
            frame.otherwise = CulpritKey { cause: Cause::Hrtimer, who };
        }
    }

    pub(super) fn hrtimer(&mut self, shared: &TraceContext, at: u64, function: u64) {
        if !shared.tick.contains(&function) {
            return self.function(at, InterruptionKind::Hrtimer, Cause::Hrtimer, function);
        }
        self.enter(at);
        let who = TracedCulprit::Tick { function, needed: self.needed };
        self.push(at, InterruptionKind::Hrtimer, CulpritKey { cause: Cause::Tick, who });
    }

    pub(super) fn work(&mut self, at: u64, function: u64) {
        let task = self.frames.iter().rev().find(|frame| frame.kind == InterruptionKind::Task);
        let unbound = task.is_some_and(|frame| match frame.otherwise.who {
            TracedCulprit::Task { comm, .. } => comm.starts_with(b"kworker/u"),
            _ => false,
        });
        self.enter(at);
        let who = TracedCulprit::Work { function, unbound };
        self.push(at, InterruptionKind::Work, CulpritKey { cause: Cause::Workqueue, who });
    }

    /// Something that takes no time of its own, inside whatever runs.
    pub(super) fn aside(&mut self, cause: Cause, who: TracedCulprit) {
        let row = self.seen.rows.row(CulpritKey { cause, who });
        row.nested += 1;
        row.untimed += 1;
    }

    /// A function call that flushes the TLB, on kernels that do not name the function. Reason 1 is
    /// `TLB_REMOTE_SHOOTDOWN` (`enum tlb_flush_reason`, include/linux/mm_types.h, 4.17 to 6.18).
    pub(super) fn tlb_flush(&mut self, reason: u64) {
        if let Some(frame) = self.frames.last_mut()
            && reason == 1
            && frame.key.is_none()
            && matches!(
                frame.kind,
                InterruptionKind::Vector(X86Vector::CallMany | X86Vector::CallOne)
            )
        {
            frame.otherwise.who = TracedCulprit::Event(KernelEvent::TlbShootdown);
        }
    }

    /// A signal reaches the workload on its way back to user mode: from what runs, from what has
    /// just run, or from an exception that no event tells of.
    pub(super) fn signal(&mut self, at: u64, number: u8, code: i32) {
        if !self.ours || self.task == Some(0) {
            return;
        }
        let exception = is_exception_signal(number, code);
        let cause = if exception { Cause::Exception } else { Cause::Signal };
        let code = if code == 0x80 { i8::MIN } else { i8::try_from(code).unwrap_or(1) };
        let key = CulpritKey { cause, who: TracedCulprit::Signal { number, code } };
        let fault = self.stay.is_some_and(|stay| stay.fault);
        if exception && !fault {
            self.count_exception();
            self.enter(at);
        } else if self.stay.is_none() {
            self.begin(at);
        }
        self.charge(at);
        self.stackee = StackOwner::Row(key);
        self.seen.rows.row(key).untimed += 1;
        let names_entry = exception && self.is_unnamed();
        let Some(stay) = &mut self.stay else { return };
        let brought =
            stay.carrier && self.frames.iter().all(|frame| frame.kind == InterruptionKind::Kernel);
        if let (true, Some(way)) = (brought, stay.primary) {
            self.seen.rows.row(way).nested += 1;
        }
        if brought || !stay.has_first || names_entry {
            (stay.has_first, stay.carrier, stay.primary) = (true, false, Some(key));
        } else {
            self.seen.rows.row(key).nested += 1;
        }
        stay.last = at;
    }

    pub(super) fn function(&mut self, at: u64, kind: InterruptionKind, cause: Cause, address: u64) {
        self.enter(at);
        self.push(at, kind, CulpritKey { cause, who: TracedCulprit::Function(address) });
    }

    pub(super) fn call(&mut self, shared: &TraceContext, at: u64, address: u64) {
        self.function(at, InterruptionKind::Call, Cause::IpiCall, address);
        if let Some(stay) = &mut self.stay
            && shared.wakes != Some(address)
        {
            stay.carrier = false;
        }
    }

    pub(super) fn work_end(&mut self, at: u64, pid: i32) {
        self.suspended.remove(&pid);
        self.close(at, InterruptionKind::Work);
    }

    pub(super) fn page_fault(&mut self, at: u64, bits: u64) {
        self.count_user_entry();
        if !self.ours {
            return;
        }
        self.enter(at);
        let bits = u8::try_from(bits & 0xff).unwrap_or(0);
        let key = CulpritKey { cause: Cause::PageFault, who: TracedCulprit::Fault(bits) };
        self.push(at, InterruptionKind::PageFault, key);
        if !self.frames.iter().any(|frame| frame.kind == InterruptionKind::Kernel) {
            // Nothing says when it ends.
            self.pop(at);
            self.stackee = StackOwner::Row(key);
            self.seen.rows.row(key).untimed += 1;
            if let Some(stay) = &mut self.stay {
                stay.fault = true;
            }
        }
    }

    pub(super) fn nmi(
        &mut self,
        shared: &TraceContext,
        at: u64,
        handler: u64,
        took_ns: u64,
        handled: bool,
    ) {
        let key = CulpritKey { cause: Cause::Nmi, who: TracedCulprit::Function(handler) };
        let start = at.saturating_sub(ticks(took_ns, shared.ticks_per_ns)).max(self.mark);
        let same = self.stay.is_some_and(
            |stay| matches!(stay.shared, Some(TracedCulprit::Function(first)) if first != handler),
        );
        let mut inside = false;
        if !same {
            let privilege = self.count_nmi();
            self.enter_from(start, privilege);
            inside = privilege == Privilege::Kernel && !self.frames.is_empty();
        }
        self.charge(start);
        self.mark = at;
        let Some(stay) = &mut self.stay else { return };
        let is_first = match same {
            true => handled && stay.primary.map(|first| first.who) == stay.shared,
            false => !stay.has_first && !inside,
        };
        if is_first {
            stay.has_first = true;
            stay.primary = Some(key);
        } else if !same {
            self.seen.rows.row(key).nested += 1;
        }
        if self.frames.is_empty() {
            stay.last = at;
        }
        if !same {
            stay.shared = Some(TracedCulprit::Function(handler));
        }
        self.seen.rows.row(key).ticks += at - start;
        if let Some(tape) = &mut self.tape {
            tape.nmi((start, at), self.frames.len() + 1, key);
        }
    }

    pub(super) fn syscall(&mut self, at: u64, number: u64) {
        self.count_user_entry();
        if self.ours {
            self.enter(at);
            let who = TracedCulprit::Syscall(number);
            self.push(at, InterruptionKind::Syscall, CulpritKey { cause: Cause::Syscall, who });
        }
    }

    pub(super) fn syscall_end(&mut self, at: u64) {
        self.close(at, InterruptionKind::Syscall);
        if self.ours && self.stay.is_none() {
            // It had slept in the call; only now it is back in user mode.
            self.rest = IdleSince::Since(at);
        }
    }

    pub(super) fn user_exit(&mut self, at: u64) {
        self.tracked = true;
        self.seen.entries += 1;
        (self.level.unnamed, self.level.in_user) = (true, false);
        if self.ours && self.task != Some(0) {
            self.settle();
            if self.stay.is_none() {
                self.begin(at);
                self.push(at, InterruptionKind::Kernel, UNKNOWN);
            }
        }
    }

    pub(super) fn user_enter(&mut self, at: u64) {
        self.tracked = true;
        (self.level.unnamed, self.level.in_user) = (false, true);
        if !self.ours || self.task == Some(0) {
            return;
        }
        if self.stay.is_some() {
            self.charge(at);
            self.end(at);
        } else {
            self.rest = IdleSince::Since(at);
        }
    }

    pub(super) fn switch(
        &mut self,
        shared: &TraceContext,
        event: &TraceEvent,
        blocks: bool,
        next: i32,
        comm: ShortName,
    ) {
        let at = event.at;
        self.seen.switches += 1;
        self.level.unnamed = false;
        self.leave(at, event.pid, blocks);
        self.runs(shared, next);
        let back = self.ours && !self.frames.is_empty();
        if (self.ours || next == 0) && !back {
            if self.stay.is_some() {
                self.charge(at);
                self.end(at);
            }
            self.rest = IdleSince::Since(at);
        } else if !self.ours {
            if self.stay.is_none() {
                self.begin(at);
            }
            self.task_begins(at, next, comm);
        }
    }

    /// The task that ran leaves the CPU.
    fn leave(&mut self, at: u64, pid: i32, blocks: bool) {
        // No handler stays open across a switch; a work item may, and on RT a softirq.
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
                    self.pop(at);
                }
                _ => self.pop(at),
            }
        }
        if self.frames.last().is_some_and(|frame| frame.kind == InterruptionKind::Task) {
            self.pop(at);
            return;
        }
        // What follows the workload (or idle) belongs to the stay only if it announced itself.
        let goes_on = self
            .stay
            .is_some_and(|stay| !self.frames.is_empty() || stay.resched || (stay.fault && blocks));
        if !goes_on {
            self.settle();
        }
        if self.ours && blocks && pid != 0 {
            self.sleeps(at);
        }
        if self.stay.is_none() {
            self.stretch(at);
            self.rest = IdleSince::Unknown;
        }
    }

    /// The workload waits for something; what follows does not interrupt it.
    fn sleeps(&mut self, at: u64) {
        let who = TracedCulprit::Event(KernelEvent::Slept);
        let key = CulpritKey { cause: Cause::Syscall, who };
        if self.stay.is_none() {
            self.begin(at);
            self.seen.rows.row(key).untimed += 1;
        }
        self.stackee = StackOwner::Row(key);
        self.charge(at);
        if let Some(stay) = &mut self.stay
            && (!stay.has_first || stay.primary == Some(UNKNOWN))
        {
            stay.has_first = true;
            stay.primary = Some(key);
        }
        self.end(at);
    }

    /// Another task than the workload comes.
    fn task_begins(&mut self, at: u64, pid: i32, comm: ShortName) {
        self.charge(at);
        if let Some(stay) = &mut self.stay
            && stay.carrier
            && self.frames.iter().all(|frame| frame.kind == InterruptionKind::Kernel)
        {
            // The IPI was only the way in; whom it woke is the cause.
            if let Some(key) = stay.primary.take() {
                self.seen.rows.row(key).nested += 1;
            }
            stay.has_first = false;
            stay.carrier = false;
        }
        let task = CulpritKey { cause: Cause::Kthread, who: TracedCulprit::Task { pid, comm } };
        // A kworker is named by what it works on.
        let unknown = if comm.starts_with(b"kworker/") { None } else { Some(task) };
        let key = self.suspended.get(&pid).copied().or(unknown);
        self.open(at, InterruptionKind::Task, key, task);
    }
}

/// What a vector is: known at once, or else this when nothing inside names it.
fn identity(vector: X86Vector) -> (Option<CulpritKey>, CulpritKey) {
    let key = |cause, event| CulpritKey { cause, who: TracedCulprit::Event(event) };
    let unnamed = |cause| CulpritKey { cause, who: TracedCulprit::Unknown };
    let known = match vector {
        X86Vector::LocalTimer => return (None, key(Cause::Hrtimer, KernelEvent::NoHrtimerExpired)),
        X86Vector::CallMany | X86Vector::CallOne => return (None, unnamed(Cause::IpiCall)),
        X86Vector::Reschedule => unnamed(Cause::IpiReschedule),
        X86Vector::IrqWork => unnamed(Cause::IpiIrqWork),
        X86Vector::Platform => key(Cause::Unattributed, KernelEvent::PlatformIpi),
        X86Vector::Spurious => key(Cause::Unattributed, KernelEvent::SpuriousInterrupt),
        X86Vector::Error => key(Cause::MachineCheck, KernelEvent::ApicError),
        X86Vector::Thermal => key(Cause::MachineCheck, KernelEvent::Thermal),
        X86Vector::Threshold => key(Cause::MachineCheck, KernelEvent::MachineCheckThreshold),
        X86Vector::Deferred => key(Cause::MachineCheck, KernelEvent::DeferredMachineCheck),
    };
    (Some(known), known)
}

/// Nanoseconds in ticks.
pub fn ticks(ns: u64, ticks_per_ns: f64) -> u64 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
    let ticks = (ns as f64 * ticks_per_ns) as u64;
    ticks
}
