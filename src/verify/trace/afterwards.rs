//! What a phase shows only when it is over: what is left when every other name is taken. Pure.

use crate::causes::Cause;
use crate::causes::culprit::KernelEvent;
use crate::verify::InterruptionCount;

/// Says of entries without an event what they can have been. `syscalls`: those were traced.
pub fn name_entries_without_event(rows: &mut [InterruptionCount], syscalls: bool) {
    let without_event = KernelEvent::WithoutEvent.into();
    for row in rows.iter_mut() {
        if row.cause != Cause::Unattributed || row.culprit != without_event {
            continue;
        }
        (row.cause, row.culprit) = match syscalls {
            true => (Cause::Exception, KernelEvent::ExceptionWithoutSignal.into()),
            false => (Cause::Unattributed, KernelEvent::SyscallOrException.into()),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verify::WitnessKind;

    fn row(cause: Cause, event: KernelEvent) -> InterruptionCount {
        InterruptionCount::counted(cause, event.into(), 1, WitnessKind::Trace)
    }

    #[test]
    fn what_context_tracking_alone_saw_is_an_exception_when_system_calls_were_traced() {
        let named = |syscalls| {
            let mut rows = [row(Cause::Unattributed, KernelEvent::WithoutEvent)];
            name_entries_without_event(&mut rows, syscalls);
            rows
        };
        assert_eq!(named(true), [row(Cause::Exception, KernelEvent::ExceptionWithoutSignal)]);
        assert_eq!(named(false), [row(Cause::Unattributed, KernelEvent::SyscallOrException)]);
    }
}
