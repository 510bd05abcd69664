//! The first breach of a limit, and the stacks behind events.

use super::super::culprit_stats::CulpritKey;
use super::InterruptionTracker;
use crate::trace::stacks::StackTable;

/// The limits of a phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PhaseLimit {
    /// The most entries into the kernel.
    pub(super) entries: u64,
    /// The longest interruption, in ticks.
    pub(super) ticks: u64,
}

impl Default for PhaseLimit {
    fn default() -> PhaseLimit {
        PhaseLimit { entries: u64::MAX, ticks: u64::MAX }
    }
}

/// A breach of a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PhaseBreach {
    /// When, in ticks: at the entry that was one too many, or at the start of a long interruption.
    pub at: u64,
    /// Entries of the phase up to and including that one.
    pub entries: u64,
    /// The length of the interruption; 0 when there were too many entries.
    pub ticks: u64,
}

/// What the stack behind an event belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StackOwner {
    /// To nothing: the event began nothing.
    Nothing,
    /// To the frame at this depth.
    Frame(usize),
    /// To this row, which has no frame.
    Row(CulpritKey),
}

impl InterruptionTracker {
    /// Sets the limits. From now on the first breach of each phase is noted.
    pub fn set_limits(&mut self, entries: Option<u64>, ticks: Option<u64>) {
        let (entries, ticks) = (entries.unwrap_or(u64::MAX), ticks.unwrap_or(u64::MAX));
        self.limit = PhaseLimit { entries, ticks };
    }

    /// The number of entries in this phase so far; the number of interruptions where that is
    /// higher, because a thread may run without an interrupt.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.stats.entries.max(self.stats.interruptions)
    }

    /// The first breach of this phase.
    #[must_use]
    pub fn first_breach(&self) -> Option<PhaseBreach> {
        self.first_breach
    }

    pub(super) fn note_breach(&mut self, at: u64, ticks: u64) {
        if self.first_breach.is_none() {
            self.first_breach = Some(PhaseBreach { at, entries: self.entries(), ticks });
        }
    }

    /// Notes a breach when there are too many entries.
    pub(super) fn check_entries(&mut self, at: u64) {
        if self.entries() > self.limit.entries {
            self.note_breach(at, 0);
        }
    }

    /// Stores the stack of the last event, innermost caller first.
    pub(super) fn keep_stack(&mut self, callers: Vec<u64>) {
        if self.stack_owner == StackOwner::Nothing {
            return;
        }
        let number = self.stacks.number(callers);
        match self.stack_owner {
            StackOwner::Frame(depth) => {
                if let Some(frame) = self.frames.get_mut(depth) {
                    frame.stack = frame.stack.or(number);
                }
            }
            StackOwner::Row(key) => {
                let row = self.stats.rows.row(key);
                row.stack = row.stack.or(number);
            }
            StackOwner::Nothing => {}
        }
    }

    /// The stacks seen so far, by number.
    #[must_use]
    pub fn stacks(&self) -> &StackTable {
        &self.stacks
    }
}
