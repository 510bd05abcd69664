//! The stack of what runs inside an interruption: opening and closing frames, and giving each its
//! own time.

use super::super::culprit_stats::CulpritKey;
use super::breach::StackOwner;
use super::parts::{InterruptionKind, NestedFrame, names_outer_frame};
use super::{FRAMES_MAX, InterruptionTracker};

impl InterruptionTracker {
    /// Attributes the time since the last event to the innermost open frame.
    pub(super) fn charge_time(&mut self, at: u64) {
        let ticks = at.saturating_sub(self.charged_until);
        match (self.frames.last_mut(), &mut self.interruption) {
            (Some(frame), _) => frame.ticks += ticks,
            (None, Some(interruption)) => {
                interruption.ticks_outside_frames += ticks;
                interruption.last = at;
            }
            (None, None) => {}
        }
        self.charged_until = at.max(self.charged_until);
    }

    /// Opens a frame with a known culprit.
    pub(super) fn push_frame(&mut self, at: u64, kind: InterruptionKind, key: CulpritKey) {
        self.open_frame(at, kind, Some(key), key);
    }

    /// Opens a frame that an inner frame may name; `otherwise` is its culprit when none does.
    pub(super) fn open_frame(
        &mut self,
        at: u64,
        kind: InterruptionKind,
        key: Option<CulpritKey>,
        otherwise: CulpritKey,
    ) {
        self.charge_time(at);
        if self.frames.len() >= FRAMES_MAX {
            // No kernel nests this deep; ends were lost.
            self.pop_frame(at);
        }
        let mut merged = false;
        if let Some(below) = self.frames.last_mut()
            && below.key.is_none()
            && names_outer_frame(kind, below.kind)
        {
            below.key = key;
            merged = true;
        }
        let names_entry = self.is_unnamed()
            && matches!(kind, InterruptionKind::Syscall | InterruptionKind::PageFault);
        let Some(interruption) = &mut self.interruption else { return };
        if merged && self.frames.last().is_some_and(|below| below.first) {
            interruption.primary = key;
        }
        let first =
            !merged && (!interruption.has_first || names_entry) && kind != InterruptionKind::Kernel;
        if first {
            interruption.has_first = true;
            interruption.primary = key;
        }
        interruption.last_handler = None;
        interruption.fault &= !self.frames.is_empty();
        self.stack_owner = StackOwner::Frame(self.frames.len());
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

    /// Closes the innermost frame.
    pub(super) fn pop_frame(&mut self, at: u64) {
        self.charge_time(at);
        let Some(frame) = self.frames.pop() else { return };
        let Some(interruption) = &mut self.interruption else { return };
        interruption.last = at;
        if frame.kind == InterruptionKind::Kernel {
            interruption.ticks_outside_frames += frame.ticks;
            return;
        }
        let key = frame.identity();
        if let Some(history) = &mut self.history {
            history.frame(self.frames.len() + 1, &frame, at);
        }
        if frame.first && interruption.primary.is_none() {
            interruption.primary = Some(key);
        }
        let row = self.stats.rows.row(key);
        row.ticks += frame.ticks;
        row.stack = row.stack.or(frame.stack);
        row.nested += u64::from(!frame.first && !frame.merged);
    }

    /// Closes the innermost frame of that kind and everything inside it. Ignores an end without a
    /// beginning, which was before the trace or before a switch.
    pub(super) fn close_frame(&mut self, at: u64, kind: InterruptionKind) {
        if let Some(depth) = self.frames.iter().rposition(|frame| frame.kind == kind) {
            while self.frames.len() > depth {
                self.pop_frame(at);
            }
        }
    }
}
