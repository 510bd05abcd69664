//! The first breach of a limit, and the stacks behind events.

use super::super::culprit_stats::CulpritKey;
use super::InterruptionTracker;
use crate::verify::trace::stacks::StackTable;

/// What must not happen in a phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PhaseLimit {
    /// More entries into the kernel than this.
    pub(super) entries: u64,
    /// An interruption of more ticks than this.
    pub(super) ticks: u64,
}

impl Default for PhaseLimit {
    fn default() -> PhaseLimit {
        PhaseLimit { entries: u64::MAX, ticks: u64::MAX }
    }
}

/// A limit was broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimitBreach {
    /// When, in ticks: the entry that was one too many, or the beginning of what took too long.
    pub at: u64,
    /// Entries of the phase up to then, that one too.
    pub entries: u64,
    /// What took too long; 0 when the entries were too many.
    pub ticks: u64,
}

/// Whose the stack behind an event is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StackOwner {
    /// Nobody's: the event began nothing.
    Nobody,
    /// What was opened at this depth.
    Frame(usize),
    /// This row's: it has no frame.
    Row(CulpritKey),
}

impl InterruptionTracker {
    /// From now on the first breach of each phase is noted.
    pub fn limit(&mut self, entries: Option<u64>, ticks: Option<u64>) {
        let (entries, ticks) = (entries.unwrap_or(u64::MAX), ticks.unwrap_or(u64::MAX));
        self.limit = PhaseLimit { entries, ticks };
    }

    /// Entries of this phase so far, or interruptions where those are more: a thread may run there
    /// that no interrupt brought.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.seen.entries.max(self.seen.stays)
    }

    /// The first breach of this phase.
    #[must_use]
    pub fn breached(&self) -> Option<LimitBreach> {
        self.breached
    }

    pub(super) fn breach(&mut self, at: u64, ticks: u64) {
        if self.breached.is_none() {
            self.breached = Some(LimitBreach { at, entries: self.entries(), ticks });
        }
    }

    /// Whether the entries are too many by now.
    pub(super) fn check_entries(&mut self, at: u64) {
        if self.entries() > self.limit.entries {
            self.breach(at, 0);
        }
    }

    /// Keeps the stack of the last event, callers innermost first.
    pub(super) fn keep_stack(&mut self, callers: Vec<u64>) {
        if self.stackee == StackOwner::Nobody {
            return;
        }
        let number = self.stacks.number(callers);
        match self.stackee {
            StackOwner::Frame(depth) => {
                if let Some(frame) = self.frames.get_mut(depth) {
                    frame.stack = frame.stack.or(number);
                }
            }
            StackOwner::Row(key) => {
                let row = self.seen.rows.row(key);
                row.stack = row.stack.or(number);
            }
            StackOwner::Nobody => {}
        }
    }

    /// The stacks that were seen, by number.
    #[must_use]
    pub fn stacks(&self) -> &StackTable {
        &self.stacks
    }
}
