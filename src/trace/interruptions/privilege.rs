//! Whether an interrupt came from user mode or hit kernel code.
//!
//! There are three sources, the best first:
//!
//! 1. The stack behind the event, where it is recorded. For an interrupt from user mode, the entry
//!    code is its outermost caller and appears only once.
//! 2. Context tracking (CPUs of `nohz_full=`), which reports every entry from user mode except
//!    those of NMIs.
//! 3. What is known to run. This cannot distinguish an interrupt inside a page fault, whose end no
//!    event reports, from one after it. Such an interrupt counts as from user mode.

use super::super::decode::TraceEvent;
use super::entry_text::Privilege;
use super::parts::{InterruptionKind, TraceContext};
use super::{EventKind, InterruptionTracker};

/// The most interrupts that wait for their stack. An NMI may come between an event and its stack.
const HELD_MAX: usize = 8;

/// What is known about the privilege level of a CPU.
#[derive(Debug, Default)]
pub(super) struct PrivilegeLevel {
    /// Interrupts that wait for their stack, and the result for those whose stack has arrived.
    held: Vec<(TraceEvent, Option<Privilege>)>,
    /// The result from the stack of the current event.
    stack: Option<Privilege>,
    /// Whether context tracking has reported an entry that no event has named yet.
    pub(super) unnamed: bool,
    /// Whether the CPU is in user mode, according to context tracking.
    pub(super) in_user: bool,
}

impl InterruptionTracker {
    /// Takes the next event, and holds an interrupt until its stack arrives.
    pub fn handle_event(&mut self, context: &mut TraceContext, event: &TraceEvent) {
        let interrupt =
            matches!(event.kind, EventKind::Vector(_) | EventKind::Irq | EventKind::Nmi);
        if event.kind != EventKind::Nmi || self.privilege_level.held.len() >= HELD_MAX {
            self.release_held(context);
        }
        if interrupt && context.entry_text.is_some() {
            self.privilege_level.held.push((*event, None));
        } else {
            self.release_held(context);
            self.apply(context, event);
        }
    }

    /// Takes the stack of the last event, innermost caller first.
    pub fn handle_stack(&mut self, context: &mut TraceContext, callers: impl Iterator<Item = u64>) {
        let callers: Vec<u64> = callers.collect();
        let waiting =
            self.privilege_level.held.iter_mut().rev().find(|(_, privilege)| privilege.is_none());
        if let (Some((_, privilege)), Some(entry_text)) = (waiting, &context.entry_text) {
            *privilege = Some(entry_text.privilege(callers.iter().copied()));
            if self.privilege_level.held.iter().any(|(_, privilege)| privilege.is_none()) {
                return;
            }
            self.release_held(context);
        }
        self.keep_stack(callers);
    }

    /// Whether an interrupt waits for its stack.
    #[must_use]
    pub fn awaits_stack(&self) -> bool {
        !self.privilege_level.held.is_empty()
    }

    /// The time of the first interrupt that waits for its stack.
    #[must_use]
    pub fn held_since(&self) -> Option<u64> {
        self.privilege_level.held.first().map(|(event, _)| event.at)
    }

    /// Applies the held interrupts; no more stacks arrive for them.
    pub fn release_held(&mut self, context: &mut TraceContext) {
        let mut held = std::mem::take(&mut self.privilege_level.held);
        for (event, privilege) in held.drain(..) {
            self.privilege_level.stack = privilege;
            self.apply(context, &event);
            self.privilege_level.stack = None;
        }
        self.privilege_level.held = held;
    }

    /// Counts an entry from user mode that an event reports. Where context tracking reports
    /// entries, this one is counted already.
    pub(super) fn count_user_entry(&mut self) {
        self.privilege_level.unnamed = false;
        if !self.tracked {
            self.stats.entries += 1;
        }
    }

    /// Whether something hit the kernel in this interruption, while its entry is still unnamed.
    pub(super) fn is_unnamed(&self) -> bool {
        self.interruption.is_some_and(|interruption| interruption.primary == Some(super::UNKNOWN))
    }

    /// Counts an exception that only its signal reports. Context tracking reports all exceptions.
    pub(super) fn count_exception(&mut self) {
        if !self.tracked && self.runs_no_handler() {
            self.stats.entries += 1;
        }
    }

    /// Counts an interrupt and returns what it interrupted.
    pub(super) fn count_interrupt(&mut self) -> Privilege {
        let privilege = self.privilege_level.stack.unwrap_or_else(|| self.infer_privilege());
        match privilege {
            // Interrupts are off in an interrupt handler. A handler that a softirq calls at the end
            // of an interrupt has a stack as from user mode, but is no interrupt of the CPU.
            Privilege::User if !self.runs_no_handler() => {}
            Privilege::User => self.count_user_entry(),
            Privilege::Kernel => {
                self.stats.kernel_interrupts += 1;
                self.mark_entry_unnamed();
            }
        }
        privilege
    }

    /// Counts an NMI, which context tracking does not report, and returns what it interrupted.
    pub(super) fn count_nmi(&mut self) -> Privilege {
        let tracked = self.tracked.then_some(match self.privilege_level.in_user {
            true => Privilege::User,
            false => Privilege::Kernel,
        });
        let privilege =
            self.privilege_level.stack.or(tracked).unwrap_or_else(|| self.infer_privilege());
        match privilege {
            Privilege::User => self.stats.entries += 1,
            Privilege::Kernel => self.stats.kernel_interrupts += 1,
        }
        privilege
    }

    /// Something enters from outside, or runs at the end of what did: nested in an open frame,
    /// after a request to reschedule, or as a new interruption.
    pub(super) fn enter(&mut self, at: u64) {
        self.enter_from(at, None);
    }

    /// The same with a known origin. From user mode it is a new interruption, even after a request
    /// to reschedule that led to no switch. If it hit the kernel, a page fault without a reported
    /// end is still open.
    pub(super) fn enter_from(&mut self, at: u64, privilege: Option<Privilege>) {
        match self.interruption {
            Some(_) if !self.frames.is_empty() => {}
            Some(interruption) if interruption.resched && privilege != Some(Privilege::User) => {}
            Some(interruption) if interruption.fault && privilege == Some(Privilege::Kernel) => {}
            Some(_) => {
                self.end_unless_nested();
                self.begin_interruption(at);
            }
            None => self.begin_interruption(at),
        }
    }

    /// Infers what an interrupt interrupts now, from what is known to run.
    fn infer_privilege(&self) -> Privilege {
        let user = if self.tracked {
            self.privilege_level.unnamed
        } else {
            let open = self
                .interruption
                .is_some_and(|interruption| !self.frames.is_empty() || interruption.resched);
            self.runs_workload && self.task != Some(0) && !open
        };
        if user { Privilege::User } else { Privilege::Kernel }
    }

    /// Whether no handler is known to run; the reason for an entry may still be running.
    fn runs_no_handler(&self) -> bool {
        self.frames
            .iter()
            .all(|frame| matches!(frame.kind, InterruptionKind::Kernel | InterruptionKind::Task))
    }

    /// Marks the entry as unnamed: an interrupt hit the kernel after it, so it was another entry.
    fn mark_entry_unnamed(&mut self) {
        if std::mem::take(&mut self.privilege_level.unnamed)
            && let Some(interruption) = &mut self.interruption
            && !interruption.has_first
        {
            interruption.has_first = true;
            interruption.primary = Some(super::UNKNOWN);
        }
    }
}
