//! The parts of the state of a CPU: an interruption, and the frames of what runs inside it.

use super::super::culprit_stats::{CpuCulprits, CulpritKey, TICK, TracedCulprit};
use super::super::trace_events::X86Vector;
use super::EntryText;
use cpushield_linux::text::kallsyms::KernelSymbols;
use std::collections::HashSet;

/// What the state machines of all CPUs share.
#[derive(Debug, Clone, Default)]
pub struct TraceContext {
    /// The threads of the workload.
    pub workload: HashSet<i32>,
    /// Address of `sched_ttwu_pending`, a call that only wakes a task on this CPU.
    pub wake_function: Option<u64>,
    /// Addresses of the tick's function, as far as this kernel has them.
    pub tick: Vec<u64>,
    /// Ticks per nanosecond.
    pub ticks_per_ns: f64,
    /// The entry code of the kernel, when stacks of interrupts are recorded.
    pub entry_text: Option<EntryText>,
}

impl TraceContext {
    /// A context with the addresses of this kernel and nothing else.
    #[must_use]
    pub fn from_symbols(symbols: &KernelSymbols) -> TraceContext {
        TraceContext {
            wake_function: symbols.address("sched_ttwu_pending"),
            tick: TICK.iter().filter_map(|name| symbols.address(name)).collect(),
            ..TraceContext::default()
        }
    }

    /// Whether the time of this task counts as undisturbed: the workload's, or idle time without
    /// one.
    pub(super) fn is_workload(&self, pid: i32) -> bool {
        if self.workload.is_empty() { pid == 0 } else { self.workload.contains(&pid) }
    }
}

/// What was seen in one phase.
#[derive(Debug, Clone, Default)]
pub struct PhaseStats {
    /// Counts by cause and culprit.
    pub rows: CpuCulprits,
    /// Interruptions that ended.
    pub interruptions: u64,
    /// Entries into the kernel from user mode: those with an event of their own, and all those that
    /// context tracking reports.
    pub entries: u64,
    /// Interrupts that hit kernel code.
    pub kernel_interrupts: u64,
    /// Task switches.
    pub switches: u64,
    /// Longest undisturbed time in ticks; `None` when none could be measured.
    pub longest: Option<u64>,
    /// Events with an earlier time than the event before them.
    pub backwards: u64,
    /// How often a task ran without a switch to it, because events are missing.
    pub resyncs: u64,
    /// The task that ran before the first such task.
    pub silent: Option<i32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum InterruptionKind {
    Vector(X86Vector),
    Irq,
    Softirq,
    Hrtimer,
    Timer,
    Call,
    Work,
    Task,
    Syscall,
    PageFault,
    /// In the kernel, as context tracking reports; the events that follow show the reason.
    Kernel,
}

/// Something that runs inside an interruption.
#[derive(Debug, Clone, Copy)]
pub(super) struct NestedFrame {
    pub(super) kind: InterruptionKind,
    pub(super) begun: u64,
    /// The culprit; `None` until an inner frame names it.
    pub(super) key: Option<CulpritKey>,
    /// The culprit when no inner frame names it.
    pub(super) otherwise: CulpritKey,
    pub(super) ticks: u64,
    /// Whether the interruption is counted under it.
    pub(super) first: bool,
    /// Whether it only names the frame around it.
    pub(super) merged: bool,
    /// The number of the stack at its start.
    pub(super) stack: Option<u32>,
}

/// One interruption.
#[derive(Debug, Clone, Copy)]
pub(super) struct Interruption {
    pub(super) begun: u64,
    /// The end of the last frame.
    pub(super) last: u64,
    /// The thread of the workload that was interrupted, if one was.
    pub(super) of: Option<i32>,
    /// What it is counted under; `None` until that is known.
    pub(super) primary: Option<CulpritKey>,
    /// Whether something was first in it.
    pub(super) has_first: bool,
    /// Whether the first frame is an IPI that only wakes a task. If the CPU switches to that task,
    /// the task is the cause.
    pub(super) carrier: bool,
    /// Whether the last event had the reschedule flag set.
    pub(super) resched: bool,
    /// Ticks inside the interruption but outside all frames.
    pub(super) ticks_outside_frames: u64,
    /// The last handler, when the next may belong to the same interrupt: a shared line calls all
    /// its handlers one after the other, and so does an NMI.
    pub(super) last_handler: Option<TracedCulprit>,
    /// Whether it is a page fault that may still go to sleep.
    pub(super) fault: bool,
    /// Whether the workload could run, but waits for CPU time.
    pub(super) workload_waits: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IdleSince {
    /// Unknown.
    Unknown,
    /// Undisturbed since this time.
    Since(u64),
}

impl NestedFrame {
    pub(super) fn identity(&self) -> CulpritKey {
        self.key.unwrap_or(self.otherwise)
    }
}

/// Whether an inner frame names the frame around it.
pub(super) fn names_outer_frame(inside: InterruptionKind, outside: InterruptionKind) -> bool {
    matches!(
        (inside, outside),
        (InterruptionKind::Hrtimer, InterruptionKind::Vector(X86Vector::LocalTimer))
            | (
                InterruptionKind::Call,
                InterruptionKind::Vector(X86Vector::CallMany | X86Vector::CallOne)
            )
            | (InterruptionKind::Work, InterruptionKind::Task)
    )
}

/// A finished interruption.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FinishedInterruption {
    /// When it began, in ticks.
    pub begun: u64,
    /// When it ended.
    pub end: u64,
    /// What it was counted under.
    pub key: CulpritKey,
}

/// Converts nanoseconds to ticks.
pub fn ns_to_ticks(ns: u64, ticks_per_ns: f64) -> u64 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
    let ticks = (ns as f64 * ticks_per_ns) as u64;
    ticks
}
