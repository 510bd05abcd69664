//! What a phase shows only when it is over: what is left when every other name is taken. Pure.

use crate::causes::Cause;
use crate::verify::Interruptions;

/// Says of entries without an event what they can have been. `syscalls`: those were traced.
pub fn name_the_rest(rows: &mut [Interruptions], syscalls: bool) {
    let unnamed =
        |row: &&mut Interruptions| row.cause == Cause::Unattributed && row.culprit == WITHOUT_EVENT;
    for row in rows.iter_mut().filter(unnamed) {
        if syscalls {
            row.cause = Cause::Exception;
        }
        let left = if syscalls { WITHOUT_SIGNAL } else { NOT_TRACED };
        left.clone_into(&mut row.culprit);
    }
}

/// Context tracking alone saw it.
pub const WITHOUT_EVENT: &str = "an entry into the kernel without an event";

/// What no event tells of on x86 when system calls are traced too (arch/x86/kernel/traps.c, 6.12).
const WITHOUT_SIGNAL: &str = "without a signal: an instruction that the kernel emulates, or debug";

/// What it may have been when they are not.
const NOT_TRACED: &str = "a system call or an exception: --syscalls tells them apart";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verify::WitnessKind;

    fn row(cause: Cause, culprit: &str) -> Interruptions {
        let culprit = culprit.to_owned();
        let witness = WitnessKind::Trace;
        Interruptions {
            cause,
            culprit,
            count: 1,
            nested: 0,
            time_ns: None,
            max_ns: None,
            witness,
            stack: Vec::new(),
        }
    }

    #[test]
    fn what_context_tracking_alone_saw_is_an_exception_when_system_calls_were_traced() {
        let named = |syscalls| {
            let mut rows = [row(Cause::Unattributed, WITHOUT_EVENT)];
            name_the_rest(&mut rows, syscalls);
            rows
        };
        assert_eq!(named(true), [row(Cause::Exception, WITHOUT_SIGNAL)]);
        assert_eq!(named(false), [row(Cause::Unattributed, NOT_TRACED)]);
    }
}
