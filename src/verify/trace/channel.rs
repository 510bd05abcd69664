//! The pages of one CPU → its [`Stays`], with what was lost on the way. Pure but for reading.

use super::catalogue::{self, Spec};
use super::decode::{Decoded, Decoder};
use super::join::Joiner;
use super::record_window::RecordWindow;
use super::rows::Who;
use super::stays::{Seen, Shared, Stays};
use cpushield_linux::ring_buffer::{self, Lost, PageLayout};
use cpushield_linux::spool::Spool;
use cpushield_linux::tracefs::{Pipe, Stats};

/// Pages read in one go; a writer faster than this reader must not keep it here for ever.
const PAGES_MAX: usize = 16 << 10;

/// What one phase saw on one CPU, in ticks.
#[derive(Debug, Default)]
pub struct Phase {
    /// Interruptions.
    pub seen: Seen,
    /// How often each event of the catalogue was seen, by its place there.
    pub events: Vec<u64>,
    /// Records lost as the pages say.
    pub lost: u64,
    /// A page says that records were lost, but not how many.
    pub lost_unknown: bool,
    /// Bytes not understood.
    pub skipped: u64,
}

impl Phase {
    /// Records of any kind.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.events.iter().sum()
    }

    /// Name and count of the events that were seen.
    pub fn named(&self) -> impl Iterator<Item = (&'static Spec, u64)> + '_ {
        let seen = catalogue::events().zip(&self.events);
        seen.filter(|(_, count)| **count > 0).map(|(spec, count)| (spec, *count))
    }
}

/// One CPU being recorded.
#[derive(Debug)]
pub struct Channel {
    /// The CPU.
    pub cpu: usize,
    pipe: Pipe,
    /// Its state machine.
    pub stays: Stays,
    /// Where its interruptions meet the gaps.
    pub joiner: Joiner,
    phase: Phase,
    /// The records between two reads of the counters.
    pub window: RecordWindow,
    /// The kernel's counters at the beginning of the phase.
    pub stats: Stats,
    /// The thread that was running at the beginning of the phase, with its CPU time then.
    pub runner: Option<(i32, u64)>,
}

impl Channel {
    /// A channel with nothing read yet.
    #[must_use]
    pub fn new(cpu: usize, pipe: Pipe) -> Channel {
        let mut stays = Stays::default();
        stays.keep_finished();
        Channel {
            cpu,
            pipe,
            stays,
            joiner: Joiner::new(),
            phase: Phase::default(),
            window: RecordWindow::default(),
            stats: Stats::default(),
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
        decoder: &Decoder,
        shared: &mut Shared,
        end: Option<u64>,
        mut keep: Option<&mut Spool>,
    ) -> cpushield_linux::Result<Option<Phase>> {
        let layout = self.pipe.layout();
        let mut ended = None;
        for _ in 0..PAGES_MAX {
            let Some(page) = self.pipe.next_page()? else { break };
            if let Some(spool) = &mut keep {
                spool.add(self.cpu, page, layout.page_size());
            }
            let end = end.filter(|_| ended.is_none());
            let mut into = Into {
                stays: &mut self.stays,
                phase: &mut self.phase,
                window: Some(&mut self.window),
            };
            ended = into.page(&layout, page, decoder, shared, end).or(ended);
        }
        if end.is_some() && ended.is_none() {
            self.stays.release(shared);
        }
        Ok(ended)
    }

    /// The form of its pages.
    #[must_use]
    pub fn layout(&self) -> PageLayout {
        self.pipe.layout()
    }

    /// Everything before this moment was read.
    pub fn heard(&mut self, at: u64) {
        let at = self.stays.held_since().map_or(at, |held| at.min(held));
        let open = self.stays.unfinished().filter(|(begun, _)| *begun < at);
        self.joiner.stays(self.stays.take_finished(at), open, at);
    }

    /// Ends the phase at this moment.
    pub fn cut(&mut self, at: u64) -> Phase {
        let seen = self.stays.cut(at);
        Phase { seen, ..std::mem::take(&mut self.phase) }
    }
}

/// Where pages go.
#[derive(Debug)]
pub struct Into<'a> {
    /// The state machine.
    pub stays: &'a mut Stays,
    /// The counts.
    pub phase: &'a mut Phase,
    /// Where the counters of the kernel are read too.
    pub window: Option<&'a mut RecordWindow>,
}

impl Into<'_> {
    /// One page. See [`Channel::read`] for `end`.
    pub fn page(
        &mut self,
        layout: &PageLayout,
        page: &[u8],
        decoder: &Decoder,
        shared: &mut Shared,
        end: Option<u64>,
    ) -> Option<Phase> {
        let page = ring_buffer::decode(layout, page);
        match page.lost {
            Lost::Nothing => {}
            Lost::Count(count) => {
                self.phase.lost = self.phase.lost.saturating_add(count);
                self.stays.release(shared);
                self.stays.gap();
            }
            Lost::Some => {
                self.phase.lost_unknown = true;
                self.stays.release(shared);
                self.stays.gap();
            }
        }
        let mut ended = None;
        let mut records = page.records();
        for record in records.by_ref() {
            // The stack of an event that came in time may come late.
            let stack = self.stays.awaits_stack() && decoder.callers(record.bytes).is_some();
            if ended.is_none()
                && let Some(end) = end.filter(|end| record.timestamp > *end && !stack)
            {
                self.stays.release(shared);
                let seen = self.stays.cut(end);
                ended = Some(Phase { seen, ..std::mem::take(self.phase) });
            }
            match decoder.decode(&record) {
                Decoded::Event(index, event) => {
                    if self.phase.events.len() <= index {
                        self.phase.events.resize(index + 1, 0);
                    }
                    self.phase.events[index] += 1;
                    if let Some(window) = &mut self.window {
                        window.record(index, record.timestamp);
                    }
                    self.stays.event(shared, &event);
                }
                Decoded::Foreign(id) => match decoder.callers(record.bytes) {
                    Some(callers) => self.stays.stack(shared, callers),
                    None => self.stays.odd(Who::Foreign(id)),
                },
                Decoded::Short(index) => {
                    let name = catalogue::events().nth(index).map_or("an event", |spec| spec.name);
                    self.stays.odd(Who::Short(name));
                }
            }
        }
        if records.skipped() > 0 {
            self.phase.skipped = self.phase.skipped.saturating_add(records.skipped());
            self.stays.release(shared);
            self.stays.gap();
        }
        ended
    }
}
