//! Interrupts, softirqs, timers, function calls and NMIs: what reaches a CPU from outside the task
//! that runs.

use super::super::entry_text::Privilege;
use super::super::parts::{InterruptionKind, ns_to_ticks};
use super::super::{HRTIMER_SOFTIRQ, InterruptionTracker, TraceContext};
use crate::causes::Cause;
use crate::causes::culprit::KernelEvent;
use crate::trace::culprit_stats::{CulpritKey, SoftirqOrigin, TracedCulprit};
use crate::trace::decode::ShortName;
use crate::trace::trace_events::X86Vector;

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
        self.enter_from(at, Some(privilege));
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
            self.enter_from(at, Some(privilege));
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
            frame.otherwise = event_key(KernelEvent::HrtimersInSoftirq);
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
            self.enter_from(start, Some(privilege));
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
}

/// The culprit of a vector when it is known at once, and the culprit when nothing inside names it.
fn culprit_of_vector(vector: X86Vector) -> (Option<CulpritKey>, CulpritKey) {
    let known = match vector {
        X86Vector::LocalTimer => {
            return (None, event_key(KernelEvent::NoHrtimerExpired));
        }
        X86Vector::CallMany | X86Vector::CallOne => return (None, unnamed_key(Cause::IpiCall)),
        X86Vector::Reschedule => unnamed_key(Cause::IpiReschedule),
        X86Vector::IrqWork => unnamed_key(Cause::IpiIrqWork),
        X86Vector::Platform => event_key(KernelEvent::PlatformIpi),
        X86Vector::Spurious => event_key(KernelEvent::SpuriousInterrupt),
        X86Vector::Error => event_key(KernelEvent::ApicError),
        X86Vector::Thermal => event_key(KernelEvent::Thermal),
        X86Vector::Threshold => event_key(KernelEvent::MachineCheckThreshold),
        X86Vector::Deferred => event_key(KernelEvent::DeferredMachineCheck),
    };
    (Some(known), known)
}

fn event_key(event: KernelEvent) -> CulpritKey {
    CulpritKey { cause: event.cause(), culprit: TracedCulprit::Event(event) }
}

fn unnamed_key(cause: Cause) -> CulpritKey {
    CulpritKey { cause, culprit: TracedCulprit::Unknown }
}
