//! Events of one CPU in the order of time → interruptions. Pure, at constant memory.
//!
//! An interruption is one *stay*: from the first thing the kernel does to the moment the workload
//! (or the idle loop) goes on. What happens inside is a stack of [`NestedFrame`]s; each gets its
//! own time, and the first of them is what the interruption is counted under.
//!
//! Where the kernel does not say when it returns to user mode (only `context_tracking` does),
//! a stay is kept open after its last handler until the next event shows whether it went on:
//! a softirq that was raised inside it, or a switch that was announced by the need to reschedule,
//! still belong to it; anything else is a new one.

mod breach;
mod handlers;
mod history;
mod parts;
mod privilege;

use crate::causes::culprit::KernelEvent;
pub use breach::LimitBreach;
use breach::{PhaseLimit, StackOwner};
pub use handlers::ticks;
use history::EventHistory;
pub use history::{LogEntry, LogEntryKind};
pub use parts::{FinishedInterruption, PhaseStats, TraceContext};
use parts::{IdleSince, Interruption, InterruptionKind, NestedFrame, names};
pub use privilege::EntryText;
use privilege::PrivilegeLevel;

use super::culprit_stats::{CpuCulprits, CulpritKey, SoftirqOrigin, TracedCulprit};
use super::decode::{EventValues, ShortName, TraceEvent};
use super::stacks::StackTable;
use super::trace_events::EventKind;
use crate::causes::Cause;
use std::collections::HashMap;

/// Deeper than any real nesting (task, system call, softirq, timer, interrupt, call, NMI).
const FRAMES_MAX: usize = 32;

/// Kworkers that wait in the middle of a work item; more are forgotten.
const SUSPENDED_MAX: usize = 256;

/// The softirq in which timers that may wait expire (include/linux/interrupt.h).
const HRTIMER_SOFTIRQ: u8 = 8;

/// A stay of which nothing was seen but that it was.
const UNKNOWN: CulpritKey =
    CulpritKey { cause: Cause::Unattributed, who: TracedCulprit::Event(KernelEvent::WithoutEvent) };

/// The state of one CPU.
#[derive(Debug)]
pub struct InterruptionTracker {
    seen: PhaseStats,
    /// Who runs; `None` until the first event.
    task: Option<i32>,
    /// Until the first event: nothing is missing since then.
    since: Option<u64>,
    /// The one who runs is the workload, or idle where there is none.
    ours: bool,
    /// What it was before the stay, or is when there is none.
    rest: IdleSince,
    stay: Option<Interruption>,
    frames: Vec<NestedFrame>,
    /// Up to here time has been given to the frames.
    mark: u64,
    /// The time of the last event.
    last: u64,
    /// Softirqs raised on this CPU and not yet run.
    raised: u64,
    /// Who asked for each of them.
    raisers: [SoftirqOrigin; 64],
    /// What the tick was last needed for.
    needed: u8,
    suspended: HashMap<i32, CulpritKey>,
    /// The end of the last stay, and what it was.
    before: Option<(u64, CulpritKey)>,
    /// Stays that are over and were not asked for yet; `None` when nobody wants them.
    finished: Option<Vec<FinishedInterruption>>,
    /// Everything one by one; `None` when nobody wants it.
    tape: Option<EventHistory>,
    /// What must not happen.
    limit: PhaseLimit,
    /// Context tracking has told of this CPU: it does for those of `nohz_full=` only.
    tracked: bool,
    /// The first that did, in this phase.
    breached: Option<LimitBreach>,
    /// The stacks behind events, where they are recorded.
    stacks: StackTable,
    /// Whose the stack behind the last event is.
    stackee: StackOwner,
    /// What is known of the privilege level.
    level: PrivilegeLevel,
}

impl Default for InterruptionTracker {
    fn default() -> InterruptionTracker {
        InterruptionTracker {
            seen: PhaseStats::default(),
            task: None,
            since: None,
            ours: false,
            rest: IdleSince::Unknown,
            stay: None,
            frames: Vec::with_capacity(FRAMES_MAX),
            mark: 0,
            last: 0,
            raised: 0,
            raisers: [SoftirqOrigin::Nobody; 64],
            needed: 0,
            suspended: HashMap::new(),
            before: None,
            finished: None,
            tape: None,
            limit: PhaseLimit::default(),
            tracked: false,
            breached: None,
            stacks: StackTable::default(),
            stackee: StackOwner::Nobody,
            level: PrivilegeLevel::default(),
        }
    }
}

impl InterruptionTracker {
    /// Everything is recorded from this moment on: whoever the first event finds running has run
    /// since then, for a switch would have been an event.
    pub fn since(&mut self, at: u64) {
        self.since = Some(at);
    }

