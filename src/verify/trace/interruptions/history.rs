//! [`EventHistory`]: what happened one by one, for those who draw it. Kept only when asked for:
//! sums are enough for a verdict.

use super::parts::{InterruptionKind, NestedFrame};
use super::{CulpritKey, InterruptionTracker};
use crate::verify::trace::trace_events::X86Vector;

/// One thing that happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogEntry {
    /// When it began, in ticks.
    pub begun: u64,
    /// When it was over; the same moment for what has no known end.
    pub end: u64,
    /// How deep inside the stay: 0 is the stay itself, or the undisturbed time.
    pub depth: usize,
    /// What it is.
    pub what: LogEntryKind,
    /// The stack of its beginning, by its number in [`InterruptionTracker::stacks`].
    pub stack: Option<u32>,
}

/// What a piece is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogEntryKind {
    /// This task ran undisturbed: the workload, or the idle loop where there is none.
    Undisturbed(i32),
    /// An interruption, counted under this.
    Stay(CulpritKey),
    /// Something inside: in words what it was, and who.
    Frame(&'static str, CulpritKey),
    /// Events are missing here.
    Lost,
}

/// The pieces.
#[derive(Debug, Default)]
pub struct EventHistory {
    /// Of the stay that still goes on, the innermost first.
    open: Vec<LogEntry>,
    /// Those that are over, in the order of time, outer ones first.
    done: Vec<LogEntry>,
}

impl EventHistory {
    pub(super) fn undisturbed(&mut self, begun: u64, end: u64, pid: i32) {
        if end > begun {
            self.done.push(LogEntry {
                begun,
                end,
                depth: 0,
                what: LogEntryKind::Undisturbed(pid),
                stack: None,
            });
        }
    }

    pub(super) fn frame(&mut self, depth: usize, frame: &NestedFrame, end: u64) {
        let what = LogEntryKind::Frame(words(frame.kind), frame.identity());
        self.open.push(LogEntry { begun: frame.begun, end, depth, what, stack: frame.stack });
    }

    pub(super) fn nmi(&mut self, (begun, end): (u64, u64), depth: usize, key: CulpritKey) {
        self.open.push(LogEntry {
            begun,
            end,
            depth,
            what: LogEntryKind::Frame("NMI", key),
            stack: None,
        });
    }

    pub(super) fn stay(&mut self, begun: u64, end: u64, key: CulpritKey) {
        self.open.push(LogEntry {
            begun,
            end,
            depth: 0,
            what: LogEntryKind::Stay(key),
            stack: None,
        });
        self.open.sort_by_key(|piece| (piece.begun, piece.depth));
        self.done.append(&mut self.open);
    }

    pub(super) fn lost(&mut self, at: u64) {
        self.done.push(LogEntry {
            begun: at,
            end: at,
            depth: 0,
            what: LogEntryKind::Lost,
            stack: None,
        });
    }
}

impl InterruptionTracker {
    /// From now on everything is kept one by one.
    pub fn keep_tape(&mut self) {
        self.tape = Some(EventHistory::default());
    }

    /// Hands over what is over.
    pub fn take_tape(&mut self) -> Vec<LogEntry> {
        self.tape.as_mut().map(|tape| std::mem::take(&mut tape.done)).unwrap_or_default()
    }

    /// The same, with what is over inside the stay that still goes on; in the order of their ends.
    pub fn take_pieces(&mut self) -> Vec<LogEntry> {
        let Some(tape) = &mut self.tape else { return Vec::new() };
        tape.done.append(&mut tape.open);
        std::mem::take(&mut tape.done)
    }

    /// Nothing more comes: whatever is open ends here.
    pub fn finish(&mut self, at: u64) {
        let at = at.max(self.last);
        self.settle();
        if self.stay.is_some() {
            self.charge(at);
            self.end(at);
        } else {
            self.stretch(at);
        }
    }
}

fn words(kind: InterruptionKind) -> &'static str {
    match kind {
        InterruptionKind::Vector(X86Vector::LocalTimer) => "local timer interrupt",
        InterruptionKind::Vector(X86Vector::Reschedule) => "reschedule IPI",
        InterruptionKind::Vector(X86Vector::CallMany | X86Vector::CallOne) => "function call IPI",
        InterruptionKind::Vector(X86Vector::IrqWork) => "irq_work interrupt",
        InterruptionKind::Vector(_) => "interrupt",
        InterruptionKind::Irq => "device interrupt",
        InterruptionKind::Softirq => "softirq",
        InterruptionKind::Hrtimer => "hrtimer",
        InterruptionKind::Timer => "timer",
        InterruptionKind::Call => "called function",
        InterruptionKind::Work => "work item",
        InterruptionKind::Task => "task",
        InterruptionKind::Syscall => "system call",
        InterruptionKind::PageFault => "page fault",
        InterruptionKind::Kernel => "kernel",
    }
}
