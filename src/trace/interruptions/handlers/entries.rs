//! Entries of the workload into the kernel: page faults, signals, system calls, and what context
//! tracking reports.

use super::super::breach::StackOwner;
use super::super::entry_text::Privilege;
use super::super::parts::{IdleSince, InterruptionKind};
use super::super::{InterruptionTracker, Moment, UNKNOWN};
use crate::causes::Cause;
use crate::causes::culprit::is_exception_signal;
use crate::trace::culprit_stats::{CulpritKey, TracedCulprit};

impl InterruptionTracker {
    pub(super) fn on_page_fault(&mut self, at: u64, bits: u64) {
        self.count_user_entry();
        if !self.runs_workload {
            return;
        }
        self.enter_from(at, Some(Privilege::User));
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
        if let (Some(history), Some(pid)) = (&mut self.history, self.task) {
            history.moment(at, Moment::Untimed(pid, key));
        }
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

    pub(super) fn on_syscall(&mut self, at: u64, number: u64) {
        self.count_user_entry();
        if self.runs_workload {
            self.enter_from(at, Some(Privilege::User));
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
}