    /// The workload has other threads now.
    pub fn workload_changed(&mut self, shared: &TraceContext) {
        let Some(pid) = self.task else { return };
        let before = std::mem::replace(&mut self.ours, shared.is_ours(pid));
        if self.ours && !before && self.stay.is_some() {
            self.end(self.mark);
        }
    }

    /// Events are missing here: nothing is known any more, and no time may be bridged.
    pub fn gap(&mut self) {
        self.abandon();
        if let Some(tape) = &mut self.tape {
            tape.lost(self.last);
        }
        self.task = None;
        self.since = None;
        self.level = PrivilegeLevel::default();
        self.raised = 0;
        self.suspended.clear();
    }

    /// The culprits of this phase so far.
    #[must_use]
    pub fn rows(&self) -> &CpuCulprits {
        &self.seen.rows
    }

    /// From now on every stay is kept until it is asked for.
    pub fn keep_finished(&mut self) {
        self.finished = Some(Vec::new());
    }

    /// Hands over the stays that began before this moment and are over, in the order of time.
    pub fn take_finished(&mut self, before: u64) -> std::vec::Drain<'_, FinishedInterruption> {
        let finished = self.finished.get_or_insert_default();
        let ready = finished.partition_point(|stay| stay.begun < before);
        finished.drain(..ready)
    }

    /// The stay that may still go on: when it began, and when it was last seen.
    #[must_use]
    pub fn unfinished(&self) -> Option<(u64, u64)> {
        let last = |stay: &Interruption| if self.frames.is_empty() { stay.last } else { self.mark };
        self.stay.as_ref().map(|stay| (stay.begun, last(stay)))
    }

    /// Whether context tracking tells of entries here for which there is no event.
    #[must_use]
    pub fn is_tracked(&self) -> bool {
        self.tracked
    }

    /// A record that is not understood.
    pub fn odd(&mut self, who: TracedCulprit) {
        self.seen.rows.row(CulpritKey { cause: Cause::Unattributed, who }).nested += 1;
    }

    /// What an event does.
    fn apply(&mut self, shared: &mut TraceContext, event: &TraceEvent) {
        let mut event = *event;
        if event.at < self.last {
            self.seen.backwards += 1;
            event.at = self.last;
        }
        self.last = event.at;
        self.stackee = StackOwner::Nobody;
        // The memory is switched between the event of a switch and the switch itself, and that
        // flush still belongs to the task that leaves (`switch_mm_irqs_off()`, arch/x86/mm/tlb.c).
        if event.what == EventKind::TlbFlush && self.task != Some(event.pid) {
            return;
        }
        // While a switch is under way an NMI still belongs to the task that leaves.
        let late = event.what == EventKind::Nmi && self.task.is_some();
        if self.task != Some(event.pid) && !late {
            self.resync(shared, &event);
        }
        let at = event.at;
        if !self.frames.is_empty() && event.what != EventKind::Nmi {
            self.charge(at);
        }
        match (event.what, event.with) {
            (EventKind::Vector(vector), _) => self.vector(shared, at, vector),
            (EventKind::VectorEnd(vector), _) => self.close(at, InterruptionKind::Vector(vector)),
            (EventKind::Irq, EventValues::Irq { number, name }) => self.irq(at, number, name),
            (EventKind::IrqEnd, _) => self.close(at, InterruptionKind::Irq),
            (EventKind::Softirq, EventValues::Number(n)) => self.softirq(at, small(n)),
            (EventKind::SoftirqEnd, _) => self.close(at, InterruptionKind::Softirq),
            (EventKind::SoftirqRaise, EventValues::Number(n)) => self.raise(small(n)),
            (EventKind::Hrtimer, EventValues::Number(f)) => self.hrtimer(shared, at, f),
            (EventKind::HrtimerEnd, _) => self.close(at, InterruptionKind::Hrtimer),
            (EventKind::Timer, EventValues::Number(f)) => {
                self.function(at, InterruptionKind::Timer, Cause::Timer, f)
            }
            (EventKind::TimerEnd, _) => self.close(at, InterruptionKind::Timer),
            (EventKind::Call, EventValues::Number(f)) => self.call(shared, at, f),
            (EventKind::CallEnd, _) => self.close(at, InterruptionKind::Call),
            (EventKind::Work, EventValues::Number(f)) => self.work(at, f),
            (EventKind::WorkEnd, _) => self.work_end(at, event.pid),
            (EventKind::Switch, EventValues::Switch { blocks, pid, comm }) => {
                self.switch(shared, &event, blocks, pid, comm);
            }
            (EventKind::Fork, EventValues::Fork { parent, child })
                if shared.workload.contains(&parent) =>
            {
                shared.workload.insert(child);
            }
            (EventKind::PageFault, EventValues::Number(bits)) => self.page_fault(at, bits),
            // What the workload asked the kernel to read or write was not there.
            (EventKind::KernelFault, EventValues::Number(bits))
                if self.ours && self.task != Some(0) =>
            {
                self.aside(Cause::PageFault, TracedCulprit::KernelFault(small(bits & 0xff)));
            }
            (EventKind::TickStop, EventValues::Tick { stopped, needed }) => {
                self.needed = if stopped { 0 } else { needed };
            }
            (EventKind::Signal, EventValues::Signal { number, code }) => {
                self.signal(at, number, code)
            }
            (EventKind::Frequency, _) => {
                self.aside(Cause::Frequency, TracedCulprit::Event(KernelEvent::FrequencySet));
            }
            (EventKind::MachineCheck, EventValues::Number(bank)) => {
                self.aside(
                    Cause::MachineCheck,
                    TracedCulprit::Bank(u8::try_from(bank).unwrap_or(u8::MAX)),
                );
            }
            (EventKind::TlbFlush, EventValues::Number(reason)) => self.tlb_flush(reason),
            (EventKind::Nmi, EventValues::Nmi { handler, took_ns, handled }) => {
                self.nmi(shared, at, handler, took_ns, handled);
            }
            (EventKind::Syscall, EventValues::Number(n)) => self.syscall(at, n),
            (EventKind::SyscallEnd, _) => self.syscall_end(at),
            (EventKind::UserExit, _) => self.user_exit(at),
            (EventKind::UserEnter, _) => self.user_enter(at),
            _ => {}
        }
        if let Some(stay) = &mut self.stay {
            stay.resched = event.resched;
        }
        self.check_entries(at);
    }

    /// Ends a phase at this moment; the next begins.
    pub fn cut(&mut self, at: u64) -> PhaseStats {
        let at = at.max(self.last);
        self.settle();
        if let Some(stay) = self.stay {
            // It goes on: counted here for what it took so far, and again in the next phase.
            self.charge(at);
            let first = self.frames.iter().find(|frame| frame.first);
            let primary = stay.primary.or(first.map(NestedFrame::identity));
            self.count(&stay, primary, at);
            for i in 0..self.frames.len() {
                let frame = self.frames[i];
                if frame.kind != InterruptionKind::Kernel {
                    self.seen.rows.row(frame.identity()).ticks += frame.ticks;
                }
                self.frames[i].ticks = 0;
            }
            self.stay = Some(Interruption { begun: at, loose: 0, ..stay });
        } else {
            self.stretch(at);
            if let IdleSince::Since(_) = self.rest {
                self.rest = IdleSince::Since(at);
            }
        }
        self.mark = at;
        self.breached = None;
        std::mem::take(&mut self.seen)
    }

    fn runs(&mut self, shared: &TraceContext, pid: i32) {
        self.task = Some(pid);
        self.ours = shared.is_ours(pid);
    }

    /// The undisturbed time ends here, if there was one.
    fn stretch(&mut self, at: u64) {
        if let IdleSince::Since(since) = self.rest
            && self.ours
        {
            let stretch = at.saturating_sub(since);
            self.seen.longest = Some(self.seen.longest.map_or(stretch, |l| l.max(stretch)));
            if let (Some(tape), Some(pid)) = (&mut self.tape, self.task) {
                tape.undisturbed(since, at, pid);
            }
        }
    }

    fn begin(&mut self, at: u64) {
        self.stretch(at);
        self.mark = at;
        self.rest = IdleSince::Unknown;
        self.stay = Some(Interruption {
            begun: at,
            last: at,
            primary: None,
            has_first: false,
            carrier: false,
            resched: false,
            loose: 0,
            shared: None,
            fault: false,
        });
    }

    /// The stay, if any, is over since the end of its last frame, unless it is known to go on.
    fn settle(&mut self) {
        if let Some(stay) = self.stay
            && self.frames.is_empty()
        {
            self.end(stay.last);
        }
    }

    /// The stay ends; what ran before it goes on.
    fn end(&mut self, at: u64) {
        while !self.frames.is_empty() {
            self.pop(at);
        }
        if let Some(stay) = self.stay.take() {
            self.count(&stay, stay.primary, at);
        }
        self.rest = IdleSince::Since(at);
        self.mark = at;
    }

    fn count(&mut self, stay: &Interruption, primary: Option<CulpritKey>, end: u64) {
        let begun = stay.begun;
        let key = primary.unwrap_or(UNKNOWN);
        let row = self.seen.rows.row(key);
        row.count += 1;
        row.ticks += stay.loose;
        row.max = row.max.max(end.saturating_sub(begun));
        self.seen.stays += 1;
        self.before = Some((end, key));
        self.check_entries(begun);
        if end.saturating_sub(begun) > self.limit.ticks {
            self.breach(begun, end - begun);
        }
        if let Some(finished) = &mut self.finished {
            finished.push(FinishedInterruption { begun, end, key });
        }
        if let Some(tape) = &mut self.tape {
            tape.stay(begun, end, key);
        }
    }

    /// Whatever is open is closed where it was last seen.
    fn abandon(&mut self) {
        if self.stay.is_some() {
            self.end(self.mark);
        }
        self.frames.clear();
        self.rest = IdleSince::Unknown;
    }

    /// Somebody runs whom nobody switched to: the first event, or events are missing.
    fn resync(&mut self, shared: &TraceContext, event: &TraceEvent) {
        if self.task.is_some() {
            self.seen.resyncs += 1;
            self.seen.silent = self.seen.silent.or(self.task);
            if let Some(tape) = &mut self.tape {
                tape.lost(self.mark);
            }
        }
        self.abandon();
        self.runs(shared, event.pid);
        if let Some(since) = self.since.take()
            && event.what.begins()
        {
            self.rest = IdleSince::Since(since);
        }
        if !self.ours && event.pid != 0 {
            self.begin(event.at);
            let who = TracedCulprit::Task { pid: event.pid, comm: ShortName::default() };
            self.push(event.at, InterruptionKind::Task, CulpritKey { cause: Cause::Kthread, who });
        }
    }

    /// Gives the time since the last event to whoever had it.
    fn charge(&mut self, at: u64) {
        let ticks = at.saturating_sub(self.mark);
        match (self.frames.last_mut(), &mut self.stay) {
            (Some(frame), _) => frame.ticks += ticks,
            (None, Some(stay)) => {
                stay.loose += ticks;
                stay.last = at;
            }
            (None, None) => {}
        }
        self.mark = at.max(self.mark);
    }

    /// Something begins that is known.
    fn push(&mut self, at: u64, kind: InterruptionKind, key: CulpritKey) {
        self.open(at, kind, Some(key), key);
    }

    /// Something begins that what runs inside may name.
    fn open(
        &mut self,
        at: u64,
        kind: InterruptionKind,
        key: Option<CulpritKey>,
        otherwise: CulpritKey,
    ) {
        self.charge(at);
        if self.frames.len() >= FRAMES_MAX {
            // No kernel nests so deep; ends were lost.
            self.pop(at);
        }
        let mut merged = false;
        if let Some(below) = self.frames.last_mut()
            && below.key.is_none()
            && names(kind, below.kind)
        {
            below.key = key;
            merged = true;
        }
        let names_entry = self.is_unnamed()
            && matches!(kind, InterruptionKind::Syscall | InterruptionKind::PageFault);
        let Some(stay) = &mut self.stay else { return };
        if merged && self.frames.last().is_some_and(|below| below.first) {
            stay.primary = key;
        }
        let first = !merged && (!stay.has_first || names_entry) && kind != InterruptionKind::Kernel;
        if first {
            stay.has_first = true;
            stay.primary = key;
        }
        stay.shared = None;
        stay.fault &= !self.frames.is_empty();
        self.stackee = StackOwner::Frame(self.frames.len());
        let stack = None;
        self.frames.push(NestedFrame {
            kind,
            begun: at,
            key,
            otherwise,
            ticks: 0,
            first,
            merged,
            stack,
        });
    }

    fn pop(&mut self, at: u64) {
        self.charge(at);
        let Some(frame) = self.frames.pop() else { return };
        let Some(stay) = &mut self.stay else { return };
        stay.last = at;
        if frame.kind == InterruptionKind::Kernel {
            stay.loose += frame.ticks;
            return;
        }
        let key = frame.identity();
        if let Some(tape) = &mut self.tape {
            tape.frame(self.frames.len() + 1, &frame, at);
        }
        if frame.first && stay.primary.is_none() {
            stay.primary = Some(key);
        }
        let row = self.seen.rows.row(key);
        row.ticks += frame.ticks;
        row.stack = row.stack.or(frame.stack);
        row.nested += u64::from(!frame.first && !frame.merged);
    }

    /// The end of the innermost frame of that kind, and of what is still open inside it. An end
    /// without a beginning (it was before the trace, or before a switch) says nothing.
    fn close(&mut self, at: u64, kind: InterruptionKind) {
        if let Some(depth) = self.frames.iter().rposition(|frame| frame.kind == kind) {
            while self.frames.len() > depth {
                self.pop(at);
            }
        }
    }
}

/// A number that is small where it makes sense at all.
fn small(n: u64) -> u8 {
    u8::try_from(n).unwrap_or(u8::MAX)
}

#[cfg(test)]
mod tests;
