//! Calls the handler of each event. The handlers here count what has no duration, or only note
//! something; those of what begins and ends are in a file for each group.

mod entries;
mod interrupts;
mod switches;

use super::super::culprit_stats::{CulpritKey, TracedCulprit};
use super::super::decode::{EventValues, TraceEvent};
use super::super::trace_events::{EventKind, X86Vector};
use super::parts::InterruptionKind;
use super::{InterruptionTracker, Moment, TraceContext};
use crate::causes::Cause;
use crate::causes::culprit::KernelEvent;

impl InterruptionTracker {
    /// Calls the handler of the event. `None` if its values are those of another kind of event; the
    /// decoder takes both from one line of the table.
    pub(super) fn dispatch(
        &mut self,
        context: &mut TraceContext,
        event: &TraceEvent,
    ) -> Option<()> {
        let (at, values) = (event.at, event.values);
        match event.kind {
            EventKind::Vector(vector) => self.on_vector(context, at, vector),
            EventKind::VectorEnd(vector) => self.close_frame(at, InterruptionKind::Vector(vector)),
            EventKind::Irq => {
                let EventValues::Irq { number, name } = values else { return None };
                self.on_irq(at, number, name);
            }
            EventKind::IrqEnd => self.close_frame(at, InterruptionKind::Irq),
            EventKind::Softirq => self.on_softirq(at, to_u8(values.number()?)),
            EventKind::SoftirqEnd => self.close_frame(at, InterruptionKind::Softirq),
            EventKind::SoftirqRaise => self.on_raise(to_u8(values.number()?)),
            EventKind::Hrtimer => self.on_hrtimer(context, at, values.number()?),
            EventKind::HrtimerEnd => self.close_frame(at, InterruptionKind::Hrtimer),
            EventKind::Timer => {
                self.enter_function(at, InterruptionKind::Timer, Cause::Timer, values.number()?);
            }
            EventKind::TimerEnd => self.close_frame(at, InterruptionKind::Timer),
            EventKind::Call => self.on_call(context, at, values.number()?),
            EventKind::CallEnd => self.close_frame(at, InterruptionKind::Call),
            EventKind::Work => self.on_work(at, event.pid, values.number()?),
            EventKind::WorkEnd => self.on_work_end(at, event.pid),
            EventKind::Switch => {
                let EventValues::Switch { left, pid, comm } = values else { return None };
                self.on_switch(context, event, left, (pid, comm));
            }
            EventKind::Fork => {
                let EventValues::Fork { parent, child } = values else { return None };
                if context.workload.contains(&parent) {
                    context.workload.insert(child);
                }
            }
            EventKind::PageFault => self.on_page_fault(at, values.number()?),
            EventKind::KernelFault => self.on_kernel_fault(values.number()?),
            EventKind::TickStop => {
                let EventValues::Tick { stopped, needed } = values else { return None };
                self.tick_needed = if stopped { 0 } else { needed };
            }
            EventKind::Signal => {
                let EventValues::Signal { number, code } = values else { return None };
                self.on_signal(at, number, code);
            }
            EventKind::Frequency => self.on_frequency(),
            EventKind::MachineCheck => self.on_machine_check(values.number()?),
            EventKind::TlbFlush => self.on_tlb_flush(values.number()?),
            EventKind::Nmi => {
                let EventValues::Nmi { handler, took_ns, handled } = values else { return None };
                self.on_nmi(context, at, handler, took_ns, handled);
            }
            EventKind::Syscall => self.on_syscall(at, values.number()?),
            EventKind::SyscallEnd => self.on_syscall_end(at),
            EventKind::UserExit => self.on_user_exit(at),
            EventKind::UserEnter => self.on_user_enter(at),
        }
        Some(())
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
            let culprit = TracedCulprit::KernelFault(bits);
            self.count_untimed(Cause::PageFault, culprit);
            if let (Some(history), Some(pid)) = (&mut self.history, self.task) {
                let key = CulpritKey { cause: Cause::PageFault, culprit };
                history.moment(self.last, Moment::Untimed(pid, key));
            }
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
}

/// Converts a number that is small whenever it is valid.
fn to_u8(n: u64) -> u8 {
    u8::try_from(n).unwrap_or(u8::MAX)
}
