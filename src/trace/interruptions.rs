//! Events of one CPU in the order of time → interruptions. Pure, at constant memory.
//!
//! An interruption lasts from the first thing that the kernel does to the moment when the workload
//! (or the idle loop) resumes. What runs inside is a stack of [`NestedFrame`]s. Each gets its own
//! time, and the interruption is counted under the first of them.
//!
//! Only `context_tracking` reports the return to user mode. Without it, an interruption stays open
//! after its last handler, and the next event decides whether it continued: a softirq that was
//! raised inside it, or a switch that a reschedule request announced, still belongs to it. Anything
//! else is a new interruption.

mod breach;
mod entry_text;
mod frames;
mod handlers;
mod history;
mod parts;
mod privilege;

use crate::causes::culprit::KernelEvent;
pub use breach::PhaseBreach;
use breach::{PhaseLimit, StackOwner};
pub use entry_text::EntryText;
use history::EventHistory;
pub use history::{LogEntry, LogEntryKind, Moment};
pub use parts::{FinishedInterruption, PhaseStats, TraceContext, ns_to_ticks};
use parts::{IdleSince, Interruption, InterruptionKind, NestedFrame};
use privilege::PrivilegeLevel;

use super::culprit_stats::{CpuCulprits, CulpritKey, SoftirqOrigin, TracedCulprit};
use super::decode::{ShortName, TraceEvent};
use super::stacks::StackTable;
use super::trace_events::EventKind;
use crate::causes::Cause;
use std::collections::HashMap;

/// Deeper than any real nesting (task, system call, softirq, timer, interrupt, call, NMI).
const FRAMES_MAX: usize = 32;

/// Kworkers remembered while they sleep in the middle of a work item; more are forgotten.
const SUSPENDED_MAX: usize = 256;

/// The softirq in which soft hrtimers expire (include/linux/interrupt.h).
pub const HRTIMER_SOFTIRQ: u8 = 8;

/// An interruption of which only the entry was seen.
const UNKNOWN: CulpritKey = CulpritKey {
    cause: Cause::Unattributed,
    culprit: TracedCulprit::Event(KernelEvent::WithoutEvent),
};

/// The state of one CPU: turns its events into interruptions.
#[derive(Debug)]
pub struct InterruptionTracker {
    stats: PhaseStats,
    /// The task that runs; `None` until the first event.
    task: Option<i32>,
    /// Until the first event: the time since which no event is missing.
    since: Option<u64>,
    /// Whether the running task is the workload, or the idle loop without a workload.
    runs_workload: bool,
    /// Start of the undisturbed time, while there is no interruption.
    undisturbed: IdleSince,
    interruption: Option<Interruption>,
    frames: Vec<NestedFrame>,
    /// The time up to which all ticks are attributed.
    charged_until: u64,
    /// The time of the last event.
    last: u64,
    /// Softirqs raised on this CPU and not yet run.
    raised: u64,
    /// What raised each of them.
    raisers: [SoftirqOrigin; 64],
    /// What the tick was last needed for.
    tick_needed: u8,
    suspended: HashMap<i32, CulpritKey>,
    /// The end of the previous interruption, and what it was counted under.
    previous: Option<(u64, CulpritKey)>,
    /// Finished interruptions that were not taken yet; `None` when they are not kept.
    finished: Option<Vec<FinishedInterruption>>,
    /// Every single event; `None` when they are not kept.
    history: Option<EventHistory>,
    /// The limits of this phase.
    limit: PhaseLimit,
    /// Whether context tracking has reported on this CPU. It does so only for those of
    /// `nohz_full=`.
    tracked: bool,
    /// The first breach of a limit in this phase.
    first_breach: Option<PhaseBreach>,
    /// The stacks behind events, where they are recorded.
    stacks: StackTable,
    /// What the stack behind the last event belongs to.
    stack_owner: StackOwner,
    /// What is known about the privilege level.
    privilege_level: PrivilegeLevel,
}

impl Default for InterruptionTracker {
    fn default() -> InterruptionTracker {
        InterruptionTracker {
            stats: PhaseStats::default(),
            task: None,
            since: None,
            runs_workload: false,
            undisturbed: IdleSince::Unknown,
            interruption: None,
            frames: Vec::with_capacity(FRAMES_MAX),
            charged_until: 0,
            last: 0,
            raised: 0,
            raisers: [SoftirqOrigin::Unknown; 64],
            tick_needed: 0,
            suspended: HashMap::new(),
            previous: None,
            finished: None,
            history: None,
            limit: PhaseLimit::default(),
            tracked: false,
            first_breach: None,
            stacks: StackTable::default(),
            stack_owner: StackOwner::Nothing,
            privilege_level: PrivilegeLevel::default(),
        }
    }
}

