//! Whether an interrupt came from user mode or hit the kernel itself.
//!
//! Three sources, the best first:
//!
//! 1. The stack behind the event, where it is recorded: from user mode the entry code is its
//!    outermost caller, and nothing of the entry code is further in.
//! 2. Context tracking (CPUs of `nohz_full=`), which reports every entry from user mode but those
//!    of NMIs.
//! 3. What is known to run. It cannot tell an interrupt inside a page fault, whose end no event
//!    reports, from one after it; such an interrupt counts as from user mode.

use super::super::decode::TraceEvent;
use super::parts::{InterruptionKind, TraceContext};
use super::{EventKind, InterruptionTracker};
use cpushield_linux::text::kallsyms::KernelSymbols;

/// Interrupts that wait for their stack: an NMI may come between an event and its stack.
const HELD_MAX: usize = 8;

/// What an interrupt or exception interrupted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Privilege {
    /// User mode.
    User,
    /// The kernel itself: a system call, a page fault, a kernel thread, the idle loop.
    Kernel,
}

/// Where the entry code of the kernel lies: what it calls returns into these addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryText(Vec<(u64, u64)>);

/// Both ends of the entry code (include/asm-generic/vmlinux.lds.h, 5.18 to 6.18): on x86 the
/// entries of interrupts lie in a section of their own.
const SECTIONS: [(&str, &str); 2] =
    [("__entry_text_start", "__entry_text_end"), ("__irqentry_text_start", "__irqentry_text_end")];

impl EntryText {
    /// Of this kernel; `None` where its symbols do not say.
    #[must_use]
    pub fn of(symbols: &KernelSymbols) -> Option<EntryText> {
        let section = |(start, end)| Some((symbols.address(start)?, symbols.address(end)?));
        let found: Vec<_> = SECTIONS.into_iter().filter_map(section).collect();
        (!found.is_empty()).then_some(EntryText(found))
    }

    /// What an interrupt with this stack interrupted; callers innermost first.
    #[must_use]
    pub fn privilege(&self, callers: impl Iterator<Item = u64>) -> Privilege {
        // A return address may be the first after the end.
        let is_entry = |at: u64| self.0.iter().any(|(start, end)| *start < at && at <= *end);
        let (mut entries, mut outermost) = (0, false);
        for at in callers {
            outermost = is_entry(at);
            entries += usize::from(outermost);
        }
        if outermost && entries == 1 { Privilege::User } else { Privilege::Kernel }
    }
}

/// What is known of the privilege level of a CPU.
#[derive(Debug, Default)]
pub(super) struct PrivilegeLevel {
    /// Interrupts that wait for their stack, with what it said where it came.
    held: Vec<(TraceEvent, Option<Privilege>)>,
    /// What the stack of the present event said.
    stack: Option<Privilege>,
    /// Context tracking has reported an entry of which no event has said yet what it was.
    pub(super) unnamed: bool,
    /// The CPU is in user mode, as context tracking said last.
    pub(super) in_user: bool,
}

impl InterruptionTracker {
    /// The next event.
    pub fn event(&mut self, shared: &mut TraceContext, event: &TraceEvent) {
        let interrupt =
            matches!(event.what, EventKind::Vector(_) | EventKind::Irq | EventKind::Nmi);
        if event.what != EventKind::Nmi || self.level.held.len() >= HELD_MAX {
            self.release(shared);
        }
        if interrupt && shared.entry_text.is_some() {
            self.level.held.push((*event, None));
        } else {
            self.release(shared);
            self.apply(shared, event);
        }
    }

    /// The stack of the last event, callers innermost first.
    pub fn stack(&mut self, shared: &mut TraceContext, callers: impl Iterator<Item = u64>) {
        let callers: Vec<u64> = callers.collect();
        let waits = self.level.held.iter_mut().rev().find(|(_, privilege)| privilege.is_none());
        if let (Some((_, privilege)), Some(entry_text)) = (waits, &shared.entry_text) {
            *privilege = Some(entry_text.privilege(callers.iter().copied()));
            if self.level.held.iter().any(|(_, privilege)| privilege.is_none()) {
                return;
            }
            self.release(shared);
        }
        self.keep_stack(callers);
    }

    /// Whether an interrupt waits for its stack.
    #[must_use]
    pub fn awaits_stack(&self) -> bool {
        !self.level.held.is_empty()
    }

    /// When the first interrupt came that waits for its stack.
    #[must_use]
    pub fn held_since(&self) -> Option<u64> {
        self.level.held.first().map(|(event, _)| event.at)
    }

    /// No more stacks come for the interrupts so far.
    pub fn release(&mut self, shared: &mut TraceContext) {
        let mut held = std::mem::take(&mut self.level.held);
        for (event, privilege) in held.drain(..) {
            self.level.stack = privilege;
            self.apply(shared, &event);
            self.level.stack = None;
        }
        self.level.held = held;
    }

