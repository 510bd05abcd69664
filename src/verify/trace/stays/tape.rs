//! [`Tape`]: what happened one by one, for those who draw it. Kept only when asked for: sums are
//! enough for a verdict.

use super::parts::{Frame, Kind};
use super::{Key, Stays};
use crate::verify::trace::catalogue::Vector;

/// One thing that happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// When it began, in ticks.
    pub begun: u64,
    /// When it was over; the same moment for what has no known end.
    pub end: u64,
    /// How deep inside the stay: 0 is the stay itself, or the undisturbed time.
    pub depth: usize,
    /// What it is.
    pub what: Drawn,
    /// The stack of its beginning, by its number in [`Stays::stacks`].
    pub stack: Option<u32>,
}

/// What a piece is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Drawn {
    /// This task ran undisturbed: the workload, or the idle loop where there is none.
    Undisturbed(i32),
    /// An interruption, counted under this.
    Stay(Key),
    /// Something inside: in words what it was, and who.
    Frame(&'static str, Key),
    /// Events are missing here.
    Lost,
}

/// The pieces.
#[derive(Debug, Default)]
pub struct Tape {
    /// Of the stay that still goes on, the innermost first.
    open: Vec<Piece>,
    /// Those that are over, in the order of time, outer ones first.
    done: Vec<Piece>,
}

impl Tape {
    pub(super) fn undisturbed(&mut self, begun: u64, end: u64, pid: i32) {
        if end > begun {
            self.done.push(Piece {
                begun,
                end,
                depth: 0,
                what: Drawn::Undisturbed(pid),
                stack: None,
            });
        }
    }

    pub(super) fn frame(&mut self, depth: usize, frame: &Frame, end: u64) {
        let what = Drawn::Frame(words(frame.kind), frame.identity());
        self.open.push(Piece { begun: frame.begun, end, depth, what, stack: frame.stack });
    }

    pub(super) fn nmi(&mut self, (begun, end): (u64, u64), depth: usize, key: Key) {
        self.open.push(Piece { begun, end, depth, what: Drawn::Frame("NMI", key), stack: None });
    }

    pub(super) fn stay(&mut self, begun: u64, end: u64, key: Key) {
        self.open.push(Piece { begun, end, depth: 0, what: Drawn::Stay(key), stack: None });
        self.open.sort_by_key(|piece| (piece.begun, piece.depth));
        self.done.append(&mut self.open);
    }

    pub(super) fn lost(&mut self, at: u64) {
        self.done.push(Piece { begun: at, end: at, depth: 0, what: Drawn::Lost, stack: None });
    }
}

impl Stays {
    /// From now on everything is kept one by one.
    pub fn keep_tape(&mut self) {
        self.tape = Some(Tape::default());
    }

    /// Hands over what is over.
    pub fn take_tape(&mut self) -> Vec<Piece> {
        self.tape.as_mut().map(|tape| std::mem::take(&mut tape.done)).unwrap_or_default()
    }

    /// The same, with what is over inside the stay that still goes on; in the order of their ends.
    pub fn take_pieces(&mut self) -> Vec<Piece> {
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

fn words(kind: Kind) -> &'static str {
    match kind {
        Kind::Vector(Vector::LocalTimer) => "local timer interrupt",
        Kind::Vector(Vector::Reschedule) => "reschedule IPI",
        Kind::Vector(Vector::CallMany | Vector::CallOne) => "function call IPI",
        Kind::Vector(Vector::IrqWork) => "irq_work interrupt",
        Kind::Vector(_) => "interrupt",
        Kind::Irq => "device interrupt",
        Kind::Softirq => "softirq",
        Kind::Hrtimer => "hrtimer",
        Kind::Timer => "timer",
        Kind::Call => "called function",
        Kind::Work => "work item",
        Kind::Task => "task",
        Kind::Syscall => "system call",
        Kind::PageFault => "page fault",
        Kind::Kernel => "kernel",
    }
}
