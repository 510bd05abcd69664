//! Kernel stacks in the trace: each follows the record of its event. Pure,
//! at constant memory.

use cpushield_linux::text::kallsyms::KernelSymbols;
use cpushield_linux::text::trace_format::EventFormat;
use std::collections::HashMap;

/// The most stacks that are kept; further ones are dropped.
const STACKS_MAX: usize = 1024;

/// The most callers of a stack that are read, innermost first. A kick of a timer's CPU is seven
/// deep, a module that patches code while it is loaded about fifteen.
const CALLERS_MAX: usize = 32;

/// Whether senders are reported with their stacks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SenderStacks {
    /// With the functions of the stack.
    Reported,
    /// By their names alone.
    #[default]
    Omitted,
}

/// The form of a stack record (`kernel_stack`, kernel/trace/
/// trace_entries.h, 4.17 to 6.18).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StackForm {
    /// Its `common_type`.
    pub id: u16,
    /// Offset of the first caller.
    pub callers: usize,
}

impl StackForm {
    /// From the format of `ftrace:kernel_stack`.
    #[must_use]
    pub fn from_format(format: &EventFormat) -> Option<StackForm> {
        Some(StackForm { id: format.id, callers: format.field("caller")?.offset })
    }

    /// The callers in a stack record, innermost first; `None` for any other record.
    pub fn callers<'a>(&self, record: &'a [u8]) -> Option<impl Iterator<Item = u64> + 'a> {
        let id = u16::from_le_bytes(*record.first_chunk()?);
        let words = record.get(self.callers..).filter(|_| id == self.id)?.chunks_exact(8);
        let callers = words.filter_map(|word| Some(u64::from_le_bytes(*word.first_chunk()?)));
        // The kernel ends a truncated stack with this value (`ULONG_MAX`; before 5.2 every stack).
        Some(callers.take_while(|at| *at != u64::MAX && *at != 0).take(CALLERS_MAX))
    }
}

/// The different stacks that were seen, by number.
#[derive(Debug, Clone, Default)]
pub struct StackTable {
    known: HashMap<Vec<u64>, u32>,
}

impl StackTable {
    /// The number of a stack, which is added if it is new; `None` when there are too many.
    pub fn number(&mut self, callers: Vec<u64>) -> Option<u32> {
        let next = u32::try_from(self.known.len()).ok()?;
        match self.known.get(&callers) {
            Some(known) => Some(*known),
            None if self.known.len() < STACKS_MAX => {
                self.known.insert(callers, next);
                Some(next)
            }
            None => None,
        }
    }

    /// All stacks by number.
    #[must_use]
    pub fn by_number(&self) -> HashMap<u32, &[u64]> {
        self.known.iter().map(|(stack, n)| (*n, stack.as_slice())).collect()
    }

    /// The function names of a stack, innermost first, without those of the tracing itself; empty
    /// for an unknown stack.
    #[must_use]
    pub fn function_names(&self, number: Option<u32>, symbols: &KernelSymbols) -> Vec<String> {
        let known = self.known.iter().find(|(_, n)| Some(**n) == number);
        known.map(|(stack, _)| name_functions(stack, symbols)).unwrap_or_default()
    }
}

/// The function names of a stack, innermost first, without those that write the event itself
/// (`trace_event_raw_event_…`, `trace_event_buffer_commit`, include/trace/trace_events.h).
#[must_use]
pub fn name_functions(callers: &[u64], symbols: &KernelSymbols) -> Vec<String> {
    let names = callers.iter().map(|at| match symbols.containing(*at) {
        Some(name) => name.to_owned(),
        None => format!("{at:#x}"),
    });
    names.skip_while(|name| is_tracing(name)).collect()
}

fn is_tracing(function: &str) -> bool {
    function.starts_with("trace_event_") || function.starts_with("__traceiter_")
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORM: StackForm = StackForm { id: 4, callers: 16 };

    fn record(callers: &[u64]) -> Vec<u8> {
        let mut bytes = vec![4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        callers.iter().for_each(|at| bytes.extend(at.to_le_bytes()));
        bytes
    }

    #[test]
    fn a_stack_is_read_up_to_its_end_and_kept_once() {
        let bytes = record(&[0x10, 0x20, u64::MAX, 0x30]);
        let read = |bytes: &[u8]| FORM.callers(bytes).map(Iterator::collect::<Vec<u64>>);
        assert_eq!(read(&bytes), Some(vec![0x10, 0x20]));
        assert_eq!(read(&bytes[..20]), Some(Vec::new()), "truncated");
        assert_eq!(read(&[5, 0, 0]), None, "something else");
        let mut stacks = StackTable::default();
        let numbers = [vec![1], vec![2], vec![1]].map(|stack| stacks.number(stack));
        assert_eq!(numbers, [Some(0), Some(1), Some(0)]);
        for n in 0..5_000 {
            stacks.number(vec![n]);
        }
        assert_eq!((stacks.known.len(), stacks.number(vec![4_999])), (STACKS_MAX, None));
    }

    #[test]
    fn a_stack_has_function_names_without_those_of_the_tracing() {
        let symbols = KernelSymbols::parse(
            "1000 t trace_event_raw_event_softirq\n2000 t raise_softirq\n3000 t tick_handle\n",
        );
        let names = name_functions(&[0x1010, 0x2020, 0x3030], &symbols);
        assert_eq!(names, ["raise_softirq", "tick_handle"]);
    }
}