    /// Counts an entry from user mode that an event reports; where context tracking reports entries
    /// it has counted this one.
    pub(super) fn count_user_entry(&mut self) {
        self.level.unnamed = false;
        if !self.tracked {
            self.seen.entries += 1;
        }
    }

    /// Nothing has said what the entry of this stay was, though something hit the kernel in it.
    pub(super) fn is_unnamed(&self) -> bool {
        self.stay.is_some_and(|stay| stay.primary == Some(super::UNKNOWN))
    }

    /// Counts an exception that only its signal reports; context tracking reports all of them.
    pub(super) fn count_exception(&mut self) {
        if !self.tracked && self.is_bare() {
            self.seen.entries += 1;
        }
    }

    /// Counts an interrupt, and says what it interrupted.
    pub(super) fn count_interrupt(&mut self) -> Privilege {
        let privilege = self.level.stack.unwrap_or_else(|| self.infer_privilege());
        match privilege {
            // Interrupts are off in the handler of an interrupt, and what a softirq calls at the
            // end of one has the stack of one from user mode: no interrupt of the CPU.
            Privilege::User if !self.is_bare() => {}
            Privilege::User => self.count_user_entry(),
            Privilege::Kernel => {
                self.seen.kernel_interrupts += 1;
                self.name_entry();
            }
        }
        privilege
    }

    /// Counts an NMI, which context tracking does not report, and says what it interrupted.
    pub(super) fn count_nmi(&mut self) -> Privilege {
        let tracked = self.tracked.then_some(match self.level.in_user {
            true => Privilege::User,
            false => Privilege::Kernel,
        });
        let privilege = self.level.stack.or(tracked).unwrap_or_else(|| self.infer_privilege());
        match privilege {
            Privilege::User => self.seen.entries += 1,
            Privilege::Kernel => self.seen.kernel_interrupts += 1,
        }
        privilege
    }

    /// Something from outside: nested in what is open, or a stay of its own.
    pub(super) fn enter(&mut self, at: u64) {
        self.enter_from(at, Privilege::User);
    }

    /// The same, when it is known what it interrupted: a page fault whose end nothing reports is
    /// still open when it hit the kernel.
    pub(super) fn enter_from(&mut self, at: u64, privilege: Privilege) {
        match self.stay {
            Some(stay) if !self.frames.is_empty() || stay.resched => {}
            Some(stay) if stay.fault && privilege == Privilege::Kernel => {}
            Some(_) => {
                self.settle();
                self.begin(at);
            }
            None => self.begin(at),
        }
    }

    /// What an interrupt interrupts now, by what is known to run.
    fn infer_privilege(&self) -> Privilege {
        let user = if self.tracked {
            self.level.unnamed
        } else {
            let open = self.stay.is_some_and(|stay| !self.frames.is_empty() || stay.resched);
            self.ours && self.task != Some(0) && !open
        };
        if user { Privilege::User } else { Privilege::Kernel }
    }

    /// Nothing runs in the kernel for certain, but perhaps what an entry was for.
    fn is_bare(&self) -> bool {
        self.frames
            .iter()
            .all(|frame| matches!(frame.kind, InterruptionKind::Kernel | InterruptionKind::Task))
    }

    /// An interrupt hit the kernel after an entry of which no event says what it was: that was not
    /// this interrupt.
    fn name_entry(&mut self) {
        if std::mem::take(&mut self.level.unnamed)
            && let Some(stay) = &mut self.stay
            && !stay.has_first
        {
            stay.has_first = true;
            stay.primary = Some(super::UNKNOWN);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_interrupt_from_user_mode_has_the_entry_code_as_its_outermost_caller() {
        // Shortened from 6.12: the addresses of `asm_sysvec_apic_timer_interrupt`,
        // `asm_exc_page_fault` and `ret_from_fork_asm` as they lie to each other.
        let symbols = KernelSymbols::parse(
            "1000 T ret_from_fork_asm\n2000 T __entry_text_start\n2280 T asm_exc_page_fault\n\
             25f0 T asm_sysvec_apic_timer_interrupt\n3000 T __entry_text_end\n",
        );
        let entry_text = EntryText::of(&symbols).unwrap();
        let of = |callers: &[u64]| entry_text.privilege(callers.iter().copied());
        assert_eq!(of(&[0x500, 0x600, 0x2606]), Privilege::User);
        assert_eq!(of(&[0x500, 0x2606, 0x700, 0x2296]), Privilege::Kernel, "in a page fault");
        assert_eq!(of(&[0x500, 0x2606, 0x700, 0x101a]), Privilege::Kernel, "in a kernel thread");
        assert_eq!(of(&[0x500, 0x2606, 0x700]), Privilege::Kernel, "in the idle loop, or cut off");
        assert_eq!(of(&[]), Privilege::Kernel);
        assert_eq!(EntryText::of(&KernelSymbols::default()), None);
    }
}
