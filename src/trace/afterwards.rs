//! Names that are known only at the end of a phase, by elimination. Pure.

use crate::causes::Cause;
use crate::causes::culprit::KernelEvent;
use crate::documents::evidence::InterruptionCount;

/// Names entries without an event. `syscalls`: whether system calls were traced.
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
    use crate::documents::evidence::WitnessKind;

    fn row(cause: Cause, event: KernelEvent) -> InterruptionCount {
        InterruptionCount::counted(cause, event.into(), 1, WitnessKind::Trace)
    }

    #[test]
    fn an_entry_without_an_event_is_an_exception_when_system_calls_were_traced() {
        let named = |syscalls| {
            let mut rows = [row(Cause::Unattributed, KernelEvent::WithoutEvent)];
            name_entries_without_event(&mut rows, syscalls);
            rows
        };
        assert_eq!(named(true), [row(Cause::Exception, KernelEvent::ExceptionWithoutSignal)]);
        assert_eq!(named(false), [row(Cause::Unattributed, KernelEvent::SyscallOrException)]);
    }
}
