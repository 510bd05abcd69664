//! Turns recorded pages into evidence, on any machine. Pure.
//!
//! Does the same as a live [`super::TraceRecorder`], without the machine: for traces that were
//! saved to files, for tests, and to measure the speed of decoding.

use super::channel::{ChannelSink, TracePhase};
use super::cpu_evidence::{TraceEvidence, build_evidence};
use super::culprit_stats::CulpritNames;
use super::decode::EventDecoder;
use super::interruptions::{EntryText, InterruptionTracker, LogEntry, TraceContext};
use super::stacks::{StackForm, StackTable};
use super::trace_events;
use cpushield_linux::sys::clock::{ClockTicks, TickScale};
use cpushield_linux::text::kallsyms::KernelSymbols;
use cpushield_linux::text::trace_format::EventFormat;
use cpushield_linux::trace::ring_buffer::PageLayout;
use std::collections::HashMap;

/// Replays the pages of one CPU.
#[derive(Debug)]
pub struct PageReplay {
    cpu: usize,
    layout: PageLayout,
    decoder: EventDecoder,
    context: TraceContext,
    symbols: KernelSymbols,
    tracker: InterruptionTracker,
    phase: TracePhase,
    scale: TickScale,
    begun: ClockTicks,
}

/// What is known about a recorded trace.
#[derive(Debug)]
pub struct RecordedTrace<'a> {
    /// The CPU whose pages these are.
    pub cpu: usize,
    /// The layout of the pages.
    pub layout: PageLayout,
    /// System, name and format of each event.
    pub formats: &'a [(String, String, EventFormat)],
    /// The functions of the kernel.
    pub symbols: KernelSymbols,
    /// Converts ticks of the trace clock to nanoseconds.
    pub scale: TickScale,
    /// The threads of the workload.
    pub workload: &'a [i32],
}

impl PageReplay {
    /// A replay without pages.
    #[must_use]
    pub fn new(recorded: RecordedTrace<'_>) -> PageReplay {
        let formats: Vec<_> = trace_events::events()
            .filter_map(|spec| {
                let mut formats = recorded.formats.iter();
                let (_, _, format) = formats.find(|(system, name, _)| {
                    system.as_str() == spec.system && name.as_str() == spec.name
                })?;
                Some((spec, format.clone()))
            })
            .collect();
        let mut context = TraceContext {
            workload: recorded.workload.iter().copied().collect(),
            ticks_per_ns: 1.0 / recorded.scale.ns_per_tick,
            ..TraceContext::from_symbols(&recorded.symbols)
        };
        let (mut decoder, _) = EventDecoder::new(&formats);
        let stack = recorded.formats.iter().find(|(_, name, _)| name == "kernel_stack");
        let stack = stack.and_then(|(_, _, form)| StackForm::from_format(form));
        context.entry_text = EntryText::find(&recorded.symbols).filter(|_| stack.is_some());
        decoder.expect_stacks(stack);
        PageReplay {
            cpu: recorded.cpu,
            layout: recorded.layout,
            decoder,
            context,
            symbols: recorded.symbols,
            tracker: InterruptionTracker::default(),
            phase: TracePhase::default(),
            scale: recorded.scale,
            begun: ClockTicks::default(),
        }
    }

    /// Replays the next page.
    pub fn page(&mut self, page: &[u8]) {
        let mut into = ChannelSink {
            tracker: &mut self.tracker,
            phase: &mut self.phase,
            window: None,
            records: 0,
        };
        into.page(&self.layout, page, &self.decoder, &mut self.context, None);
    }

    /// Replays the next page. Records after `end` belong to the next phase; when there is such a
    /// record, returns the evidence of the phase that ends.
    pub fn page_until(&mut self, page: &[u8], end: ClockTicks) -> Option<TraceEvidence> {
        let mut into = ChannelSink {
            tracker: &mut self.tracker,
            phase: &mut self.phase,
            window: None,
            records: 0,
        };
        let phase = into.page(&self.layout, page, &self.decoder, &mut self.context, Some(end))?;
        Some(self.build_evidence_until(&phase, end))
    }

    /// Ends a phase at this moment and returns its evidence.
    pub fn end_phase(&mut self, at: ClockTicks) -> TraceEvidence {
        self.tracker.release_held(&mut self.context);
        let stats = self.tracker.end_phase(at.0);
        let phase = TracePhase { stats, ..std::mem::take(&mut self.phase) };
        self.build_evidence_until(&phase, at)
    }

    /// Keeps every single event from this moment on; see [`super::timeline`].
    pub(super) fn keep_history_from(&mut self, at: u64) {
        self.tracker.keep_history();
        self.tracker.recording_started(at);
    }

    /// The stacks seen so far.
    pub(super) fn stacks(&self) -> &StackTable {
        self.tracker.stacks()
    }

    /// Takes the finished entries.
    pub(super) fn take_history(&mut self) -> Vec<LogEntry> {
        self.tracker.take_history()
    }

    /// Ends everything that is open; no page follows.
    pub(super) fn finish(&mut self, at: u64) {
        self.tracker.release_held(&mut self.context);
        self.tracker.finish(at);
    }

    fn build_evidence_until(&mut self, phase: &TracePhase, end: ClockTicks) -> TraceEvidence {
        let span_ns = self.scale.duration_ns(end.saturating_sub(self.begun));
        self.begun = end;
        let tasks = HashMap::new();
        let names = CulpritNames {
            symbols: &self.symbols,
            tasks: &tasks,
            stacks: Some(self.tracker.stacks()),
        };
        build_evidence(self.cpu, span_ns, phase, &names, &self.scale, 0, None)
    }
}