impl InterruptionTracker {
    /// Recording started at this moment. The task that runs at the first event has run since then,
    /// because a switch would have been an event.
    pub fn recording_started(&mut self, at: u64) {
        self.since = Some(at);
    }

    /// Adapts to a change of the workload's threads.
    pub fn workload_changed(&mut self, context: &TraceContext) {
        let Some(pid) = self.task else { return };
        let was_workload = std::mem::replace(&mut self.runs_workload, context.is_workload(pid));
        if self.runs_workload && !was_workload && self.interruption.is_some() {
            self.end_interruption(self.charged_until);
        }
    }

    /// Events are missing here: the state is unknown, and no time may be bridged.
    pub fn events_lost(&mut self) {
        self.abandon();
        if let Some(history) = &mut self.history {
            history.lost(self.last);
        }
        self.task = None;
        self.since = None;
        self.privilege_level = PrivilegeLevel::default();
        self.raised = 0;
        self.suspended.clear();
    }

    /// The culprits of this phase so far.
    #[must_use]
    pub fn rows(&self) -> &CpuCulprits {
        &self.stats.rows
    }

    /// Keeps every interruption from now on, until it is taken.
    pub fn keep_finished(&mut self) {
        self.finished = Some(Vec::new());
    }

    /// Takes the finished interruptions that began before this moment, in the order of time.
    pub fn take_finished(&mut self, before: u64) -> std::vec::Drain<'_, FinishedInterruption> {
        let finished = self.finished.get_or_insert_default();
        let ready = finished.partition_point(|interruption| interruption.begun < before);
        finished.drain(..ready)
    }

    /// The interruption that may still continue: its start, and when it was last seen.
    #[must_use]
    pub fn unfinished(&self) -> Option<(u64, u64)> {
        let open = self.interruption.as_ref()?;
        let last_seen = if self.frames.is_empty() { open.last } else { self.charged_until };
        Some((open.begun, last_seen))
    }

    /// The time of the last event.
    #[must_use]
    pub fn last(&self) -> u64 {
        self.last
    }

    /// Whether context tracking reports entries on this CPU.
    #[must_use]
    pub fn is_tracked(&self) -> bool {
        self.tracked
    }

    /// Counts a record that could not be decoded.
    pub fn count_unexpected(&mut self, culprit: TracedCulprit) {
        self.stats.rows.row(CulpritKey { cause: Cause::Unattributed, culprit }).nested += 1;
    }

    /// Applies an event to the state.
    fn apply(&mut self, context: &mut TraceContext, event: &TraceEvent) {
        let mut event = *event;
        if event.at < self.last {
            self.stats.backwards += 1;
            event.at = self.last;
        }
        self.last = event.at;
        self.stack_owner = StackOwner::Nothing;
        // The kernel switches address spaces between the event of a switch and the switch itself.
        // That flush still belongs to the previous task (`switch_mm_irqs_off()`,
        // arch/x86/mm/tlb.c).
        if event.kind == EventKind::TlbFlush && self.task != Some(event.pid) {
            return;
        }
        // During a switch, an NMI still belongs to the previous task.
        let late = event.kind == EventKind::Nmi && self.task.is_some();
        if self.task != Some(event.pid) && !late {
            self.resync(context, &event);
        }
        let at = event.at;
        if !self.frames.is_empty() && event.kind != EventKind::Nmi {
            self.charge_time(at);
        }
        let handled = self.dispatch(context, &event);
        debug_assert!(handled.is_some(), "the values of another event: {event:?}");
        if let Some(interruption) = &mut self.interruption {
            interruption.resched = event.resched;
        }
        self.check_entries(at);
    }

    /// Ends a phase at this moment and begins the next.
    pub fn end_phase(&mut self, at: u64) -> PhaseStats {
        let at = at.max(self.last);
        self.end_unless_nested();
        if let Some(interruption) = self.interruption {
            // It continues: counted here with its time so far, and again in the next phase.
            self.charge_time(at);
            if let Some(history) = &mut self.history {
                history.cut(&self.frames, at);
            }
            let first = self.frames.iter().find(|frame| frame.first);
            let primary = interruption.primary.or(first.map(NestedFrame::identity));
            self.count_interruption(&interruption, primary, at);
            for i in 0..self.frames.len() {
                let frame = self.frames[i];
                if frame.kind != InterruptionKind::Kernel {
                    self.stats.rows.row(frame.identity()).ticks += frame.ticks;
                }
                self.frames[i].ticks = 0;
            }
            self.interruption =
                Some(Interruption { begun: at, ticks_outside_frames: 0, ..interruption });
        } else {
            self.end_undisturbed(at);
            if let IdleSince::Since(_) = self.undisturbed {
                self.undisturbed = IdleSince::Since(at);
            }
        }
        self.charged_until = at;
        self.first_breach = None;
        std::mem::take(&mut self.stats)
    }

    fn set_running_task(&mut self, context: &TraceContext, pid: i32) {
        self.task = Some(pid);
        self.runs_workload = context.is_workload(pid);
    }

    /// Ends the undisturbed time, if there is one.
    fn end_undisturbed(&mut self, at: u64) {
        if let IdleSince::Since(since) = self.undisturbed
            && self.runs_workload
        {
            let stretch = at.saturating_sub(since);
            self.stats.longest = Some(self.stats.longest.map_or(stretch, |l| l.max(stretch)));
            if let (Some(history), Some(pid)) = (&mut self.history, self.task) {
                history.undisturbed(since, at, pid);
            }
        }
    }

    fn begin_interruption(&mut self, at: u64) {
        self.end_undisturbed(at);
        self.charged_until = at;
        self.undisturbed = IdleSince::Unknown;
        self.interruption = Some(Interruption {
            begun: at,
            last: at,
            of: self.task.filter(|_| self.runs_workload),
            primary: None,
            has_first: false,
            carrier: false,
            resched: false,
            ticks_outside_frames: 0,
            last_handler: None,
            fault: false,
            workload_waits: false,
        });
    }

    /// Ends the interruption at the end of its last frame, unless a frame is still open.
    fn end_unless_nested(&mut self) {
        if let Some(interruption) = self.interruption
            && self.frames.is_empty()
        {
            self.end_interruption(interruption.last);
        }
    }

    /// Ends the interruption; the undisturbed time begins.
    fn end_interruption(&mut self, at: u64) {
        while !self.frames.is_empty() {
            self.pop_frame(at);
        }
        if let Some(interruption) = self.interruption.take() {
            self.count_interruption(&interruption, interruption.primary, at);
        }
        self.undisturbed = IdleSince::Since(at);
        self.charged_until = at;
    }

    fn count_interruption(
        &mut self,
        interruption: &Interruption,
        primary: Option<CulpritKey>,
        end: u64,
    ) {
        let begun = interruption.begun;
        let key = primary.unwrap_or(UNKNOWN);
        let row = self.stats.rows.row(key);
        row.count += 1;
        row.ticks += interruption.ticks_outside_frames;
        row.max = row.max.max(end.saturating_sub(begun));
        self.stats.interruptions += 1;
        self.previous = Some((end, key));
        self.check_entries(begun);
        if end.saturating_sub(begun) > self.limit.ticks {
            self.note_breach(begun, end - begun);
        }
        if let Some(finished) = &mut self.finished {
            finished.push(FinishedInterruption { begun, end, key });
        }
        if let Some(history) = &mut self.history {
            history.interruption(begun, end, key);
        }
    }

    /// Closes everything that is open, at the time when it was last seen.
    fn abandon(&mut self) {
        if self.interruption.is_some() {
            self.end_interruption(self.charged_until);
        }
        self.frames.clear();
        self.undisturbed = IdleSince::Unknown;
    }

    /// A task runs without a switch to it: this is the first event, or events are missing.
    fn resync(&mut self, context: &TraceContext, event: &TraceEvent) {
        if self.task.is_some() {
            self.stats.resyncs += 1;
            self.stats.silent = self.stats.silent.or(self.task);
            if let Some(history) = &mut self.history {
                history.lost(self.charged_until);
            }
        }
        self.abandon();
        self.set_running_task(context, event.pid);
        if let Some(since) = self.since.take()
            && event.kind.begins()
        {
            self.undisturbed = IdleSince::Since(since);
        }
        if !self.runs_workload && event.pid != 0 {
            self.begin_interruption(event.at);
            let culprit = TracedCulprit::Task { pid: event.pid, comm: ShortName::default() };
            self.push_frame(
                event.at,
                InterruptionKind::Task,
                CulpritKey { cause: Cause::Kthread, culprit },
            );
        }
    }
}

#[cfg(test)]
pub mod tests;
