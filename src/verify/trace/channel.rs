//! The pages of one CPU → its [`InterruptionTracker`], with what was lost on the way. Pure but for
//! reading.

use super::culprit_stats::TracedCulprit;
use super::decode::{DecodedRecord, EventDecoder};
use super::gap_correlation::GapCorrelator;
use super::interruptions::{InterruptionTracker, PhaseStats, TraceContext};
use super::record_window::RecordWindow;
use super::trace_events::{self, EventSpec};
use cpushield_linux::page_buffer::PageBuffer;
use cpushield_linux::ring_buffer::{self, LostRecords, PageLayout};
use cpushield_linux::tracefs::{BufferStats, TracePipe};

/// Pages read in one go; a writer faster than this reader must not keep it here for ever.
const PAGES_MAX: usize = 16 << 10;

/// What one phase saw on one CPU, in ticks.
#[derive(Debug, Default)]
pub struct TracePhase {
    /// Interruptions.
    pub seen: PhaseStats,
    /// How often each event of the catalogue was seen, by its place there.
    pub events: Vec<u64>,
    /// Records lost as the pages say.
    pub lost: u64,
    /// A page says that records were lost, but not how many.
    pub lost_unknown: bool,
    /// Bytes not understood.
    pub skipped: u64,
}

impl TracePhase {
    /// Records of any kind.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.events.iter().sum()
    }

    /// Name and count of the events that were seen.
    pub fn named(&self) -> impl Iterator<Item = (&'static EventSpec, u64)> + '_ {
        let seen = trace_events::events().zip(&self.events);
        seen.filter(|(_, count)| **count > 0).map(|(spec, count)| (spec, *count))
    }
}

/// One CPU being recorded.
#[derive(Debug)]
pub struct CpuChannel {
    /// The CPU.
    pub cpu: usize,
    pipe: TracePipe,
    /// Its state machine.
    pub tracker: InterruptionTracker,
    /// Where its interruptions meet the gaps.
    pub correlator: GapCorrelator,
    phase: TracePhase,
    /// The records between two reads of the counters.
    pub window: RecordWindow,
    /// The kernel's counters at the beginning of the phase.
    pub stats: BufferStats,
    /// The thread that was running at the beginning of the phase, with its CPU time then.
    pub runner: Option<(i32, u64)>,
}

impl CpuChannel {
    /// A channel with nothing read yet.
    #[must_use]
    pub fn new(cpu: usize, pipe: TracePipe) -> CpuChannel {
        let mut tracker = InterruptionTracker::default();
        tracker.keep_finished();
        CpuChannel {
            cpu,
            pipe,
            tracker,
            correlator: GapCorrelator::new(),
            phase: TracePhase::default(),
            window: RecordWindow::default(),
            stats: BufferStats::default(),
            runner: None,
        }
    }

    /// Throws away what is there.
    ///
    /// # Errors
    /// The kernel's answer.
    pub fn discard(&mut self) -> cpushield_linux::Result<()> {
        for _ in 0..PAGES_MAX {
            if self.pipe.next_page()?.is_none() {
                break;
            }
        }
        Ok(())
    }

    /// Reads what is there. Events after `end` are those of the next phase; the phase that ends
    /// is returned when there was such an event. The pages are kept where somebody wants them.
    ///
    /// # Errors
    /// The kernel's answer.
    pub fn read(
        &mut self,
        decoder: &EventDecoder,
        shared: &mut TraceContext,
        end: Option<u64>,
        mut keep: Option<&mut PageBuffer>,
    ) -> cpushield_linux::Result<Option<TracePhase>> {
        let layout = self.pipe.layout();
        let mut ended = None;
        for _ in 0..PAGES_MAX {
            let Some(page) = self.pipe.next_page()? else { break };
            if let Some(spool) = &mut keep {
                spool.add(self.cpu, page, layout.page_size());
            }
            let end = end.filter(|_| ended.is_none());
            let mut into = ChannelSink {
                tracker: &mut self.tracker,
                phase: &mut self.phase,
                window: Some(&mut self.window),
            };
            ended = into.page(&layout, page, decoder, shared, end).or(ended);
        }
        if end.is_some() && ended.is_none() {
            self.tracker.release_held(shared);
        }
        Ok(ended)
    }

    /// The form of its pages.
    #[must_use]
    pub fn layout(&self) -> PageLayout {
        self.pipe.layout()
    }

    /// Everything before this moment was read.
    pub fn advance(&mut self, at: u64) {
        let at = self.tracker.held_since().map_or(at, |held| at.min(held));
        let open = self.tracker.unfinished().filter(|(begun, _)| *begun < at);
        self.correlator.add_interruptions(self.tracker.take_finished(at), open, at);
    }

    /// Ends the phase at this moment.
    pub fn end_phase(&mut self, at: u64) -> TracePhase {
        let seen = self.tracker.end_phase(at);
        TracePhase { seen, ..std::mem::take(&mut self.phase) }
    }
}

/// Where pages go.
#[derive(Debug)]
pub struct ChannelSink<'a> {
    /// The state machine.
    pub tracker: &'a mut InterruptionTracker,
    /// The counts.
    pub phase: &'a mut TracePhase,
    /// Where the counters of the kernel are read too.
    pub window: Option<&'a mut RecordWindow>,
}

impl ChannelSink<'_> {
    /// One page. See [`CpuChannel::read`] for `end`.
    pub fn page(
        &mut self,
        layout: &PageLayout,
        page: &[u8],
        decoder: &EventDecoder,
        shared: &mut TraceContext,
        end: Option<u64>,
    ) -> Option<TracePhase> {
        let page = ring_buffer::decode(layout, page);
        match page.lost {
            LostRecords::Nothing => {}
            LostRecords::Count(count) => {
                self.phase.lost = self.phase.lost.saturating_add(count);
                self.tracker.release_held(shared);
                self.tracker.events_lost();
            }
            LostRecords::Some => {
                self.phase.lost_unknown = true;
                self.tracker.release_held(shared);
                self.tracker.events_lost();
            }
        }
        let mut ended = None;
        let mut records = page.records();
        for record in records.by_ref() {
            // The stack of an event that came in time may come late.
            let stack = self.tracker.awaits_stack() && decoder.callers(record.bytes).is_some();
            if ended.is_none()
                && let Some(end) = end.filter(|end| record.timestamp > *end && !stack)
            {
                self.tracker.release_held(shared);
                let seen = self.tracker.end_phase(end);
                ended = Some(TracePhase { seen, ..std::mem::take(self.phase) });
            }
            match decoder.decode(&record) {
                DecodedRecord::Event(index, event) => {
                    if self.phase.events.len() <= index {
                        self.phase.events.resize(index + 1, 0);
                    }
                    self.phase.events[index] += 1;
                    if let Some(window) = &mut self.window {
                        window.record(index, record.timestamp);
                    }
                    self.tracker.handle_event(shared, &event);
                }
                DecodedRecord::Foreign(id) => match decoder.callers(record.bytes) {
                    Some(callers) => self.tracker.handle_stack(shared, callers),
                    None => self.tracker.count_unexpected(TracedCulprit::Foreign(id)),
                },
                DecodedRecord::Short(index) => {
                    let name =
                        trace_events::events().nth(index).map_or("an event", |spec| spec.name);
                    self.tracker.count_unexpected(TracedCulprit::Short(name));
                }
            }
        }
        if records.skipped() > 0 {
            self.phase.skipped = self.phase.skipped.saturating_add(records.skipped());
            self.tracker.release_held(shared);
            self.tracker.events_lost();
        }
        ended
    }
}
