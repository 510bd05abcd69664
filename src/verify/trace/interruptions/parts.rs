//! What the state of a CPU is made of: one stay, and the frames of what runs inside it.

use super::super::culprit_stats::{CpuCulprits, CulpritKey, TICK, TracedCulprit};
use super::super::trace_events::X86Vector;
use super::EntryText;
use cpushield_linux::text::kallsyms::KernelSymbols;
use std::collections::HashSet;

/// What the state machines of all CPUs share.
#[derive(Debug, Clone, Default)]
pub struct TraceContext {
    /// The workload's threads.
    pub workload: HashSet<i32>,
    /// Address of `sched_ttwu_pending`: a call that only wakes a task here.
    pub wakes: Option<u64>,
    /// Addresses of the tick's function, whichever this kernel has.
    pub tick: Vec<u64>,
    /// Ticks in a nanosecond.
    pub ticks_per_ns: f64,
    /// Where the entry code lies, when stacks of interrupts are recorded.
    pub entry_text: Option<EntryText>,
}

impl TraceContext {
    /// With what the addresses of this kernel say, and nothing else yet.
    #[must_use]
    pub fn knowing(symbols: &KernelSymbols) -> TraceContext {
        TraceContext {
            wakes: symbols.address("sched_ttwu_pending"),
            tick: TICK.iter().filter_map(|name| symbols.address(name)).collect(),
            ..TraceContext::default()
        }
    }

    /// Whose time counts as undisturbed.
    pub(super) fn is_ours(&self, pid: i32) -> bool {
        if self.workload.is_empty() { pid == 0 } else { self.workload.contains(&pid) }
    }
}

/// What was seen in one phase.
#[derive(Debug, Clone, Default)]
pub struct PhaseStats {
    /// By cause and culprit.
    pub rows: CpuCulprits,
    /// Stays that ended.
    pub stays: u64,
    /// Entries into the kernel from user mode: those that have an event of their own, and all that
    /// context tracking reports.
    pub entries: u64,
    /// Interrupts that hit the kernel itself.
    pub kernel_interrupts: u64,
    /// Switches.
    pub switches: u64,
    /// Longest undisturbed time in ticks; `None` when there was none that could be measured.
    pub longest: Option<u64>,
    /// Events whose time was before the one before them.
    pub backwards: u64,
    /// Times when a task ran that nobody had switched to: events are missing.
    pub resyncs: u64,
    /// Who had run until then, the first time.
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
    /// In the kernel, as context tracking says; what for is said by what follows.
    Kernel,
}

/// Something that runs inside a stay.
#[derive(Debug, Clone, Copy)]
pub(super) struct NestedFrame {
    pub(super) kind: InterruptionKind,
    pub(super) begun: u64,
    /// `None` until what runs inside says who it is.
    pub(super) key: Option<CulpritKey>,
    /// Who it is when nothing says so.
    pub(super) otherwise: CulpritKey,
    pub(super) ticks: u64,
    /// The stay is counted under it.
    pub(super) first: bool,
    /// It only names the frame below it.
    pub(super) merged: bool,
    /// The stack of its beginning, by number.
    pub(super) stack: Option<u32>,
}

/// One stay.
#[derive(Debug, Clone, Copy)]
pub(super) struct Interruption {
    pub(super) begun: u64,
    /// The end of the last frame.
    pub(super) last: u64,
    /// What it is counted under, as soon as that is known.
    pub(super) primary: Option<CulpritKey>,
    /// Something was first.
    pub(super) has_first: bool,
    /// What was first only wakes a task here; if that is switched to, it is the cause.
    pub(super) carrier: bool,
    /// The last event said that the task is to be preempted.
    pub(super) resched: bool,
    /// Ticks inside the stay but outside all frames.
    pub(super) loose: u64,
    /// The last thing, when the next may still belong to the same interrupt: a shared line calls
    /// all handlers in turn, and so does an NMI.
    pub(super) shared: Option<TracedCulprit>,
    /// A page fault that may still go to sleep.
    pub(super) fault: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IdleSince {
    /// Not known since when.
    Unknown,
    /// Nothing has disturbed it since then.
    Since(u64),
}

impl NestedFrame {
    pub(super) fn identity(&self) -> CulpritKey {
        self.key.unwrap_or(self.otherwise)
    }
}

/// Whether something that runs inside names what it runs in.
pub(super) fn names(inside: InterruptionKind, outside: InterruptionKind) -> bool {
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

/// A stay that is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FinishedInterruption {
    /// When it began, in ticks.
    pub begun: u64,
    /// When it was over.
    pub end: u64,
    /// What it was counted under.
    pub key: CulpritKey,
}
