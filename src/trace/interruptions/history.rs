//! [`EventHistory`]: every single interruption, for timelines. Kept only on request:
//! a verdict needs only sums.

use super::parts::{InterruptionKind, NestedFrame};
use super::{CulpritKey, InterruptionTracker};
use crate::documents::evidence::KernelWork;
use crate::trace::decode::TaskLeft;
use crate::trace::trace_events::X86Vector;

/// One entry of the history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogEntry {
    /// When it began, in ticks.
    pub begun: u64,
    /// When it ended; the same moment when its end is unknown.
    pub end: u64,
    /// Depth inside the interruption; 0 is the interruption itself, or undisturbed time.
    pub depth: usize,
    /// What it is.
    pub what: LogEntryKind,
    /// The stack of its beginning, by its number in [`InterruptionTracker::stacks`].
    pub stack: Option<u32>,
}

/// The kind of a history entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogEntryKind {
    /// This task ran undisturbed: the workload, or the idle loop where there is none.
    Undisturbed(i32),
    /// An interruption, and what it is counted under.
    Interruption(CulpritKey),
    /// Something inside an interruption: its kind in words, and its culprit.
    Frame(KernelWork, CulpritKey),
    /// Events are missing here.
    Lost,
}

/// Something between interruptions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// The CPU switches to another task.
    Switch {
        /// The task that leaves.
        task: i32,
        /// How it leaves.
        left: TaskLeft,
        /// The task that runs next.
        next: i32,
    },
    /// This thread of the workload receives a signal, or the kernel faults for it.
    Untimed(i32, CulpritKey),
}

/// The history of one CPU.
#[derive(Debug, Default)]
pub struct EventHistory {
    /// Entries of the interruption that is still open, innermost first.
    open: Vec<LogEntry>,
    /// Finished entries in the order of time, outer ones first.
    done: Vec<LogEntry>,
    /// The moments so far, where they are kept.
    moments: Option<Vec<(u64, Moment)>>,
}

impl EventHistory {
    /// The interruption goes on in the next phase: other tasks that run in it were there.
    pub(super) fn cut(&mut self, frames: &[NestedFrame], at: u64) {
        if self.moments.is_none() {
            return;
        }
        for (depth, frame) in frames.iter().enumerate() {
            let is_softirq_thread = frame.identity().culprit.is_softirq_thread();
            if frame.kind == InterruptionKind::Task && !is_softirq_thread {
                self.frame(depth + 1, frame, at);
            }
        }
    }

    pub(super) fn moment(&mut self, at: u64, moment: Moment) {
        self.moments.iter_mut().for_each(|moments| moments.push((at, moment)));
    }

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
        let what = LogEntryKind::Frame(kernel_work(frame.kind), frame.identity());
        self.open.push(LogEntry { begun: frame.begun, end, depth, what, stack: frame.stack });
    }

    pub(super) fn nmi(&mut self, (begun, end): (u64, u64), depth: usize, key: CulpritKey) {
        self.open.push(LogEntry {
            begun,
            end,
            depth,
            what: LogEntryKind::Frame(KernelWork::Nmi, key),
            stack: None,
        });
    }

    pub(super) fn interruption(&mut self, begun: u64, end: u64, key: CulpritKey) {
        self.open.push(LogEntry {
            begun,
            end,
            depth: 0,
            what: LogEntryKind::Interruption(key),
            stack: None,
        });
        // What began in an earlier phase is inside too.
        self.open.sort_by_key(|entry| (entry.begun.max(begun), entry.depth));
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
    /// Keeps every entry from now on.
    pub fn keep_history(&mut self) {
        self.history = Some(EventHistory::default());
    }

    /// Keeps the moments between interruptions too.
    pub fn keep_moments(&mut self) {
        self.history.get_or_insert_default().moments = Some(Vec::new());
    }

    /// Takes the moments so far.
    pub fn take_moments(&mut self) -> Vec<(u64, Moment)> {
        let moments = self.history.as_mut().and_then(|history| history.moments.as_mut());
        moments.map(std::mem::take).unwrap_or_default()
    }

    /// Takes the finished entries.
    pub fn take_history(&mut self) -> Vec<LogEntry> {
        self.history.as_mut().map(|history| std::mem::take(&mut history.done)).unwrap_or_default()
    }

    /// Takes the finished entries, including those inside the open interruption, in the order of
    /// end.
    pub fn take_all_entries(&mut self) -> Vec<LogEntry> {
        let Some(history) = &mut self.history else { return Vec::new() };
        history.done.append(&mut history.open);
        std::mem::take(&mut history.done)
    }

    /// Ends everything that is open; no event follows.
    pub fn finish(&mut self, at: u64) {
        let at = at.max(self.last);
        self.end_unless_nested();
        if self.interruption.is_some() {
            self.charge_time(at);
            self.end_interruption(at);
        } else {
            self.end_undisturbed(at);
        }
    }
}

fn kernel_work(kind: InterruptionKind) -> KernelWork {
    match kind {
        InterruptionKind::Vector(X86Vector::LocalTimer) => KernelWork::LocalTimer,
        InterruptionKind::Vector(X86Vector::Reschedule) => KernelWork::RescheduleIpi,
        InterruptionKind::Vector(X86Vector::CallMany | X86Vector::CallOne) => {
            KernelWork::FunctionCallIpi
        }
        InterruptionKind::Vector(X86Vector::IrqWork) => KernelWork::IrqWork,
        InterruptionKind::Vector(_) => KernelWork::Vector,
        InterruptionKind::Irq => KernelWork::DeviceInterrupt,
        InterruptionKind::Softirq => KernelWork::Softirq,
        InterruptionKind::Hrtimer => KernelWork::Hrtimer,
        InterruptionKind::Timer => KernelWork::Timer,
        InterruptionKind::Call => KernelWork::CalledFunction,
        InterruptionKind::Work => KernelWork::WorkItem,
        InterruptionKind::Task => KernelWork::Task,
        InterruptionKind::Syscall => KernelWork::SystemCall,
        InterruptionKind::PageFault => KernelWork::PageFault,
        InterruptionKind::Kernel => KernelWork::Kernel,
    }
}
