//! Feeds the pages of one CPU to its [`InterruptionTracker`], and counts what was lost. Pure except
//! for reading the pages.

use super::culprit_stats::TracedCulprit;
use super::decode::{DecodedRecord, EventDecoder};
use super::gap_correlation::GapCorrelator;
use super::interruptions::{InterruptionTracker, PhaseStats, TraceContext};
use super::record_window::RecordWindow;
use super::trace_events::{self, EventSpec};
use cpushield_linux::sys::clock::ClockTicks;
use cpushield_linux::trace::page_buffer::PageBuffer;
use cpushield_linux::trace::ring_buffer::{self, LostRecords, PageLayout};
use cpushield_linux::trace::tracefs::{BufferStats, TracePipe};
use std::time::Instant;

/// The most pages discarded at once, so that a fast writer cannot keep this reader busy forever.
const PAGES_MAX: usize = 16 << 10;

/// The pages that are read at once, whatever the time.
const PAGES_LEAST: usize = 64;

/// What one phase saw on one CPU, in ticks.
#[derive(Debug, Default)]
pub struct TracePhase {
    /// Interruptions.
    pub stats: PhaseStats,
    /// How often each event of the catalogue was seen, by its place there.
    pub events: Vec<u64>,
    /// Lost records, as the pages report them.
    pub lost: u64,
    /// Whether a page reports lost records without their number.
    pub lost_unknown: bool,
    /// Bytes that could not be decoded.
    pub skipped: u64,
}

impl TracePhase {
    /// The number of records of any kind.
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

/// The recording of one CPU.
#[derive(Debug)]
pub struct CpuChannel {
    /// The CPU.
    pub cpu: usize,
    pipe: TracePipe,
    /// Turns its events into interruptions.
    pub tracker: InterruptionTracker,
    /// Correlates its interruptions with the gaps.
    pub correlator: GapCorrelator,
    phase: TracePhase,
    /// The records between two reads of the counters.
    pub window: RecordWindow,
    /// The kernel's counters at the beginning of the phase.
    pub stats: BufferStats,
    /// The records that were read since then.
    pub records_read: u64,
    /// The last record that was read, when later ones were left for want of time.
    pub behind: Option<u64>,
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
            records_read: 0,
            behind: None,
            runner: None,
        }
    }

    /// Discards what is in the buffer.
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

    /// Reads what is in the buffer, until the time is over: a fast writer would keep it busy
    /// forever. Events after `end` belong to the next phase. With one, it reads up to the first
    /// such event, whatever the time, and then returns the phase that ended. The pages are also
    /// added to `keep`.
    ///
    /// # Errors
    /// The kernel's answer.
    pub fn read(
        &mut self,
        decoder: &EventDecoder,
        context: &mut TraceContext,
        (end, until): (Option<ClockTicks>, Instant),
        mut keep: Option<&mut PageBuffer>,
    ) -> cpushield_linux::Result<Option<TracePhase>> {
        let layout = self.pipe.layout();
        let mut ended = None;
        for pages in 0.. {
            let is_late = || pages >= PAGES_LEAST && Instant::now() >= until;
            self.behind = (end.is_none() && is_late()).then(|| self.tracker.last());
            if ended.is_some() || self.behind.is_some() {
                break;
            }
            let Some(page) = self.pipe.next_page()? else { break };
            if let Some(spool) = &mut keep {
                spool.add(self.cpu, page, layout.page_size());
            }
            let mut into = ChannelSink {
                tracker: &mut self.tracker,
                phase: &mut self.phase,
                window: Some(&mut self.window),
                records: 0,
            };
            ended = into.page(&layout, page, decoder, context, end);
            self.records_read += into.records;
        }
        if end.is_some() && ended.is_none() {
            self.tracker.release_held(context);
        }
        Ok(ended)
    }

    /// The layout of its pages.
    #[must_use]
    pub fn layout(&self) -> PageLayout {
        self.pipe.layout()
    }

    /// Passes the interruptions to the correlator; everything before this moment was read.
    pub fn advance(&mut self, ClockTicks(at): ClockTicks) {
        let at = self.behind.map_or(at, |behind| at.min(behind));
        let at = self.tracker.held_since().map_or(at, |held| at.min(held));
        let open = self.tracker.unfinished().filter(|(begun, _)| *begun < at);
        self.correlator.add_interruptions(self.tracker.take_finished(at), open, at);
    }

    /// Ends the phase at this moment.
    pub fn end_phase(&mut self, at: ClockTicks) -> TracePhase {
        let stats = self.tracker.end_phase(at.0);
        TracePhase { stats, ..std::mem::take(&mut self.phase) }
    }
}

/// The parts of a channel that a page is decoded into.
#[derive(Debug)]
pub struct ChannelSink<'a> {
    /// Turns the events into interruptions.
    pub tracker: &'a mut InterruptionTracker,
    /// The counts.
    pub phase: &'a mut TracePhase,
    /// The window of records to compare with the perf counters; `None` without a second witness.
    pub window: Option<&'a mut RecordWindow>,
    /// The records of any kind so far.
    pub records: u64,
}

impl ChannelSink<'_> {
    /// Decodes one page. See [`CpuChannel::read`] for `end`.
    pub fn page(
        &mut self,
        layout: &PageLayout,
        page: &[u8],
        decoder: &EventDecoder,
        context: &mut TraceContext,
        end: Option<ClockTicks>,
    ) -> Option<TracePhase> {
        let page = ring_buffer::decode(layout, page);
        match page.lost {
            LostRecords::Nothing => {}
            LostRecords::Count(count) => {
                self.phase.lost = self.phase.lost.saturating_add(count);
                self.tracker.release_held(context);
                self.tracker.events_lost();
            }
            LostRecords::Some => {
                self.phase.lost_unknown = true;
                self.tracker.release_held(context);
                self.tracker.events_lost();
            }
        }
        let mut ended = None;
        let mut records = page.records();
        for record in records.by_ref() {
            self.records += 1;
            // The stack of an event before `end` may arrive after it.
            let stack = self.tracker.awaits_stack() && decoder.callers(record.bytes).is_some();
            if ended.is_none()
                && let Some(end) = end.filter(|end| record.timestamp > end.0 && !stack)
            {
                self.tracker.release_held(context);
                let stats = self.tracker.end_phase(end.0);
                ended = Some(TracePhase { stats, ..std::mem::take(self.phase) });
            }
            match decoder.decode(&record) {
                DecodedRecord::Event(index, event) => {
                    if self.phase.events.len() <= index {
                        self.phase.events.resize(index + 1, 0);
                    }
                    self.phase.events[index] += 1;
                    if let Some(window) = &mut self.window {
                        window.record(index, ClockTicks(record.timestamp));
                    }
                    self.tracker.handle_event(context, &event);
                }
                DecodedRecord::Foreign(id) => match decoder.callers(record.bytes) {
                    Some(callers) => self.tracker.handle_stack(context, callers),
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
            self.tracker.release_held(context);
            self.tracker.events_lost();
        }
        ended
    }
}
